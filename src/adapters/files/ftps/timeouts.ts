import { SLOW_MS } from '../slow-connection.ts';

export interface FtpsTimeouts {
  /** Limits each step of connecting: the TCP connect, the TLS start and the sign-in. */
  connectMs: number;
  /** Maximum time without an answer, or without a byte of a file that is under way. */
  stallMs: number;
  /** Limit for a server with which hardly a byte moves while it sends or takes a file or a listing. */
  slowMs: number;
  /** How long an unused connection stays open. */
  idleMs: number;
  /** A connection that was unused for longer must answer a NOOP before it is used again. */
  trustMs: number;
  /** How long a caller waits for a connection while all are in use, here or at the server. */
  queueMs: number;
  /** The longest pause between two tries at a server that accepts no connection at all. */
  busyMs: number;
}

export const TIMEOUTS: FtpsTimeouts = {
  connectMs: 20_000,
  stallMs: 60_000,
  slowMs: SLOW_MS,
  idleMs: 60_000,
  trustMs: 5_000,
  queueMs: 60_000,
  busyMs: 5_000,
};
