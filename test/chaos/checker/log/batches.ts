import type { Report } from '../report.ts';
import type { LogContents } from './contents.ts';
import type { Fields } from './event.ts';

const BASE32 = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** Adds the transfers that the items of a page must become. A rejected item becomes none. */
export function noteItems(
  batches: LogContents['batchItems'],
  batchId: string,
  { first, items }: Fields,
): void {
  const ids = batches.get(batchId) ?? new Set();
  for (const [i, item] of (items as Fields[]).entries())
    if (item.error === undefined) ids.add(transferOf(batchId, Number(first) + i));
  batches.set(batchId, ids);
}

/** The last five characters of the id of a batch make way for the place of the item. */
function transferOf(batchId: string, place: number): string {
  let end = '';
  for (let shift = 0; shift < 25; shift += 5) end = BASE32[(place >> shift) & 31] + end;
  return `txr_${batchId.slice('bat_'.length, -5)}${end}`;
}

/** Checks that each batch has ended, with exactly the transfers of its items. */
export function checkBatches(
  { batches, batchItems, transfers }: LogContents,
  report: Report,
): void {
  report.count('batches', batches.size);
  for (const [id, { state }] of batches)
    if (state.ended_at === null)
      report.finding('batches.end', id, `it is ${state.status}: it has not ended`);
  for (const [batchId, ids] of batchItems)
    for (const id of ids)
      if (transfers.get(id)?.state.facts.batch_id !== batchId)
        report.finding('batches.transfers', batchId, `its transfer ${id} is missing`);
  for (const [id, { state }] of transfers) {
    const { batch_id } = state.facts;
    if (batch_id === undefined) continue;
    report.count('batch_transfers');
    if (!batchItems.get(String(batch_id))?.has(id))
      report.finding('batches.transfers', String(batch_id), `no item is the transfer ${id}`);
  }
}
