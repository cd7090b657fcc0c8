/*
 * The process manager `dispatch`: follows the log and keeps one job for each open transfer, a row
 * of `work.transfer_jobs` (job-table). Which events change a job, and how, is in decide.ts. Movers
 * claim jobs (claims.ts), and admission queues and sweeps them (admission.ts).
 *
 * Two writers bring a job up to date, both through `recordInJobs`:
 * - The consumer `dispatch` follows the log. It writes every job in the end.
 * - The job recorder writes what this process has just appended, so the next step need not wait for
 *   the subscription.
 * Either may be first. `revision` decides: a job ignores events that it has seen, and a job that
 * was removed is created again only by `transfer.created`.
 *
 * A job has the status of its transfer: `pending`, `queued` or `in_progress`. The event that ends
 * the transfer removes the job. If an attempt may have left something at the destination, the same
 * statement adds a row to `work.cleanups` (cleanups.ts). If steps are left after the transfer, it
 * also adds a row to `work.after_steps` (src/processes/after), which the outcome of the last step
 * removes.
 *
 * What can go wrong:
 * - A crash of Postgres loses the last writes. It loses the checkpoint with them, so the consumer
 *   writes them again.
 * - The row and the log name different claims. The claim in the log wins.
 * - An older copy of the log was restored. `rebuildDispatch` derives the jobs again. It keeps rows
 *   with the revision -1 until the log shows their transfers, because only the row has the resume
 *   record. Admission removes rows that the log does not know.
 *
 * It relies on one lock order, by transfer id, in every statement that writes several jobs.
 */
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { Handled } from '../../commands/handle.ts';
import { createBatcher } from '../../concurrency/batcher.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { aggregateIdOf, RETENTION, streamName, streamPrefix } from '../../domain/events/streams.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import { restartCheckpoint } from '../../projections/checkpoint.ts';
import type { ApplyingConsumer } from '../../projections/consumer.ts';
import { removeAfterSteps } from '../after/table.ts';
import { removeJobs } from './cleanups.ts';
import { changedJobs, type PlacedEvent, splitEnded } from './decide.ts';
import { forgetRevisions, lockJobs, readJobs, saveJobs } from './job-table/jobs.ts';

/** Follows the log and keeps one job for every open transfer. */
export const dispatchConsumer: ApplyingConsumer = {
  name: 'dispatch',
  table: 'work.checkpoints',
  version: 1,
  // A record of retention changes no job. It becomes the last event that the consumer has
  // processed, before the transfers that it names leave the log.
  streams: [streamPrefix('transfer'), RETENTION],
  // In a busy moment, it can delay the start of a new transfer by this long, if the process that
  // created it could not save its job.
  pauseMs: 25,
  apply: (tx, events) => recordInJobs(tx, ofTransfers(events), (work) => work(tx)),
  // The process that appends an event usually brings the job up to date before the event arrives
  // here (`JobRecorder`). What such a batch says stays true: a job never goes back to an older
  // event but with the checkpoint (`forgetRevisions`).
  inOneStatement: async (sql, events) =>
    (await isRecorded(sql, ofTransfers(events))) ? () => sql`` : null,
};

function ofTransfers(events: StoredEvent[]): StoredEvent[] {
  return events.filter(({ stream }) => stream !== RETENTION);
}

/** Returns true if these events change no row, without a lock on the jobs. */
async function isRecorded(sql: Queryable, events: PlacedEvent[]): Promise<boolean> {
  const { ended, open, settled } = splitEnded(events);
  if (settled.length > 0 || open.some(({ type }) => type === 'transfer.created')) return false;
  // The lack of a job does not tell that its steps were scheduled: a crash of Postgres, or an older
  // back-up of it, may have lost both.
  if (ended.some(({ after }) => after)) return false;
  const jobs = await readJobs(sql, [...new Set(events.map(aggregateIdOf))]);
  return (
    ended.every(({ transferId }) => !jobs.has(transferId)) && changedJobs(jobs, open).length === 0
  );
}

/**
 * Brings the jobs of transfers up to date with events that this process appended, without a wait
 * for the subscription. Ignores events that a job has seen.
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

/** Returns the events that a command appended, with their streams and revisions. */
function placed({ state, events, revision }: Handled<Transfer>): PlacedEvent[] {
  const stream = streamName('transfer', state.facts.transfer_id);
  return events.map((event, i) => ({
    ...event,
    stream,
    revision: revision - events.length + 1 + i,
  }));
}

/**
 * Brings the jobs up to date with these events, oldest first. Every writer of several jobs locks
 * them in the order of their ids, so jobs to remove are locked together with jobs to update.
 */
async function recordInJobs(
  sql: Queryable,
  events: PlacedEvent[],
  begin: (work: (tx: Queryable) => Promise<void>) => Promise<unknown>,
) {
  const { ended, open, settled } = splitEnded(events);
  if (open.length === 0) {
    if (ended.length > 0) await removeJobs(sql, ended);
    if (settled.length > 0) await removeAfterSteps(sql, settled);
    return;
  }
  await begin(async (tx) => {
    const jobs = await lockJobs(tx, [...new Set(events.map(aggregateIdOf))]);
    if (ended.length > 0) await removeJobs(tx, ended);
    await saveJobs(tx, changedJobs(jobs, open));
    if (settled.length > 0) await removeAfterSteps(tx, settled);
  });
}

/**
 * Derives the jobs again from the log: the process that runs dispatch starts over at the beginning.
 * Valid claims stay as they are. An expired claim is removed, because it may belong to a previous
 * log. Every other job stays, because only it has the resume record, and no mover can claim it
 * before the log shows its transfer. It also stays so that no clean-up takes an open transfer for
 * an ended one.
 */
export async function rebuildDispatch(sql: Sql, logId: string): Promise<void> {
  await sql.begin(async (tx) => {
    await restartCheckpoint(tx, dispatchConsumer, logId);
    await forgetRevisions(tx);
  });
}
