/*
 * Finds a connection pooler, such as PgBouncer, between Waybill and Postgres. One that lends a
 * session for a transaction breaks what Waybill needs a session for: locks would be granted to two
 * processes, or stay after their process has ended, and notifications would be lost.
 */
import type { Sql } from './connect.ts';
import { DatabaseUrlError } from './database-url.ts';
import { isCertificateFault } from './unavailable.ts';

const ADVICE =
  'Let DATABASE_URL name Postgres itself, or a pool in session mode that accepts the settings of ' +
  'a session (docs/operators.md, "Connection poolers"). Waybill pools its connections itself.';

/**
 * Asks each pool for its session. Throws DatabaseUrlError if two of them share one, if a pooler
 * rejects the settings of a session, and if the certificate of the server is not accepted.
 */
export async function requireOwnSessions(pools: Sql[]): Promise<void> {
  const sessions = new Set<number>();
  for (const sql of pools) {
    const [session] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`.catch(explain);
    sessions.add(session.pid);
  }
  // The pools keep their connections, so Postgres itself has a process for each.
  if (sessions.size < pools.length)
    throw new DatabaseUrlError(
      `A connection pooler lends one session of Postgres to several connections. ${ADVICE}`,
    );
}

/** Throws DatabaseUrlError for what another URL, or another file that it names, would change. */
function explain(error: Error): never {
  if (error.message.startsWith('unsupported startup parameter'))
    throw new DatabaseUrlError(
      `A connection pooler rejects a setting of Waybill's sessions (${error.message}). ${ADVICE}`,
    );
  if (isCertificateFault(error))
    throw new DatabaseUrlError(
      `The certificate of Postgres is not accepted: ${error.message}. Let sslrootcert in ` +
        'DATABASE_URL name the file of its authority, and the URL the name in the certificate',
    );
  throw error;
}
