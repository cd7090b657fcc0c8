import type { Sql } from '../../adapters/postgres/connect.ts';
import type { BatchAnswer } from '../../contract/batches/answers.ts';
import { toBatch } from '../../contract/batches/views.ts';
import type { CountedBatch } from '../../projections/batches/queries.ts';
import { failingListings } from './failing-listings.ts';

/** Returns batches as clients see them, in their order. */
export async function showBatches(sql: Sql, batches: CountedBatch[]): Promise<BatchAnswer[]> {
  const failing = await failingListings(sql, batches);
  return batches.map(({ counts, ...batch }) => toBatch(batch, counts, failing.get(batch.batch_id)));
}

export async function showBatch(sql: Sql, batch: CountedBatch): Promise<BatchAnswer> {
  const [answer] = await showBatches(sql, [batch]);
  return answer as BatchAnswer;
}
