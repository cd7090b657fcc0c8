import type { Transaction } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream } from '../../domain/events/streams.ts';
import type { FlowEvent } from '../../domain/flows/flow.ts';

interface RunChange {
  run_id: string;
  changes: Record<string, unknown>;
  /** Further columns of a run that begins with this event. Null if no run can. */
  first: Record<string, unknown> | null;
}

/** Saves what events of flows say about runs. */
export async function saveRuns(
  tx: Transaction,
  schema: string,
  events: StoredEvent[],
): Promise<void> {
  for (const { stream, type, data, position } of events) {
    const { kind, id: flow_id } = parseStream(stream);
    const change = kind === 'flow' ? runChangeOf({ type, data } as FlowEvent) : null;
    if (change === null) continue;
    const { run_id, first } = change;
    const changes = columns(tx, { ...change.changes, position });
    if (first === null)
      await tx`update ${tx(schema)}.flow_runs set ${tx(changes)} where run_id = ${run_id}`;
    else
      await tx`
        insert into ${tx(schema)}.flow_runs
        ${tx({ run_id, flow_id, ...columns(tx, first), ...changes })}
        on conflict (run_id) do update set ${tx(changes)}`;
  }
}

function columns(tx: Transaction, values: Record<string, unknown>): Record<string, string> {
  const inJson = ['error', 'counts'];
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      (inJson.includes(name) ? (value === null ? null : tx.json(value as never)) : value) as string,
    ]),
  );
}

/** Returns what an event says about a run. Null if it says nothing. */
function runChangeOf(event: FlowEvent): RunChange | null {
  switch (event.type) {
    case 'flow.run_requested': {
      const { run_id, requested_at: started_at } = event.data;
      const first = { reason: 'request', started_at };
      return { run_id, changes: { status: 'requested' }, first };
    }
    case 'flow.run_started': {
      const { run_id, batch_id, reason, started_at } = event.data;
      return {
        run_id,
        changes: { batch_id, status: 'listing' },
        first: { reason, started_at },
      };
    }
    case 'flow.run_listed':
      return { run_id: event.data.run_id, changes: { status: 'open' }, first: null };
    case 'flow.run_completed': {
      const { run_id, status, counts, bytes, ended_at } = event.data;
      return { run_id, changes: { status, counts, bytes, ended_at }, first: null };
    }
    case 'flow.run_empty': {
      const { run_id, error, ended_at } = event.data;
      const status = error === null ? 'empty' : 'failed';
      return { run_id, changes: { status, error, ended_at }, first: null };
    }
    case 'flow.run_failed': {
      const { run_id, error, failed_at } = event.data;
      // A run that takes files continues with them.
      const first = {
        reason: 'schedule',
        status: 'failed',
        started_at: failed_at,
        ended_at: failed_at,
      };
      return { run_id, changes: { error }, first };
    }
    default:
      return null;
  }
}
