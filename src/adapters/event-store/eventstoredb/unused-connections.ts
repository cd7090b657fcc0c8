import { Subchannel } from '@grpc/grpc-js/build/src/subchannel.js';

/*
 * A defect of gRPC: after a connection was refused, it is tried again a second later, although its
 * client was closed meanwhile. If the server takes it then, nothing closes it. Each client that is
 * replaced in an outage, and each look for the leader, could leave one open for good.
 */

/** Private parts of gRPC: a connection that can be opened again. */
interface Connection {
  /** How many channels use it. */
  refcount: number;
  /** True if it connects again after its pause. */
  continueConnecting: boolean;
  /** Ends its pause. */
  handleBackoffTimer(): void;
}

/** Keeps connections that nothing uses from being opened again. */
export function leaveUnusedClosed(): void {
  const connection = Subchannel.prototype as unknown as Connection;
  const { handleBackoffTimer } = connection;
  connection.handleBackoffTimer = function (this: Connection) {
    if (this.refcount === 0) this.continueConnecting = false;
    handleBackoffTimer.call(this);
  };
}
