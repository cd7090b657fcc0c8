import type { Logger } from 'pino';
import { FileError } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { listEndpoints } from '../../projections/catalog-queries.ts';
import type { EndpointPool } from './endpoint-pool.ts';
import type { ResumeRecord } from './move-state.ts';
import { heldSignIns, holdSignIn } from './sign-in-holds.ts';

const AT_ONCE = 4;
/** With a day between the later ones: a server that is away for two weeks is still swept. */
const TRIES = 25;
const TIME_LIMIT_MS = 60_000;

export interface CleanupDeps {
  sql: Sql;
  logger: Logger;
  endpoints: EndpointPool;
}

interface Cleanup {
  transfer_id: string;
  account_id: string;
  destination: string;
  resume_record: ResumeRecord | null;
  tries: number;
}

/**
 * Removes what ended transfers left at their destinations, a few at a time. A try that fails is made
 * again after 1, 2, 4, ... minutes and later once a day, 25 times in all; one at an endpoint that has just refused a sign-in
 * counts without being made. Gives how many were due.
 */
export async function cleanUp({ sql, logger, endpoints }: CleanupDeps, signal: AbortSignal): Promise<number> {
  const due = await sql<Cleanup[]>`
    update work.cleanups set tries = tries + 1, due_at = now() + least(interval '1 day', interval '1 minute' * power(2, tries))
     where transfer_id in (select transfer_id from work.cleanups where due_at <= now() order by due_at limit ${AT_ONCE} for update skip locked)
    returning transfer_id, account_id, destination, resume_record, tries`;
  if (due.length === 0) return 0;
  const [catalog, held] = await Promise.all([listEndpoints(sql), heldSignIns(sql)]);
  await Promise.all(
    due.map(async ({ transfer_id, account_id, destination, resume_record, tries }) => {
      const match = matchEndpoint(parseTransferUri(destination, 'destination'), catalog, account_id);
      try {
        if (match) {
          if (held.has(match.endpoint.endpoint_id)) return;
          const lent = await endpoints.lend(match.endpoint);
          try {
            const within = AbortSignal.any([signal, AbortSignal.timeout(TIME_LIMIT_MS)]);
            const leftovers = { transferId: transfer_id, resume: resume_record?.destination ?? null, signal: within };
            await lent.endpoint.removeLeftovers(match.path, leftovers);
          } finally {
            lent.release();
          }
        }
        // Unless somebody has asked for another one meanwhile.
        await sql`delete from work.cleanups where transfer_id = ${transfer_id} and tries = ${tries}`;
      } catch (error) {
        if (match && error instanceof FileError && error.code === 'auth_failed') await holdSignIn(sql, match.endpoint);
        logger.warn({ err: error, transfer_id, tries }, 'what a transfer left at its destination could not be removed');
        if (tries >= TRIES) await sql`delete from work.cleanups where transfer_id = ${transfer_id}`;
      }
    }),
  );
  return due.length;
}
