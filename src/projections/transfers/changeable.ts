import type { Sql } from '../../adapters/postgres/connect.ts';
import { fieldError } from '../../domain/errors.ts';
import { CHANGES, type Change } from '../../domain/transfers/decider.ts';
import type { Priority, Transfer, TransferStatus } from '../../domain/transfers/transfer.ts';
import { withCustomPlans } from '../custom-plan.ts';
import { isRetried, isRetry, retryOf } from './columns.ts';
import { isAfter, type ListPlace, passes, type TransferFilter } from './filter.ts';
import { eachTransfer } from './queries.ts';

/** Oldest first. */
const ORDER = 'created_at';

interface Changing {
  action: Change;
  /** Of a change of the priority. */
  priority?: Priority;
  /** Finds only transfers after this one. */
  continue_from?: string;
}

/** What a change looks for, at most `limit` transfers after a place. */
interface Wanted {
  accountId: string;
  filter: TransferFilter;
  /** Those of the filter from which the change is possible. */
  statuses: TransferStatus[];
  change: Changing;
  after: ListPlace | null;
  limit: number;
}

interface Changeable {
  transferIds: string[];
  /** True if more transfers match than the limit. */
  hasMore: boolean;
}

/**
 * Returns the ids of an account's transfers that match and that a change applies to, oldest first.
 * Leaves out what a repeat of the same call would find again: transfers that were retried, or that
 * have the priority. Throws if the account has no transfer `continue_from`.
 */
export async function findChangeable(
  sql: Sql,
  accountId: string,
  filter: TransferFilter,
  change: Changing,
  limit: number,
): Promise<Changeable> {
  const statuses = CHANGES[change.action].filter(
    (status) => filter.status === undefined || filter.status === status,
  );
  const find = filter.q === undefined ? findAll : search;
  const after = await placeOf(sql, accountId, change.continue_from);
  const wanted = { accountId, filter, statuses, change, after, limit: limit + 1 };
  const transferIds = await find(sql, wanted);
  return { transferIds: transferIds.slice(0, limit), hasMore: transferIds.length > limit };
}

async function placeOf(
  sql: Sql,
  accountId: string,
  transferId: string | undefined,
): Promise<ListPlace | null> {
  if (transferId === undefined) return null;
  const [place] = await sql<ListPlace[]>`
    select transfer_id, created_at from read.transfers
     where transfer_id = ${transferId} and account_id = ${accountId}`;
  if (place === undefined)
    throw fieldError('continue_from', 'must be the continue_from of the previous answer');
  return place;
}

async function findAll(sql: Sql, wanted: Wanted): Promise<string[]> {
  const { accountId, statuses, after, limit } = wanted;
  const { action, priority } = wanted.change;
  const { status: _, ...filter } = wanted.filter;
  const notRetried = action === 'retry' ? sql`and not ${isRetried(sql)}` : sql``;
  const otherPriority =
    priority === undefined ? sql`` : sql`and state -> 'facts' ->> 'priority' <> ${priority}`;
  if (statuses.length === 0) return [];
  // One ordered index scan for each status, planned for that status: few of many transfers may have
  // it.
  const rows = await withCustomPlans(sql, (tx) => {
    const found = statuses.map(
      (status) => tx`
        (select transfer_id, created_at from read.transfers t
          where ${passes(sql, accountId, filter)} and t.status = ${status}
            and ${isAfter(sql, after, ORDER)} ${notRetried} ${otherPriority}
          order by created_at, transfer_id limit ${limit})`,
    );
    return tx<{ transfer_id: string }[]>`
      select transfer_id
        from (${found.reduce((all, next) => tx`${all} union all ${next}`)}) found
       order by created_at, transfer_id limit ${limit}`;
  });
  return rows.map(({ transfer_id }) => transfer_id);
}

async function search(sql: Sql, wanted: Wanted): Promise<string[]> {
  const { accountId, filter, statuses, after, limit } = wanted;
  const { action, priority } = wanted.change;
  // By id: a transfer may pass from one status to the next between two searches.
  const found = new Map<string, Transfer>();
  for (const status of statuses) {
    let left = limit;
    const batches = eachTransfer(sql, accountId, { ...filter, status }, ORDER, after);
    for await (const batch of batches) {
      const retried = action === 'retry' ? await retriedAmong(sql, batch) : new Set();
      const changeable = batch.filter(
        ({ facts }) => !retried.has(facts.transfer_id) && facts.priority !== priority,
      );
      for (const transfer of changeable.slice(0, left))
        found.set(transfer.facts.transfer_id, transfer);
      left -= changeable.length;
      if (left <= 0) break;
    }
  }
  const places = [...found.values()].map(({ facts }) => ({
    ...facts,
    at: Date.parse(facts.created_at),
  }));
  places.sort((a, b) => a.at - b.at || (a.transfer_id < b.transfer_id ? -1 : 1));
  return places.slice(0, limit).map(({ transfer_id }) => transfer_id);
}

/** Returns the ids of those that were retried. */
export async function retriedAmong(sql: Sql, transfers: Transfer[]): Promise<Set<string>> {
  const retries = await retriesOf(
    sql,
    transfers.map(({ facts }) => facts.transfer_id),
  );
  return new Set(retries.map(({ retry_of }) => retry_of));
}

/** Returns the transfers that repeat one of these. */
export async function retriesOf(
  sql: Sql,
  transferIds: string[],
): Promise<{ id: string; retry_of: string }[]> {
  return sql<{ id: string; retry_of: string }[]>`
    select transfer_id as id, ${retryOf(sql)} as retry_of from read.transfers
     where ${isRetry(sql)} and ${retryOf(sql)} = any(${transferIds}::text[])`;
}
