import { differences, same } from '../canonical.ts';
import type { Context } from '../context.ts';
import { type Fields, type LoggedEvent, streamOf } from '../log/event.ts';

const BATCH = 2_000;
/** The only events of transfers that people and keys cause after the creation. */
const OF_TRANSFERS = ['transfer.cancelled', 'transfer.failed', 'transfer.priority_changed'];

/** The only events of batches that people and keys cause. */
const OF_BATCHES = ['batch.created', 'batch.cancelled'];

/** Returns the row of the audit log for an event. Null for an event that has none. */
export function auditRow(event: LoggedEvent): Fields | null {
  const stream = streamOf(event.stream);
  if (stream === null || event.type === 'log.checkpoint_signed') return null;
  const { actor, account_id, occurred_at } = event.metadata;
  const byItself = ['mover', 'system'].includes(String(actor).split(':')[0] as string);
  const isRetry = event.type === 'transfer.created' && typeof event.data.retry_of === 'string';
  const isAct = isRetry || (OF_TRANSFERS.includes(event.type) && !byItself);
  if (stream.kind === 'transfer' && !isAct) return null;
  if (stream.kind === 'batch' && !OF_BATCHES.includes(event.type)) return null;
  const { sha256: _, ...data } = event.data;
  return {
    event_id: event.id,
    position: String(event.position),
    revision: event.revision,
    type: event.type,
    kind: stream.kind,
    stream: event.stream,
    subject_id: stream.kind === 'access' ? accessed(event) : stream.id,
    account_id,
    actor,
    client_address: event.metadata.client_address ?? null,
    occurred_at,
    data,
  };
}

/** Returns what was read, or where failed sign-ins came from. */
function accessed({ type, data }: LoggedEvent): unknown {
  if (type === 'access.exported') return data.export;
  return type === 'access.sign_in_failed' ? (data.address ?? 'others') : data.transfer_id;
}

/** Checks that the audit log has each event that belongs there, as the log has it. */
export async function checkAudit({ sql, log, report }: Context): Promise<void> {
  const unseen = new Map(log.audited);
  const [checkpoint] = await sql<{ position: string }[]>`
    select position::text from read.checkpoints where name = 'audit'`;
  const reached = BigInt(checkpoint?.position ?? 0);
  const rows = sql<(Fields & { event_id: string; position: string; kind: string })[]>`
    select event_id, position::text, revision, type, kind, stream, subject_id, account_id, actor,
           client_address, occurred_at, data
      from read.audit`;
  for await (const batch of rows.cursor(BATCH))
    for (const row of batch) {
      if (row.kind === 'access' && BigInt(row.position) > log.end) continue;
      report.count('audit_rows');
      const expected = unseen.get(row.event_id);
      if (!expected) report.finding('read.audit', row.event_id, 'the row is one too many');
      else if (!same(row, expected))
        report.finding('read.audit', row.event_id, differences(row, expected));
      unseen.delete(row.event_id);
    }
  for (const [id, { kind, position }] of unseen) {
    const isLate = kind === 'access' && BigInt(String(position)) > reached;
    if (!isLate) report.finding('read.audit', id, 'it has no row');
  }
  report.expectSome('read.audit', 'audit_rows', log.audited.size);
}
