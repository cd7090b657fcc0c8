/** SQLSTATE of a server that takes no connection now, and may take one in a moment. */
export const CANNOT_CONNECT_NOW = '57P03';
/** SQLSTATE of a server whose disk is full. */
export const DISK_FULL = '53100';

type Code = typeof CANNOT_CONNECT_NOW | typeof DISK_FULL;

/** Postgres can't run here, or does not answer. The message says why, and what to do. */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';
  /** Set if the same call may succeed in a moment. So the start of a service waits. */
  readonly code: Code | undefined;

  constructor(message: string, options: ErrorOptions & { code?: Code } = {}) {
    super(message, options);
    this.code = options.code;
  }
}
