import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Batch } from '../../domain/batches/batch.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';
import { usesEndpoint } from '../../domain/flows/uses-endpoint.ts';
import { isOnEndpoint } from '../../domain/uri.ts';
import { shownFlow } from '../flows/queries.ts';
import { batchOf, hasBatch } from '../transfers/columns.ts';

/**
 * Returns the ids of batches that are being created and whose files come from an endpoint or go to
 * it, oldest first. Their transfers do not all exist yet. The request of a batch with items creates
 * its transfers at once, so such a batch is not among them.
 */
export async function batchesUsing(
  sql: Sql,
  endpointId: string,
  endpoints: readonly Endpoint[],
): Promise<string[]> {
  const rows = await sql<{ state: Batch }[]>`
    select state from read.batches where status = 'creating' order by batch_id`;
  const using: string[] = [];
  for (const { state } of rows)
    if (await isUsing(sql, state, endpointId, endpoints)) using.push(state.batch_id);
  return using;
}

async function isUsing(
  sql: Sql,
  { account_id, source }: Batch,
  endpointId: string,
  endpoints: readonly Endpoint[],
): Promise<boolean> {
  switch (source.type) {
    case 'items':
      return false;
    case 'folder':
      return [source.source_uri, source.destination_uri].some((uri) =>
        isOnEndpoint(uri, endpointId, endpoints, account_id),
      );
    case 'flow': {
      const flow = await shownFlow(sql, source.flow_id);
      return flow !== null && usesEndpoint(flow.state, endpointId, endpoints);
    }
    case 'retry': {
      const [row] = await sql<[{ found: boolean }]>`
        select exists (
          select from read.transfers
           where ${hasBatch(sql)} and ${batchOf(sql)} = ${source.batch_id} and status = 'failed'
             and ${endpointId} in (state -> 'facts' ->> 'source_endpoint_id',
                                   state -> 'facts' ->> 'destination_endpoint_id')) as found`;
      return row.found;
    }
  }
}
