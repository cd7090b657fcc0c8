import { setTimeout as sleep } from 'node:timers/promises';
import type { ChaosClient } from './client.ts';
import type { ChaosPostgres } from './postgres.ts';
import type { Supervisor } from './processes.ts';

const POLL_MS = 1_000;
/** How many times in a row it must look settled. */
const CALM_LOOKS = 3;

/** Work that no request shows. A failed clean-up is retried minutes later. */
const WORK_LEFT = `
  select (select count(*)::integer from work.transfer_jobs) as "jobs",
         (select count(*)::integer from work.cleanups) as "clean-ups",
         (select count(*)::integer from work.after_steps) as "steps after transfers",
         (select count(*)::integer from read.batches where not ended) as "batches",
         (select sum(jsonb_array_length(state -> 'open_runs'))::integer
            from read.flows) as "runs of flows",
         (select count(*)::integer from work.webhook_replays) as "replays"`;

export interface TransferCounts {
  open: number;
  ended: number;
  byStatus: Record<string, number>;
}

const OPEN = ['pending', 'queued', 'in_progress'];
const ENDED = ['completed', 'failed', 'cancelled'];

/**
 * Returns transfers by status, as the list of transfers counts them; null if the service does not
 * answer.
 */
export async function countTransfers(client: ChaosClient): Promise<TransferCounts | null> {
  const byStatus: Record<string, number> = {};
  for (const status of [...OPEN, ...ENDED]) {
    const total = await totalOf(client, `/transfers?status=${status}&limit=1`);
    if (total === null) return null;
    byStatus[status] = total;
  }
  const sum = (statuses: string[]) =>
    statuses.reduce((all, status) => all + (byStatus[status] ?? 0), 0);
  return { open: sum(OPEN), ended: sum(ENDED), byStatus };
}

/**
 * Waits until no work is left. Returns the work that is left after `ms`; empty if all has settled.
 */
export async function settle(
  client: ChaosClient,
  supervisor: Supervisor,
  postgres: ChaosPostgres,
  flowIds: string[],
  ms: number,
): Promise<string[]> {
  const deadline = Date.now() + ms;
  // After an outage a step waits for minutes, later for hours.
  await postgres
    .query('update work.after_steps set due_at = now() where tries > 0')
    .catch(() => undefined);
  for (let calm = 0; ; ) {
    const waiting = await unsettled(client, supervisor, postgres, flowIds);
    calm = waiting.length === 0 ? calm + 1 : 0;
    if (calm === CALM_LOOKS) return [];
    if (Date.now() > deadline && waiting.length > 0) return waiting;
    await sleep(POLL_MS);
  }
}

async function unsettled(
  client: ChaosClient,
  supervisor: Supervisor,
  postgres: ChaosPostgres,
  flowIds: string[],
): Promise<string[]> {
  const notReady = supervisor.processes
    .filter(({ ready }) => !ready)
    .map(({ name }) => `${name} is not ready`);
  if (notReady.length > 0) return notReady;
  const [transfers, projections, deliveries, [rows]] = await Promise.all([
    countTransfers(client),
    client.look('/projections'),
    totalOf(client, '/deliveries?status=pending&limit=1'),
    postgres.query<Record<string, number>>(WORK_LEFT).catch(() => []),
  ]);
  const flows = await Promise.all(flowIds.map((id) => filesLeft(client, id)));
  return [
    ...flows.flat(),
    ...openTransfers(transfers),
    ...behind(projections?.status === 200 ? (projections.body as Projections) : null),
    ...(deliveries === null
      ? ['the list of deliveries does not answer']
      : deliveries > 0
        ? [`${deliveries} deliveries are pending`]
        : []),
    ...Object.entries(rows ?? { 'unknown rows': 1 }).flatMap(([what, count]) =>
      count > 0 ? [`${count} ${what} are left`] : [],
    ),
  ];
}

function openTransfers(counts: TransferCounts | null): string[] {
  if (counts === null) return ['the list of transfers does not answer'];
  return OPEN.filter((status) => counts.byStatus[status]).map(
    (status) => `${counts.byStatus[status]} transfers are ${status}`,
  );
}

/** How long a flow leaves a file that failed once. Further failures wait longer. */
const TAKEN_AGAIN_MS = 70_000;

/** Returns what a run of a flow would still take, now or soon. */
async function filesLeft(client: ChaosClient, flowId: string): Promise<string[]> {
  const answer = await client.dryRun(flowId);
  if (answer?.status !== 200) return [`the dry run of ${flowId} does not answer`];
  const { counts, data, error } = answer.body as DryRun;
  const soon = data.filter(({ reason }) => {
    const again = /taken again after (\S+)$/.exec(reason)?.[1];
    return again !== undefined && Date.parse(again) < Date.now() + TAKEN_AGAIN_MS;
  });
  const left = counts.take + counts.wait + soon.length;
  return [
    ...(error === null ? [] : [`${flowId} cannot list its folder`]),
    ...(left > 0 ? [`${left} files of ${flowId} are left`] : []),
  ];
}

interface DryRun {
  counts: { take: number; wait: number };
  data: { reason: string }[];
  error: unknown;
}

interface Projections {
  data: {
    name: string;
    state: string;
    detail: string | null;
    lag_events: number;
    rebuild: { state: string } | null;
  }[];
}

function behind(projections: Projections | null): string[] {
  if (projections === null) return ['the list of projections does not answer'];
  return projections.data.flatMap(({ name, state, detail, lag_events, rebuild }) => [
    ...(state === 'running' ? [] : [`${name} is ${state}: ${detail}`]),
    ...(lag_events > 0 ? [`${name} is ${lag_events} events behind`] : []),
    ...(rebuild?.state === 'waiting' || rebuild?.state === 'running'
      ? [`a rebuild of ${name} is ${rebuild.state}`]
      : []),
  ]);
}

async function totalOf(client: ChaosClient, path: string): Promise<number | null> {
  const answer = await client.look(path);
  return answer?.status === 200
    ? (answer.body as { pagination: { total: number } }).pagination.total
    : null;
}
