import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { type S3Server, startS3Server } from '../../../support/s3-server/server.ts';
import { endpointOn } from './endpoint-on.ts';

const never = new AbortController().signal;

let server: S3Server;
let client: S3Client;
const open: FileEndpoint[] = [];

beforeAll(async () => {
  server = await startS3Server();
  server.createBucket('bucket');
  const { endpointUrl, region, accessKeyId, secretAccessKey } = server;
  client = new S3Client({
    endpoint: endpointUrl,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  });
});
afterEach(async () => {
  server.clearFaults();
  for (const endpoint of open.splice(0)) await endpoint.close();
});
afterAll(async () => {
  client?.destroy();
  await server?.stop();
});

async function put(Key: string): Promise<void> {
  await client.send(new PutObjectCommand({ Bucket: 'bucket', Key, Body: 'the report' }));
}

/** Opens `a.csv` of a folder, as a transfer does, and returns what then moves it to `done/`. */
async function moveOf(folder: string) {
  const over = endpointOn(server);
  open.push(over);
  const { identity } = await over.openSource(`${folder}/a.csv`, never);
  const moving = { transferId: newId('txr'), identity, moveTo: `${folder}/done/`, signal: never };
  return {
    move: () => over.dispose(`${folder}/a.csv`, moving),
    moved: async () => (await over.list(`${folder}/done`, never)).map(({ name }) => name),
  };
}

test('a move finds its copy if the answer was lost', async () => {
  await put('lost/a.csv');
  const { move, moved } = await moveOf('lost');
  server.fault({ operation: 'CopyObject', kind: 'lose-answer' });
  expect(await move()).toEqual({ outcome: 'moved', name: 'a.csv' });
  expect(await moved()).toEqual(['a.csv']);
  expect(server.object('bucket', 'lost/a.csv')).toBeUndefined();
});
