import { differences, same } from '../canonical.ts';
import type { Report } from '../report.ts';
import type { LogContents } from './contents.ts';
import type { Fields } from './event.ts';
import type { CatalogState } from './fold-catalog.ts';

const BASE32 = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/**
 * An item of a batch. `transferId` is the transfer that it must become, null for a rejected item.
 */
export interface BatchItem {
  item: Fields;
  transferId: string | null;
}

/** Adds the items of a page. */
export function noteItems(
  batches: LogContents['batchItems'],
  batchId: string,
  { first, items }: Fields,
  report: Report,
): void {
  const known = batches.get(batchId) ?? [];
  if (first !== known.length)
    report.finding('batches.pages', batchId, `a page begins at ${first}, after ${known.length}`);
  for (const item of items as Fields[]) {
    const transferId = item.error === undefined ? transferOf(batchId, known.length) : null;
    known.push({ item, transferId });
  }
  batches.set(batchId, known);
}

/** The last five characters of the id of a batch make way for the place of the item. */
function transferOf(batchId: string, place: number): string {
  let end = '';
  for (let shift = 0; shift < 25; shift += 5) end = BASE32[(place >> shift) & 31] + end;
  return `txr_${batchId.slice('bat_'.length, -5)}${end}`;
}

/** Checks that each batch has ended, with exactly the transfers of its items, and counts them. */
export function checkBatches(
  { batches, batchItems, transfers, batchEnds }: LogContents,
  report: Report,
): void {
  report.count('batches', batches.size);
  for (const [id, { state }] of batches) {
    if (state.ended_at === null)
      report.finding('batches.end', id, `it is ${state.status}: it has not ended`);
    checkItems(id, state, batchItems.get(id) ?? []);
  }
  const expected = new Set([...batchItems.values()].flat().map(({ transferId }) => transferId));
  for (const [id, { state }] of transfers) {
    const { batch_id } = state.facts;
    if (batch_id === undefined) continue;
    report.count('batch_transfers');
    if (!expected.has(id))
      report.finding('batches.transfers', String(batch_id), `no item is the transfer ${id}`);
  }

  function checkItems(id: string, state: CatalogState, items: BatchItem[]): void {
    const counts = { items: items.length, completed: 0, failed: 0, cancelled: 0 };
    let bytes = 0;
    for (const { item, transferId } of items) {
      const transfer = transferId === null ? undefined : transfers.get(transferId)?.state;
      if (transferId === null) counts.failed++;
      else if (transfer?.facts.batch_id !== id)
        report.finding('batches.transfers', id, `its transfer ${transferId} is missing`);
      else if (transfer.facts.source_uri !== item.source_uri)
        report.finding('batches.transfers', id, `${transferId} has another source than its item`);
      if (transfer && transfer.status in counts) counts[transfer.status as 'completed']++;
      if (transfer?.status === 'completed') bytes += Number(transfer.facts.size_bytes);
    }
    const end = batchEnds.get(id);
    if (!end) return;
    const [told, found] = [
      { ...(end.counts as Fields), bytes: end.bytes },
      { ...counts, bytes },
    ];
    report.count('batch_ends');
    if (!same(told, found)) report.finding('batches.counts', id, differences(told, found));
    const whole = counts.completed === counts.items ? 'completed' : 'completed_with_failures';
    const status = state.cancelled_at === null ? whole : 'cancelled';
    if (end.status !== status)
      report.finding('batches.counts', id, `it ended as ${end.status}, not as ${status}`);
  }
}
