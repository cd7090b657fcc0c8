/** Codes of the driver and of Node for a connection that is lost or can't be made; 57P: a server that starts or stops; 53: one that is full. */
const UNAVAILABLE = /^(CONNECTION_|CONNECT_TIMEOUT$|ECONN|EPIPE$|ENOENT$|ETIMEDOUT$|EAI_AGAIN$|08|53|57P)/;

/** Whether Postgres could not be asked at all, or has no room: the same call may succeed in a moment. */
export function isPostgresUnavailable(error: unknown): boolean {
  return UNAVAILABLE.test(String((error as { code?: unknown } | null)?.code ?? ''));
}
