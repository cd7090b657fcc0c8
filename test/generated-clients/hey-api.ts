// Uses the client that hey-api makes. Prints what it got as JSON.
import * as waybill from './hey-api-client';
import { client } from './hey-api-client/client.gen';

const [baseUrl, key] = process.argv.slice(2) as [string, string];
client.setConfig({ baseUrl, auth: key });

/** Each protocol has fields of its own, and the discriminator tells them apart. */
export function placeOf(endpoint: waybill.Endpoint): string {
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
  const created = await waybill.createTransfer({
    headers: { 'Idempotency-Key': 'hey-api' },
    body: { ...body, metadata: null },
  });
  const path = { transfer_id: created.data?.id ?? '' };
  const list = await waybill.listTransfers({ query: { status: 'pending', limit: 10 } });
  const cancelled = await waybill.cancelTransfer({ path });
  const detail = await waybill.getTransfer({ path });
  const size: number | null | undefined = detail.data?.size_bytes;
  const webhook = await waybill.registerWebhook({
    body: { url: 'https://receiver.example.com/hook', events: ['transfer.completed'] },
  });
  const hook = { webhook_id: webhook.data?.id ?? '' };
  const changed = await waybill.updateWebhook({ path: hook, body: { events: ['transfer.failed'] } });
  const removed = await waybill.removeWebhook({ path: hook });
  const batch = await waybill.createBatch({ body: { items: [body] } });
  const inBatch = await waybill.getTransfer({
    path: { transfer_id: batch.data?.transfer_ids?.[0] ?? '' },
  });
  const flow = await waybill.createFlow({
    body: {
      name: 'hey-api',
      source: { uri: 's3://archive/out/' },
      destination_uri: 's3://archive/in/',
      enabled: false,
    },
  });
  const run = await waybill.runFlow({ path: { flow_id: flow.data?.id ?? '' } });
  const rejected = await waybill.createTransfer({
    body: { ...body, source_uri: 'sftp://nowhere/a.csv', destination_uri: 'sftp://nowhere/b.csv' },
  });
  return {
    created: created.data?.status,
    listed: list.data?.data.some(({ id }) => id === path.transfer_id),
    cancelled: cancelled.data?.status,
    detail: [detail.data?.status, size, detail.data?.error],
    secret: webhook.data?.secret?.slice(0, 6),
    enabled: changed.data?.enabled,
    batch: [inBatch.data?.priority, inBatch.data?.verify ?? null],
    removed: removed.response?.status,
    run: [run.data?.id?.slice(0, 4), run.data?.status],
    rejected: [rejected.error?.status, rejected.error?.code],
  };
}

run().then((result) => console.log(JSON.stringify(result)));
