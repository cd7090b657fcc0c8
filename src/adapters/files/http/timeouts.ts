export interface HttpTimeouts {
  /** Until a connection stands, TLS included. */
  connectMs: number;
  /** Without a byte in either direction while a request is under way. */
  stallMs: number;
  /** How long a connection that nobody uses is kept. */
  idleMs: number;
}

export const TIMEOUTS: HttpTimeouts = { connectMs: 20_000, stallMs: 60_000, idleMs: 60_000 };
