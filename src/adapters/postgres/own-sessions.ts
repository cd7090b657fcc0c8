/*
 * Finds what a service that starts cannot wait for: a URL that asks for what the server does not do,
 * and a connection pooler, such as PgBouncer, between Waybill and Postgres. A pooler that lends a
 * session for a transaction breaks what Waybill needs a session for: locks would be granted to two
 * processes, or stay after their process has ended, and notifications would be lost.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Sql } from './connect.ts';
import { DatabaseUrlError } from './database-url.ts';
import { isCertificateFault } from './unavailable.ts';

const ADVICE =
  'Let DATABASE_URL name Postgres itself, or a pool in session mode that accepts the settings of ' +
  'a session (docs/operators.md, "Connection poolers"). Waybill pools its connections itself.';

/** Codes of Postgres for a name or a value that is no setting of a session. */
const UNKNOWN_PARAMETER = ['42704', '22023'];
/** The request for TLS of Postgres's protocol: its length and its code. */
const TLS_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const ANSWER_WITHIN_MS = 2_000;

/**
 * Asks each pool for its session. Throws DatabaseUrlError if two of them share one, if a pooler or
 * the server rejects the settings of a session, if the server has no TLS and must have it, and if
 * its certificate is not accepted.
 */
export async function requireOwnSessions(pools: Sql[]): Promise<void> {
  const sessions = new Set<number>();
  for (const sql of pools) {
    const [session] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`.catch((error) =>
      explain(sql, error),
    );
    sessions.add(session.pid);
  }
  // The pools keep their connections, so Postgres itself has a process for each.
  if (sessions.size < pools.length)
    throw new DatabaseUrlError(
      `A connection pooler lends one session of Postgres to several connections. ${ADVICE}`,
    );
}

/** Throws DatabaseUrlError for what another URL, or another file that it names, would change. */
async function explain(sql: Sql, error: Error & { code?: string }): Promise<never> {
  if (error.message.startsWith('unsupported startup parameter'))
    throw new DatabaseUrlError(
      `A connection pooler rejects a setting of Waybill's sessions (${error.message}). ${ADVICE}`,
    );
  if (UNKNOWN_PARAMETER.includes(error.code ?? ''))
    throw new DatabaseUrlError(
      `Postgres rejects a parameter of DATABASE_URL (${error.message}): correct it or leave it out`,
    );
  if (error.code === 'ECONNRESET' && (await hasNoTls(sql)))
    throw new DatabaseUrlError(
      'Postgres has no TLS, but sslmode in DATABASE_URL requires it: switch TLS on there ' +
        '(`ssl = on` in postgresql.conf, with a certificate). On a network that you trust, leave ' +
        'sslmode out instead',
    );
  if (isCertificateFault(error))
    throw new DatabaseUrlError(
      `The certificate of Postgres is not accepted: ${error.message}. Let sslrootcert in ` +
        'DATABASE_URL name the file of its authority, and the URL the name in the certificate',
    );
  throw error;
}

/**
 * Returns whether a server of this pool says that it has no TLS. The driver ignores that answer, and
 * reports the connection as lost, as in an outage.
 */
async function hasNoTls({ options: { ssl, host, port } }: Sql): Promise<boolean> {
  if (ssl === false || ssl === 'prefer') return false;
  const answers = host.map((name, i) => tlsAnswer(name, port[i] as number).catch(() => ''));
  return (await Promise.all(answers)).includes('N');
}

/** Returns `S` if the server has TLS, else `N`. Rejects if it does not answer. */
async function tlsAnswer(host: string, port: number): Promise<string> {
  const socket = connect({ host, port });
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  try {
    socket.write(TLS_REQUEST);
    const [answer] = (await once(socket, 'data', { signal })) as [Buffer];
    return answer.toString('latin1');
  } finally {
    socket.destroy();
  }
}
