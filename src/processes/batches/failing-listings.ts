/*
 * The owner of `work.batch_listings`: why the folders of batches cannot be listed now. The process
 * that lists them removes each row when its listing continues or ends. The rows decide nothing.
 */
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { ListingError } from '../../domain/flows/flow.ts';

/** Why a folder of a batch cannot be listed, and the time of the first failure (ISO 8601). */
export interface FailingListing {
  since: string;
  error: ListingError;
}

/** Records that a folder of a batch could not be listed, and is tried again. */
export async function noteFailingListing(
  sql: Sql,
  batchId: string,
  { code, message, folder }: ListingError,
): Promise<void> {
  await sql`
    insert into work.batch_listings (batch_id, code, message, folder)
    values (${batchId}, ${code}, ${message}, ${folder})
    on conflict (batch_id) do update set
      code = excluded.code, message = excluded.message, folder = excluded.folder`;
}

export async function forgetFailingListing(sql: Sql, batchId: string): Promise<void> {
  await sql`delete from work.batch_listings where batch_id = ${batchId}`;
}

/** Forgets what a process that has ended could not remove. */
export async function forgetFailingListings(sql: Sql): Promise<void> {
  await sql`delete from work.batch_listings`;
}

/** Returns why the folders of these batches cannot be listed, by batch. Most have no reason. */
export async function failingListings(
  sql: Sql,
  batches: { batch_id: string; status: string }[],
): Promise<Map<string, FailingListing>> {
  const listed = batches.filter(({ status }) => status === 'creating');
  if (listed.length === 0) return new Map();
  const rows = await sql<({ batch_id: string; since: string } & ListingError)[]>`
    select batch_id, since, code, message, folder from work.batch_listings
     where batch_id = any(${listed.map(({ batch_id }) => batch_id)}::text[])`;
  return new Map(rows.map(({ batch_id, since, ...error }) => [batch_id, { since, error }]));
}
