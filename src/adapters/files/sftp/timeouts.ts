import { SLOW_MS } from '../slow-connection.ts';

export interface SftpTimeouts {
  /** Limit until the TCP connection is open, and again until SFTP is open. */
  connectMs: number;
  /** Limit without a byte from the server while a request is unanswered. */
  stallMs: number;
  /** Limit for a server with which hardly a byte moves while a request is unanswered. */
  slowMs: number;
  /** How long an idle connection is kept. */
  idleMs: number;
  /**
   * A connection that was idle for this long must answer a test request before it is used again.
   */
  trustMs: number;
  /** How long a caller waits for a connection while the server accepts none at all. */
  queueMs: number;
  /** The longest pause between two tries at a server that accepts no connection at all. */
  busyMs: number;
}

export const TIMEOUTS: SftpTimeouts = {
  connectMs: 20_000,
  stallMs: 60_000,
  slowMs: SLOW_MS,
  idleMs: 60_000,
  trustMs: 5_000,
  queueMs: 60_000,
  busyMs: 5_000,
};
