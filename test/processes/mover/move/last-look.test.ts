import { createHash, randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import type { ResumeRecord } from '../../../../src/processes/mover/move/move-state.ts';
import { upload } from '../../../adapters/files/contract.ts';
import { endpointOn } from '../../../adapters/files/s3/endpoint-on.ts';
import { type S3Request, startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { moveWith } from '../../../support/service/move.ts';

const CHUNK_BYTES = 8 << 20;
const BYTES_OF_SUM = 4;

async function place() {
  const server = await startS3Server();
  server.createBucket('bucket');
  const endpoint = endpointOn(server);
  onTestFinished(async () => {
    await endpoint.close();
    await server.stop();
  });
  return { server, endpoint, path: 'file' };
}

test('what has arrived is kept if the connection breaks at the last look at the source', async () => {
  const [source, destination] = [await place(), await place()];
  const content = randomBytes(3 * CHUNK_BYTES);
  await upload(source.endpoint, 'file', content);
  const before = source.server.requests.length;
  // The adapter asks three times over each connection.
  source.server.fault({ operation: 'HeadObject', kind: 'lose-answer', times: 3 });
  const saved: ResumeRecord[] = [];
  const { sha256 } = await moveWith({
    source,
    destination,
    save: async (record) => {
      saved.push(record);
      return true;
    },
  });
  expect(sha256).toBe(createHash('sha256').update(content).digest('hex'));
  const sums = Buffer.alloc(3 * BYTES_OF_SUM).toString('base64').length;
  const kept = saved.filter(({ committing }) => committing === null).at(-1);
  expect(kept?.sums).toHaveLength(sums);
  const names = (requests: readonly S3Request[]) => requests.map(({ operation }) => operation);
  // One opens the file over each of the two connections.
  expect(names(source.server.requests.slice(before)).toSorted()).toEqual([
    ...Array(2 + 3).fill('GetObject'),
    ...Array(3 + 1).fill('HeadObject'),
  ]);
  expect(names(destination.server.requests)).toEqual([
    'CreateMultipartUpload',
    ...Array(3).fill('UploadPart'),
    'ListParts',
    'CompleteMultipartUpload',
  ]);
});
