// Uses the types that openapi-typescript makes. Prints what it got as JSON.
import createClient from 'openapi-fetch';
import type { components, paths } from './openapi-typescript';

const [baseUrl, key] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });

/** Each protocol has fields of its own, and the discriminator tells them apart. */
export function placeOf(endpoint: components['schemas']['Endpoint']): string {
  switch (endpoint.protocol) {
    case 's3':
      return endpoint.bucket;
    case 'azure':
      return endpoint.container;
    default:
      return endpoint.host;
  }
}

async function run() {
  const body = { source_uri: 's3://archive/a.csv', destination_uri: 's3://archive/in/' };
  const header = { 'Idempotency-Key': 'openapi-fetch' };
  const created = await client.POST('/v1/transfers', {
    params: { header },
    body: { ...body, metadata: null },
  });
  const transfer_id = created.data?.id ?? '';
  const list = await client.GET('/v1/transfers', {
    params: { query: { status: 'pending', limit: 10 } },
  });
  const cancelled = await client.DELETE('/v1/transfers/{transfer_id}', {
    params: { path: { transfer_id } },
  });
  const detail = await client.GET('/v1/transfers/{transfer_id}', {
    params: { path: { transfer_id } },
  });
  const size: number | null | undefined = detail.data?.size_bytes;
  const webhook = await client.POST('/v1/webhooks', {
    body: { url: 'https://receiver.example.com/hook', events: ['transfer.completed'] },
  });
  const webhook_id = webhook.data?.id ?? '';
  const changed = await client.PATCH('/v1/webhooks/{webhook_id}', {
    params: { path: { webhook_id } },
    body: { events: ['transfer.failed'] },
  });
  const batch = await client.POST('/v1/batches', { body: { items: [body] } });
  const inBatch = await client.GET('/v1/transfers/{transfer_id}', {
    params: { path: { transfer_id: batch.data?.transfer_ids?.[0] ?? '' } },
  });
  const removed = await client.DELETE('/v1/webhooks/{webhook_id}', {
    params: { path: { webhook_id } },
  });
  const flow = await client.POST('/v1/flows', {
    body: {
      name: 'openapi-fetch',
      source: { uri: 's3://archive/out/' },
      destination_uri: 's3://archive/in/',
      enabled: false,
    },
  });
  const run = await client.POST('/v1/flows/{flow_id}/runs', {
    params: { path: { flow_id: flow.data?.id ?? '' } },
  });
  const rejected = await client.POST('/v1/transfers', {
    body: { ...body, source_uri: 'sftp://nowhere/a.csv', destination_uri: 'sftp://nowhere/b.csv' },
  });
  return {
    created: created.data?.status,
    listed: list.data?.data.some(({ id }) => id === transfer_id),
    cancelled: cancelled.data?.status,
    detail: [detail.data?.status, size, detail.data?.error],
    secret: webhook.data?.secret?.slice(0, 6),
    enabled: changed.data?.enabled,
    batch: [inBatch.data?.priority, inBatch.data?.verify ?? null],
    removed: removed.response.status,
    run: [run.data?.id?.slice(0, 4), run.data?.status],
    rejected: [rejected.error?.status, rejected.error?.code],
  };
}

run().then((result) => console.log(JSON.stringify(result)));
