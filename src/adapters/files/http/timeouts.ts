import { SLOW_MS } from '../slow-connection.ts';

export interface HttpTimeouts {
  /** Limit until a connection is open, TLS included. */
  connectMs: number;
  /**
   * Limit without a byte in either direction during a request. The time in which the request waits
   * for content to send does not count.
   */
  stallMs: number;
  /** Limit for a server with which hardly a byte moves while it sends or takes content. */
  slowMs: number;
  /** How long an idle connection is kept. */
  idleMs: number;
}

export const TIMEOUTS: HttpTimeouts = {
  connectMs: 20_000,
  stallMs: 60_000,
  slowMs: SLOW_MS,
  idleMs: 60_000,
};
