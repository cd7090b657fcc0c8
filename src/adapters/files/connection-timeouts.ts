import { SLOW_MS } from './slow-connection.ts';

/** The limits of a connection that a pool keeps: SFTP and FTPS. */
export interface ConnectionTimeouts {
  /**
   * Limits each step of connecting: SFTP has the TCP connection and its own start, FTPS the TCP
   * connection, the TLS start and the sign-in.
   */
  connectMs: number;
  /** Limit without a byte from the server while an answer, or a part of a file, is to come. */
  stallMs: number;
  /** Limit for a server with which hardly a byte moves while it answers, sends or takes a file. */
  slowMs: number;
  /** How long an unused connection stays open. */
  idleMs: number;
  /**
   * An unused connection must answer a test request before it is used again, if it was unused for
   * longer, or if an SFTP server has answered nothing on it for longer.
   */
  trustMs: number;
  /** How long a caller waits for a connection while the server accepts none, or all are in use. */
  queueMs: number;
  /** The longest pause between two tries at a server that accepts no connection at all. */
  busyMs: number;
}

export const TIMEOUTS: ConnectionTimeouts = {
  connectMs: 20_000,
  stallMs: 60_000,
  slowMs: SLOW_MS,
  idleMs: 60_000,
  trustMs: 5_000,
  queueMs: 60_000,
  busyMs: 5_000,
};
