/*
 * Finds a connection pooler, such as PgBouncer, between Waybill and Postgres. One that lends a
 * session for a transaction breaks what Waybill needs a session for: locks would be granted to two
 * processes, or stay after their process has ended, and notifications would be lost.
 */
import type { Sql } from './connect.ts';

/** Connections have no sessions of their own. The message says what to do. */
export class NoOwnSessions extends Error {
  override readonly name = 'NoOwnSessions';
}

const ADVICE =
  'Let DATABASE_URL name Postgres itself, or a pool in session mode that accepts the settings of ' +
  'a session (docs/operators.md, "Connection poolers"). Waybill pools its connections itself.';

/**
 * Asks each pool for its session. Throws NoOwnSessions if two of them share one, or if a pooler
 * rejects the settings of a session.
 */
export async function requireOwnSessions(pools: Sql[]): Promise<void> {
  const sessions = new Set<number>();
  for (const sql of pools) {
    const [session] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`.catch(explain);
    sessions.add(session.pid);
  }
  // The pools keep their connections, so Postgres itself has a process for each.
  if (sessions.size < pools.length)
    throw new NoOwnSessions(
      `A connection pooler lends one session of Postgres to several connections. ${ADVICE}`,
    );
}

function explain(error: Error): never {
  if (error.message.startsWith('unsupported startup parameter'))
    throw new NoOwnSessions(
      `A connection pooler rejects a setting of Waybill's sessions (${error.message}). ${ADVICE}`,
      { cause: error },
    );
  throw error;
}
