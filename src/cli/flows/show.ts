import type { FlowAnswer } from '../../contract/flows/answers.ts';
import { bytes, print, printFacts, printTable } from '../program/output.ts';

/** Prints a flow and its last runs. */
export async function printFlow(flow: FlowAnswer): Promise<void> {
  const { source, ready, trigger } = flow;
  const zone = trigger?.time_zone ? ` (${trigger.time_zone})` : '';
  await printFacts({
    id: flow.id,
    name: flow.name,
    status: flow.status,
    source: source.uri,
    pattern: `${source.pattern}${source.recursive ? ', with subfolders' : ''}`,
    destination: flow.destination_uri,
    ready: ready.marker === null ? `unchanged for ${ready.unchanged_for}` : `with ${ready.marker}`,
    runs: trigger ? `${trigger.every ? `every ${trigger.every}` : trigger.cron}${zone}` : null,
    'last run': flow.last_run_at,
    'last success': flow.last_success_at,
    'next run': flow.next_run_at,
    ...(flow.delayed_by && { 'delayed by': flow.delayed_by }),
    'waiting files': flow.waiting_files,
    ...(flow.failing && { failing: flow.failing.error.message }),
  });
  await print('');
  await printTable(
    ['RUN', 'STATUS', 'STARTED', 'FILES', 'COMPLETED', 'FAILED', 'SIZE'],
    flow.recent_runs.map(({ id, status, started_at, counts, bytes: size }) => [
      id,
      status,
      started_at,
      counts?.files ?? null,
      counts?.completed ?? null,
      counts?.failed ?? null,
      size === null ? null : bytes(size),
    ]),
    'It has taken nothing yet',
  );
}
