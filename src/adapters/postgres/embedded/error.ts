/** SQLSTATE of a server that takes no connection now, and may take one in a moment. */
export const CANNOT_CONNECT_NOW = '57P03';

/** Postgres can't run here, or does not answer. The message says why, and what to do. */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';
  /** Set if a server runs that may answer in a moment. So the start of a service waits for it. */
  readonly code: typeof CANNOT_CONNECT_NOW | undefined;

  constructor(message: string, options: ErrorOptions & { code?: typeof CANNOT_CONNECT_NOW } = {}) {
    super(message, options);
    this.code = options.code;
  }
}
