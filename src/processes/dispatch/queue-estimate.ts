import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Fragment, Sql } from '../../adapters/postgres/connect.ts';
import type { CommandDeps, QueueEstimate } from '../../commands/deps.ts';
import { createBatcher } from '../../concurrency/batcher.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';
import type { Route } from '../../domain/endpoints/route.ts';
import type { Priority } from '../../domain/transfers/transfer.ts';
import { versionOfCatalog } from '../../projections/catalog/queries.ts';
import { openStatuses } from '../../projections/transfers/statuses.ts';
import { unshownTransfers } from '../../projections/transfers/unshown.ts';
import { jobsAhead } from './job-table/figures.ts';
import { moverCapacity } from './live-movers.ts';
import { placesOfEndpoints } from './places.ts';

const FIRST_GUESS_MS = 1_000;
/** A queue below this length is counted for each estimate, a longer one less and less often. */
const COUNTED_ALWAYS = 1_000;
/** So that counting a long queue takes a hundredth of the time. */
const RECOUNT_AFTER_MS_PER_JOB = 0.015;

/** The queue as it was read. */
export interface QueueView {
  /** Version of the catalog that has these endpoints, as `versionOfCatalog` returns it. */
  version: string;
  /**
   * Estimates for an account that was asked for. `since` transfers were created since the view was
   * read.
   */
  estimate(accountId: string, priority: Priority, since?: number): QueueEstimate;
}

/**
 * For a transfer that is created now: the endpoints, the open transfers of the account, and the
 * time until a mover starts it. That time is 0 if a mover and a place at both endpoints are free.
 * Otherwise it spreads the work ahead over the movers, or over the places of the endpoint, with the
 * mean duration of recent transfers.
 */
export interface Queue {
  /** Concurrent callers share one query. */
  estimate: CommandDeps['queueEstimate'];
  /**
   * Returns a query for one row, to be part of another one, and what reads the row. `accounts` is
   * an expression: an array of texts. The row has the endpoints only if the catalog has changed
   * since the last one.
   */
  ask(accounts: Fragment): { query: Fragment; read(row: QueueRow): QueueView };
}

/** `store` is the log: what it has beyond the read model counts too. */
export function createQueue(sql: Sql, store: Pick<EventStore, 'queryNewest'>): Queue {
  let catalog: Catalog = { version: '', endpoints: [] };
  let lastCount: { jobs: JobCounts; validUntil: number } | null = null;

  function ask(accounts: Fragment) {
    const known = catalog;
    const counted = lastCount && performance.now() < lastCount.validUntil ? lastCount.jobs : null;
    return {
      query: queueQuery(sql, store, accounts, known.version, counted === null),
      read(row: QueueRow): QueueView {
        const { version, endpoints: changed } = row;
        if (changed !== null) catalog = { version, endpoints: changed };
        const endpoints = changed ?? known.endpoints;
        const jobs = counted ?? (row.jobs as JobCounts);
        if (counted === null) lastCount = { jobs, validUntil: validUntil(jobs) };
        return {
          version,
          estimate: (accountId, priority, since = 0) => ({
            endpoints,
            openTransfers: (row.open[accountId] ?? 0) + since,
            startsInMs: (routes) => startsInMs(row, jobs, priority, since, routes),
          }),
        };
      },
    };
  }

  const estimate = createBatcher(async (requests: { accountId: string; priority: Priority }[]) => {
    const accounts = [...new Set(requests.map(({ accountId }) => accountId))];
    const { query, read } = ask(sql`${accounts}::text[]`);
    const [row] = await sql<[QueueRow]>`${query}`;
    const view = read(row);
    return requests.map(({ accountId, priority }) => view.estimate(accountId, priority));
  });
  return { estimate: (accountId, priority) => estimate({ accountId, priority }), ask };
}

interface Catalog {
  /** As `versionOfCatalog` returns it. */
  version: string;
  endpoints: Endpoint[];
}

interface JobCounts {
  /** Waiting transfers that have a job. */
  queued: number;
  ahead: Ahead;
  /** By endpoint whose places are all in use: its places, and what waits for one of them. */
  full: Record<string, { places: number; ahead: Ahead }>;
}

/** Waiting transfers that come before a new transfer of this priority. */
type Ahead = Record<Priority, number>;

/** Returns until when the counts are good enough, on the clock of `performance`. */
function validUntil({ queued }: JobCounts): number {
  return queued < COUNTED_ALWAYS ? 0 : performance.now() + queued * RECOUNT_AFTER_MS_PER_JOB;
}

export interface QueueRow {
  version: string;
  /** Null if the known version is current. */
  endpoints: Endpoint[] | null;
  /** By account. */
  open: Record<string, number>;
  /** Open transfers of all accounts that no mover moves. */
  waiting: number;
  /** Null if they were not counted. */
  jobs: JobCounts | null;
  slots: number;
  active: number;
  mean_ms: number | null;
}

function queueQuery(
  sql: Sql,
  store: Pick<EventStore, 'queryNewest'>,
  accounts: Fragment,
  known: string,
  countJobs: boolean,
): Fragment {
  const jobCounts = countJobs
    ? sql`(select to_jsonb(j) from (with ${placesOfEndpoints(sql)}, ${jobsAhead(sql)}) j)`
    : sql`null::jsonb`;
  return sql`
    select c.version, e.endpoints, o.open, o.waiting, ${jobCounts} as jobs, m.slots, m.active,
           m.mean_ms
      from (select ${versionOfCatalog(sql)} as version) c,
           lateral (
             select case when c.version <> ${known} then (
                      select coalesce(jsonb_agg(state order by name), '[]')
                        from read.endpoints where not removed) end as endpoints) e,
           (select coalesce(jsonb_object_agg(account_id, open)
                              filter (where account_id = any(${accounts})), '{}') as open,
                   coalesce(sum(waiting), 0)::float8 as waiting
              from (select account_id, sum(transfers) as open,
                           sum(transfers) filter (where status <> 'in_progress') as waiting
                      from (select account_id, status, transfers from read.transfer_counts
                             where status in (${openStatuses(sql)})
                               and transfers <> 0
                            ${justCreated(sql, store)}) counts
                     group by account_id) accounts) o,
           (${moverCapacity(sql)}) m`;
}

/** Returns what adds transfers that the read model does not count yet. */
function justCreated(sql: Sql, store: Pick<EventStore, 'queryNewest'>): Fragment {
  const unshown = unshownTransfers(sql, store);
  if (unshown === null) return sql``;
  return sql`
    union all
    select account_id, 'pending', 1 from (${unshown}) unshown`;
}

function startsInMs(
  { waiting, slots, active, mean_ms }: QueueRow,
  { queued, ahead, full }: JobCounts,
  priority: Priority,
  since: number,
  routes: readonly Route[],
): number {
  // A transfer that was created a moment ago may not have a job yet.
  const waitingAhead = ahead[priority] + Math.max(0, waiting + since - queued);
  const free = Math.max(0, slots - active);
  const forSlot = Math.max(0, waitingAhead - free + 1) / Math.max(1, slots);
  const forPlace = routes
    .flatMap((route) => [route.source_endpoint_id ?? '', route.destination_endpoint_id])
    .map((id) => (full[id] ? (full[id].ahead[priority] + 1) / Math.max(1, full[id].places) : 0));
  return Math.round(Math.max(forSlot, ...forPlace) * (mean_ms ?? FIRST_GUESS_MS));
}
