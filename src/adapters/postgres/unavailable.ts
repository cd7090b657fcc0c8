/**
 * Codes of the driver and of Node for a connection that is lost or cannot be opened. 57P: the
 * server starts or stops. 53: it is out of resources. 25006: it takes no writes, after a failover
 * or because its disk is nearly full. 25P03, 25P04: it ended a transaction that took too long.
 */
const UNAVAILABLE =
  /^(CONNECTION_|CONNECT_TIMEOUT$|ECONN|EPIPE$|ENOENT$|ENOTFOUND$|E(HOST|NET)UNREACH$|ETIMEDOUT$|EAI_AGAIN$|08|25006$|25P0[34]|53|57P)/;

/**
 * Returns whether Postgres was unreachable, out of resources or read-only. The same call may
 * succeed in a moment.
 */
export function isPostgresUnavailable(error: unknown): boolean {
  return UNAVAILABLE.test(String((error as { code?: unknown } | null)?.code ?? ''));
}
