import type { Queryable, Sql } from '../adapters/postgres/connect.ts';
import { createBatcher } from '../batcher.ts';
import type { Handled } from '../commands/handle.ts';
import type { NewEvent } from '../domain/event.ts';
import type { AttemptFigures, Priority, Transfer, TransferEvent, TransferFailed } from '../domain/transfer.ts';
import type { TransferPhase } from '../domain/transfer-errors.ts';
import { startCheckpoint } from '../projections/checkpoint.ts';
import type { Consumer } from '../projections/consumer.ts';

/** Told whenever there may be something to admit or to claim. */
export const JOBS_CHANNEL = 'waybill_jobs';

const STREAMS = 'transfer-';

/**
 * How much earlier or later than its turn a transfer is taken for its priority. Being a time and not a
 * class, it lets nothing starve: a low one that has waited longer goes before any high one.
 */
export const PRIORITY_OFFSET_MS: Record<Priority, number> = { high: -600_000, normal: 0, low: 600_000 };

/** Follows the log and keeps one to-do row for every transfer that has not ended. */
export const dispatchConsumer: Consumer = {
  name: 'dispatch',
  table: 'work.checkpoints',
  version: 1,
  streams: [STREAMS],
  // So long a new transfer can wait for a mover.
  pauseMs: 10,
  apply: (tx, events) => recordInJobs(tx, events, (work) => work(tx)),
};

interface Job {
  transfer_id: string;
  account_id: string;
  status: 'pending' | 'queued' | 'in_progress';
  revision: number;
  priority: Priority;
  source: string;
  destination: string;
  source_endpoint_id: string | null;
  destination_endpoint_id: string;
  claim_id: string | null;
  /** By the clock of whoever wrote the event. */
  due_at: string;
  /** Milliseconds: by Postgres's clock it is due no later than so long after it is saved. */
  delay: number;
  figures: AttemptFigures | null;
}

type KnownJob = Omit<Job, 'delay' | 'figures'>;

/** An event with its place; one that was stored is such. */
type PlacedEvent = NewEvent & { stream: string; revision: number };

/**
 * Lets whoever appended to a transfer bring its row up to date without waiting for the subscription.
 * What a row has seen already changes nothing, and one that is gone stays gone.
 */
export type JobRecorder = (...handled: Handled<Transfer>[]) => Promise<void>;

export function createJobRecorder(sql: Sql): JobRecorder {
  const record = createBatcher(async (batches: PlacedEvent[][]) => {
    await recordInJobs(sql, batches.flat(), (work) => sql.begin(work));
    return batches.map(() => undefined);
  });
  return async (...handled) => {
    const events = handled.flatMap(placed);
    if (events.length > 0) await record(events);
  };
}

/** The events that a command appended, with their places in the stream. */
function placed({ state, events, revision }: Handled<Transfer>): PlacedEvent[] {
  const stream = STREAMS + state.facts.transfer_id;
  return events.map((event, i) => ({ ...event, stream, revision: revision - events.length + 1 + i }));
}

/**
 * Brings the to-do rows up to these events, oldest first. All who write several rows lock them in the order of their ids:
 * here those that go are locked together with those that stay.
 */
async function recordInJobs(sql: Queryable, events: PlacedEvent[], begin: (work: (tx: Queryable) => Promise<void>) => Promise<unknown>) {
  const ended = events.flatMap(endOf);
  const removed = new Set(ended.map(({ transferId }) => transferId));
  const open = events.filter((event) => !removed.has(transferOf(event)));
  if (open.length === 0) return removeJobs(sql, ended);
  await begin(async (tx) => {
    const jobs = await lockJobs(tx, events);
    if (ended.length > 0) await removeJobs(tx, ended);
    await advanceJobs(tx, jobs, open);
  });
}

async function lockJobs(tx: Queryable, events: PlacedEvent[]): Promise<Map<string, Job>> {
  const rows = await tx<KnownJob[]>`
    select transfer_id, account_id, status, revision, priority, source, destination, source_endpoint_id, destination_endpoint_id, claim_id, due_at
      from work.transfer_jobs where transfer_id = any(${[...new Set(events.map(transferOf))]}) order by transfer_id for update`;
  return new Map(rows.map((row) => [row.transfer_id, { ...row, delay: 0, figures: null }]));
}

async function advanceJobs(tx: Queryable, jobs: Map<string, Job>, events: PlacedEvent[]): Promise<void> {
  const changed = new Map<string, Job>();
  for (const event of events) {
    const id = transferOf(event);
    const before = changed.get(id) ?? jobs.get(id) ?? null;
    if (before !== null && event.revision <= before.revision) continue;
    const after = jobAfter(before, event as TransferEvent & NewEvent, event.revision);
    if (after !== null) changed.set(id, after);
  }
  if (changed.size > 0) await save(tx, [...changed.values()]);
}

function transferOf({ stream }: PlacedEvent): string {
  return stream.slice(STREAMS.length);
}

/** null where the row is gone already: the transfer has ended since. */
function jobAfter(job: Job | null, event: TransferEvent & NewEvent, revision: number): Job | null {
  if (event.type === 'transfer.created') {
    const { transfer_id, account_id, priority, source, destination, source_endpoint_id, destination_endpoint_id, created_at } = event.data;
    const facts = { transfer_id, account_id, priority, source, destination, source_endpoint_id, destination_endpoint_id };
    return { ...facts, status: 'pending', revision, claim_id: null, due_at: created_at, delay: 0, figures: null };
  }
  if (job === null) return null;
  if (event.type === 'transfer.in_progress') return { ...job, status: 'in_progress', revision, claim_id: event.data.claim_id };
  if (event.type !== 'transfer.queued') return job;
  // A mover may have claimed it while it was pending; the other reasons end a claim.
  if (event.data.reason === 'admitted') return { ...job, status: 'queued', revision };
  const again: Job = { ...job, status: 'queued', revision, claim_id: null, figures: event.data };
  if (event.data.reason === 'mover_lost') return again;
  const { not_before, error } = event.data;
  return { ...again, due_at: not_before, delay: Date.parse(not_before) - Date.parse(error.occurred_at) };
}

interface Ended {
  transferId: string;
  /** An attempt may have left something at the destination. */
  untidy: boolean;
}

/** Revision of the end of a transfer that one attempt was enough for: it was created, queued and in progress before. */
const END_OF_FIRST_ATTEMPT = 3;

/** The transfer that has ended with an event; none where it goes on. */
function endOf(placed: PlacedEvent): Ended[] {
  const transferId = transferOf(placed);
  const event = placed as TransferEvent & PlacedEvent;
  switch (event.type) {
    case 'transfer.completed':
      // The attempt that completed took over what the ones before it had, if it could. Where it found the file in place, that may
      // be an older one that is the same, and what it had written itself is still beside it.
      return [{ transferId, untidy: event.revision > END_OF_FIRST_ATTEMPT || event.data.verification.read_back }];
    case 'transfer.failed':
      return [{ transferId, untidy: event.revision > END_OF_FIRST_ATTEMPT || !endedBeforeWriting(event.data) }];
    case 'transfer.cancelled':
      // It may have been queued again after an attempt.
      return [{ transferId, untidy: event.revision >= END_OF_FIRST_ATTEMPT }];
    default:
      return [];
  }
}

/** Phases up to the destination's sign-in: to clean up after those would only repeat what failed. */
const BEFORE_WRITING: TransferPhase[] = ['source_connect', 'source_sign_in', 'source_open', 'destination_connect', 'destination_sign_in'];

/** The size is known from the moment that the destination was opened, whichever connection broke later. */
function endedBeforeWriting({ error, size_bytes }: TransferFailed): boolean {
  return size_bytes === null && BEFORE_WRITING.includes(error.phase);
}

/** Removes the row of a transfer that has ended, or that the log does not know. */
export function removeEndedJob(sql: Sql, transferId: string): Promise<void> {
  return removeJobs(sql, [{ transferId, untidy: true }]);
}

/** Has what an attempt may have left at its destination removed, once more where that was done; not while its transfer goes on. */
export async function cleanUpIfEnded(
  sql: Queryable,
  { transferId, accountId, destination }: { transferId: string; accountId: string; destination: string },
): Promise<void> {
  await sql`
    insert into work.cleanups (transfer_id, account_id, destination)
    select ${transferId}, ${accountId}, ${destination} where not exists (select from work.transfer_jobs where transfer_id = ${transferId})
    on conflict (transfer_id) do update set due_at = now(), tries = 0`;
}

async function removeJobs(sql: Queryable, ended: Ended[]): Promise<void> {
  const untidy = ended.filter((job) => job.untidy).map(({ transferId }) => transferId);
  await sql`
    with found as (
      select transfer_id from work.transfer_jobs
       where transfer_id = any(${ended.map(({ transferId }) => transferId)}) order by transfer_id for update
    ),
    removed as (
      delete from work.transfer_jobs j using found where j.transfer_id = found.transfer_id
      returning j.transfer_id, account_id, destination, resume_record
    )
    insert into work.cleanups (transfer_id, account_id, destination, resume_record)
    select * from removed where transfer_id = any(${untidy}) on conflict do nothing`;
  if (untidy.length > 0) await sql`select pg_notify(${JOBS_CHANNEL}, '')`;
}

async function save(sql: Queryable, jobs: Job[]): Promise<void> {
  const claimable = jobs.some(({ status }) => status !== 'in_progress');
  await sql`
    with saved as (
      insert into work.transfer_jobs as j (
        transfer_id, account_id, status, revision, priority, source, destination, source_endpoint_id, destination_endpoint_id,
        claim_id, due_at, rank, size_bytes, transferred_bytes)
      select n.transfer_id, n.account_id, n.status, n.revision, n.priority, n.source, n.destination, n.source_endpoint_id, n.destination_endpoint_id,
             n.claim_id, due_at, due_at + n.priority_offset * interval '1 millisecond', n.size_bytes, coalesce(n.transferred_bytes, 0)
        from unnest(
          ${jobs.map((job) => job.transfer_id)}::text[],
          ${jobs.map((job) => job.account_id)}::text[],
          ${jobs.map((job) => job.status)}::text[],
          ${jobs.map((job) => job.revision)}::integer[],
          ${jobs.map((job) => job.priority)}::text[],
          ${jobs.map((job) => job.source)}::text[],
          ${jobs.map((job) => job.destination)}::text[],
          ${jobs.map((job) => job.source_endpoint_id)}::text[],
          ${jobs.map((job) => job.destination_endpoint_id)}::text[],
          ${jobs.map((job) => job.claim_id)}::text[],
          ${jobs.map((job) => job.due_at)}::timestamptz[],
          ${jobs.map((job) => job.delay)}::bigint[],
          ${jobs.map((job) => PRIORITY_OFFSET_MS[job.priority])}::integer[],
          ${jobs.map((job) => job.figures?.size_bytes ?? null)}::bigint[],
          ${jobs.map((job) => job.figures?.transferred_bytes ?? null)}::bigint[])
        as n(transfer_id, account_id, status, revision, priority, source, destination, source_endpoint_id, destination_endpoint_id,
             claim_id, not_before, delay, priority_offset, size_bytes, transferred_bytes)
       cross join lateral (select least(n.not_before, now() + n.delay * interval '1 millisecond') as due_at) d
      on conflict (transfer_id) do update set
        status = excluded.status, revision = excluded.revision, due_at = excluded.due_at, rank = excluded.rank,
        claim_id = excluded.claim_id,
        claimed_by = case when j.claim_id = excluded.claim_id then j.claimed_by end,
        -- the claim that the log names holds, also where another was noted here meanwhile
        lease_until = case when excluded.claim_id is null then null
                           when j.claim_id = excluded.claim_id then j.lease_until
                           else now() + interval '30 seconds' end,
        size_bytes = coalesce(excluded.size_bytes, j.size_bytes),
        transferred_bytes = greatest(excluded.transferred_bytes, j.transferred_bytes)
      where j.revision < excluded.revision
    )
    select pg_notify(${JOBS_CHANNEL}, '') where ${claimable}`;
}

/** Ids of the open transfers that use an endpoint, oldest first, ten at most. */
export async function openTransfersOf(sql: Queryable, endpointId: string): Promise<string[]> {
  const rows = await sql<{ transfer_id: string }[]>`
    select transfer_id from work.transfer_jobs
     where ${endpointId} in (source_endpoint_id, destination_endpoint_id) order by transfer_id limit 10`;
  return rows.map(({ transfer_id }) => transfer_id);
}

/**
 * Derives the to-do rows again from the log. Claims that hold are left alone; one whose lease ran out may be of a log
 * that was here before. The one that runs dispatch goes on from the start.
 */
export async function rebuildDispatch(sql: Sql, logId: string): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`delete from work.checkpoints where name = ${dispatchConsumer.name}`;
    await startCheckpoint(tx, dispatchConsumer.table, dispatchConsumer.name, logId, dispatchConsumer.version);
    await tx`delete from work.transfer_jobs where claim_id is null or lease_until < now()`;
  });
}
