export interface HttpTimeouts {
  /** Limit until a connection is open, TLS included. */
  connectMs: number;
  /** Limit without a byte in either direction during a request. */
  stallMs: number;
  /** How long an idle connection is kept. */
  idleMs: number;
}

export const TIMEOUTS: HttpTimeouts = { connectMs: 20_000, stallMs: 60_000, idleMs: 60_000 };
