/*
 * The owner of `work.cleanups`: one row for each ended transfer that may have left part files or
 * uploads at its destination. The mover removes them (src/processes/mover/cleanup.ts).
 */
import type { Fragment, Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { isEnded, type Transfer } from '../../domain/transfers/transfer.ts';
import { AFTER_CHANNEL, hasSteps, scheduledSteps } from '../after/table.ts';
import { type LateLook, scheduledLooks, takeDueLook } from '../late-looks.ts';
import { newTry, nextOfServers } from '../next-of-servers.ts';
import type { EndedTransfer } from './decide.ts';
import { deletedJobs, deletedUnknownJobs, hasJob, JOBS_CHANNEL, jobs } from './job-table/jobs.ts';

export interface Cleanup {
  transfer_id: string;
  account_id: string;
  destination: string;
  /** As the last claim saved it. Null if none did. */
  resume_record: unknown;
  /** True if the transfer has completed. */
  completed: boolean;
  /** Size of the file that it has delivered. Null if unknown. */
  size_bytes: bigint | null;
  /** True if an earlier clean-up may have removed the parts. */
  repeated: boolean;
  /** See `nextOfServers`. */
  server: string;
  /** Tries since it was scheduled, with the current one. */
  tries: number;
  /** Identifies the current try. */
  takes: number;
}

/** The transfer of an attempt, and where it wrote. */
interface EndOfAttempt {
  transferId: string;
  accountId: string;
  /** A URI. */
  destination: string;
}

/**
 * Removes the jobs of ended transfers and schedules their clean-ups and the steps after them, in
 * one statement.
 */
export async function removeJobs(sql: Queryable, ended: EndedTransfer[]): Promise<void> {
  const ids = ended.map(({ transferId }) => transferId);
  const toCleanUp = ended.filter(({ leftovers }) => leftovers).map(({ transferId }) => transferId);
  const completed = ended.filter((it) => it.completed);
  const continued = ended.filter(({ after }) => after).map(({ transferId }) => transferId);
  const scheduled = continued.length > 0 ? sql`, ${scheduledSteps(sql, continued)}` : sql``;
  const aborted = ended.filter((it) => it.aborted).map(({ transferId }) => transferId);
  // No other event tells that its mover is gone.
  const looks =
    aborted.length > 0 ? sql`, looks as (${looksAt(sql, sql`deleted`, aborted)})` : sql``;
  await sql`
    with ${deletedJobs(sql, ids)} ${scheduled} ${looks}
    insert into work.cleanups as known (
      transfer_id, account_id, destination, resume_record, completed, size_bytes)
    select deleted.*, c.transfer_id is not null, c.size_bytes
      from deleted
      left join unnest(
        ${completed.map(({ transferId }) => transferId)}::text[],
        ${completed.map(({ size }) => size)}::bigint[]) as c(transfer_id, size_bytes)
      using (transfer_id)
     where transfer_id = any(${toCleanUp}::text[])
    -- its mover may have scheduled it
    on conflict (transfer_id) do update set
      resume_record = coalesce(known.resume_record, excluded.resume_record)`;
  if (toCleanUp.length > 0) await sql`select pg_notify(${JOBS_CHANNEL}, '')`;
  if (continued.length > 0) await sql`select pg_notify(${AFTER_CHANNEL}, '')`;
}

/** Returns a statement that schedules late looks at the destinations of these jobs. */
function looksAt(sql: Queryable, jobsOrDeleted: Fragment, transferIds: string[]) {
  return scheduledLooks(
    sql,
    sql`
      select transfer_id, 'destination', account_id, destination, resume_record
        from ${jobsOrDeleted} where transfer_id = any(${transferIds}::text[])`,
  );
}

/** Schedules late looks at the destination of a transfer whose mover is lost, if it has a job. */
export async function lookLaterForLost(sql: Queryable, transferId: string): Promise<void> {
  await looksAt(sql, sql`(${jobs(sql)}) j`, [transferId]);
}

/** Schedules late looks at the destination of an attempt that has given up a connection. */
export async function lookLater(
  sql: Queryable,
  { transferId, accountId, destination }: EndOfAttempt,
): Promise<void> {
  await scheduledLooks(
    sql,
    sql`
      select given.*, j.resume_record
        from (values (${transferId}::text, 'destination', ${accountId}::text, ${destination}::text))
          as given(transfer_id, side, account_id, uri)
        left join (${jobs(sql)}) j using (transfer_id)`,
  );
}

/** Takes a look that is due. None while something else is left to do there. */
export function takeLook(sql: Sql, running: string[]): Promise<LateLook | null> {
  const id = sql`t.transfer_id`;
  const cleanup = sql`exists (select from work.cleanups c where c.transfer_id = ${id})`;
  const mayTake = sql`
    case side when 'source' then not ${hasSteps(sql, id)}
              else not ${hasJob(sql, id)} and not ${cleanup} end`;
  return takeDueLook(sql, running, mayTake);
}

/** Returns those of these transfers that have no clean-up left. */
export async function withoutCleanups(sql: Sql, transferIds: string[]): Promise<string[]> {
  const rows = await sql<{ transfer_id: string }[]>`
    select transfer_id from unnest(${transferIds}::text[]) transfer_id
     where not exists (select from work.cleanups c where c.transfer_id = transfer_id.transfer_id)`;
  return rows.map(({ transfer_id }) => transfer_id);
}

/** Removes the given jobs whose transfers the log still has not shown. */
export async function removeUnknownJobs(sql: Sql, transferIds: string[]): Promise<void> {
  await sql`
    with ${deletedUnknownJobs(sql, transferIds)}
    insert into work.cleanups (transfer_id, account_id, destination, resume_record)
    select * from deleted on conflict do nothing`;
}

/**
 * Schedules clean-up of an attempt's leftovers, again if it already ran. It waits until the job of
 * the transfer is removed. Does nothing while the transfer is open. `state` says how it has ended.
 */
export async function cleanUpIfEnded(
  sql: Queryable,
  { transferId, accountId, destination }: EndOfAttempt,
  state: Transfer,
): Promise<void> {
  const completed = state.status === 'completed';
  const size = completed ? state.facts.size_bytes : null;
  await sql`
    insert into work.cleanups as c (
      transfer_id, account_id, destination, completed, size_bytes, repeated)
    select ${transferId}, ${accountId}, ${destination}, ${completed}, ${size}::bigint, true
     where ${isEnded(state)} or not ${hasJob(sql, sql`${transferId}`)}
    on conflict (transfer_id) do update set
      due_at = now(), tries = 0, completed = c.completed or excluded.completed,
      size_bytes = coalesce(c.size_bytes, excluded.size_bytes),
      -- a try that is under way may have removed the parts
      repeated = c.repeated or c.takes > 0`;
}

/**
 * Takes a clean-up that is due: see `nextOfServers`. Null if there is none. Skips a transfer that has
 * a job: it is open and its parts are in use.
 */
export async function takeCleanup(sql: Sql, running: string[]): Promise<Cleanup | null> {
  const key = sql`transfer_id`;
  const mayTake = sql`not ${hasJob(sql, sql`t.transfer_id`)}`;
  const [cleanup] = await sql<Cleanup[]>`
    with ${nextOfServers(sql, { name: 'work.cleanups', key, mayTake }, running)}
    update work.cleanups c set ${newTry(sql)}
      from due where c.transfer_id = due.transfer_id
    returning c.transfer_id, account_id, destination, server, resume_record, completed, size_bytes,
              repeated, tries, takes`;
  return cleanup ?? null;
}

/** Removes a clean-up that is done, or not tried again. Keeps it if it was scheduled again. */
export async function endCleanup(
  sql: Sql,
  { transfer_id, takes }: Pick<Cleanup, 'transfer_id' | 'takes'>,
): Promise<void> {
  await sql`
    delete from work.cleanups
     where transfer_id = ${transfer_id} and takes = ${takes} and tries > 0`;
}
