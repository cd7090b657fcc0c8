import type { Context } from './context.ts';

/** Checks that no process ended by itself. */
export function checkProcesses({ evidence, report }: Context): void {
  for (const { at, process, code, signal, expected, output } of evidence.exits) {
    report.count('exits');
    if (!expected)
      report.finding(
        'processes',
        process,
        `it ended at ${at} with ${signal ?? code}: ${output.slice(-1_000)}`,
      );
  }
}

/** Checks that no work is left: every transfer has ended, so no row may say otherwise. */
export async function checkWork({ evidence, sql, log, report }: Context): Promise<void> {
  const jobs = await sql<
    { transfer_id: string; status: string; claimed_by: string | null; expired: boolean | null }[]
  >`
    select transfer_id, status, claimed_by, lease_until < now() as expired from work.transfer_jobs`;
  for (const { transfer_id, status, claimed_by, expired } of jobs) {
    const ended = log.transfers.get(transfer_id)?.state.status ?? 'unknown to the log';
    const claim =
      claimed_by === null
        ? ''
        : `, claimed by ${claimed_by}${expired ? ', whose lease has run out' : ''}`;
    report.finding(
      'work.transfer_jobs',
      transfer_id,
      `its row says ${status}${claim}; the transfer is ${ended}`,
    );
  }
  const cleanups = await sql<{ transfer_id: string; tries: number; due_at: string }[]>`
    select transfer_id, tries, due_at from work.cleanups`;
  for (const { transfer_id, tries, due_at } of cleanups) {
    report.finding(
      'work.cleanups',
      transfer_id,
      `its clean-up is pending after ${tries} tries, due at ${due_at}`,
    );
  }
  const claimed = await sql<{ id: string; status: string; lease_until: string | null }[]>`
    select p.delivery_id as id, coalesce(d.status, 'gone') as status, p.lease_until
      from work.pending_deliveries p left join work.deliveries d on d.id = p.delivery_id
     where p.claim_id is not null`;
  for (const { id, status, lease_until } of claimed) {
    report.finding(
      'work.pending_deliveries',
      id,
      `it is ${status} and still claimed, until ${lease_until}`,
    );
  }
  const differing = await sql<{ id: string; status: string }[]>`
    select coalesce(d.id, p.delivery_id) as id, coalesce(d.status, 'gone') as status
      from work.pending_deliveries p full join work.deliveries d on d.id = p.delivery_id
     where (p.delivery_id is not null) <> (d.status is not distinct from 'pending')`;
  for (const { id, status } of differing) {
    report.finding(
      'work.pending_deliveries',
      id,
      `it is ${status}, and ${status === 'pending' ? 'has no row' : 'has a row'} to send`,
    );
  }
  const replays = await sql<{ webhook_id: string }[]>`select webhook_id from work.webhook_replays`;
  for (const { webhook_id } of replays)
    report.finding('work.webhook_replays', webhook_id, 'a replay is under way');
  const tasks = await sql<
    { projection: string; kind: string; error: string | null; differences: string | null }[]
  >`
    select projection, kind, error, differences::text from work.projection_tasks
     where finished_at is null or (error is not null and ${evidence.faults.length === 0})
        or jsonb_array_length(coalesce(differences, '[]')) > 0`;
  for (const { projection, kind, error, differences } of tasks) {
    const detail =
      error ??
      (differences === null
        ? 'it has not finished'
        : `it found differences: ${differences.slice(0, 300)}`);
    report.finding('work.projection_tasks', `${kind} of ${projection}`, detail);
  }
  report.count(
    'work_rows',
    jobs.length + cleanups.length + claimed.length + replays.length + tasks.length,
  );
  report.count('work_tables', 5);
}
