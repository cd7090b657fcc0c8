import { createHash, randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { createBufferPool } from '../../../../src/processes/mover/buffer-pool.ts';
import type { Move, Moved, ResumeRecord } from '../../../../src/processes/mover/move/move-state.ts';
import { download, upload } from '../../../adapters/files/contract.ts';
import { endpointOn } from '../../../adapters/files/s3/endpoint-on.ts';
import { type S3Server, startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { moveWith } from '../../../support/service/move.ts';

/** What crashes leave, over the whole service: test/transfers/crash-points.test.ts. */

const never = new AbortController().signal;
const SLOT_BYTES = 8 << 20;
const content = randomBytes(1_000);
const sha256 = createHash('sha256').update(content).digest('hex');

let server: S3Server;
let endpoint: FileEndpoint;
/** Its objects have ETags that tell nothing of their content. */
let encrypted: FileEndpoint;
beforeAll(async () => {
  server = await startS3Server();
  server.createBucket('bucket');
  endpoint = endpointOn(server);
  encrypted = endpointOn(server, { settings: { sse: 'aws:kms', sse_kms_key_id: 'a-key' } });
  await upload(endpoint, 'source', content);
});
afterEach(() => server.clearFaults());
afterAll(async () => {
  await endpoint?.close();
  await encrypted?.close();
  await server?.stop();
});

function moveTo(path: string, given: Partial<Move>): Promise<Moved> {
  return moveWith({
    source: { endpoint, path: 'source' },
    destination: { endpoint, path },
    buffers: createBufferPool(1, SLOT_BYTES),
    ...given,
  });
}

/** Of a mover that was about to commit. */
async function recordOfCommit(): Promise<ResumeRecord> {
  const source = await endpoint.openSource('source', never);
  await source.close();
  const { identity } = source;
  const committing = { size: content.length, sha256 };
  return {
    source: identity,
    chunkSize: SLOT_BYTES,
    sums: '',
    destination: { bytes: 0, state: null },
    committing,
    saves: 1,
  };
}

function refuseToRead(): void {
  // What is not answered with a range is asked for once more.
  server.fault({ operation: 'GetObject', kind: 'error', code: 'AccessDenied', times: 2 });
}

test('a destination that may not be read is committed again', async () => {
  const record = await recordOfCommit();
  refuseToRead();
  expect(await moveTo('unreadable', { record })).toMatchObject({
    sha256,
    verification: { read_back: false, size: true },
  });
  expect(await download(endpoint, 'unreadable')).toEqual(content);
});

test('a destination that may not be read and not be overwritten is left to an operator who can look', async () => {
  const record = await recordOfCommit();
  refuseToRead();
  const moving = moveTo('unreadable-once', { record, overwrite: false });
  const failure = {
    code: 'permission_denied',
    phase: 'commit',
    message: expect.stringMatching(`AccessDenied.*1000 bytes.*${sha256}`),
  };
  await expect(moving).rejects.toMatchObject({ failure });
  expect(server.object('bucket', 'unreadable-once')).toBeUndefined();
});

test('an object that the server does not tell apart from that of another is read back when the answer to its commit was lost', async () => {
  server.fault({ operation: 'PutObject', kind: 'lose-answer' });
  const destination = { endpoint: encrypted, path: 'lost' };
  expect(await moveTo('lost', { destination, overwrite: false })).toMatchObject({
    sha256,
    verification: { read_back: true },
  });
});

test.each([
  ['the same content completes the transfer', content, null],
  ['another content fails it', randomBytes(1_000), 'destination_exists'],
])('a file that appears after the look for an earlier commit: %s', async (_, appears, code) => {
  const path = code ?? 'late';
  const moving = moveTo(path, {
    record: await recordOfCommit(),
    overwrite: false,
    // Called after the look. A server may carry out a request of a dead mover late.
    opened: async () => void (await upload(endpoint, path, appears)),
  });
  if (code) await expect(moving).rejects.toMatchObject({ failure: { code } });
  else expect(await moving).toMatchObject({ sha256, verification: { read_back: true } });
  expect(await download(endpoint, path)).toEqual(appears);
});

test('and that of another stays', async () => {
  const destination = { endpoint: encrypted, path: 'raced' };
  const others = randomBytes(content.length);
  let raced = false;
  const moving = moveTo('raced', {
    destination,
    overwrite: false,
    async save({ committing }) {
      if (!committing || raced) return true;
      raced = true;
      await upload(encrypted, 'raced', others);
      // It has come between the look and the commit, whose first try came to nothing.
      for (const operation of ['HeadObject', 'GetObject'] as const)
        server.fault({ operation, kind: 'error', code: 'NoSuchKey' });
      server.fault({ operation: 'PutObject', kind: 'error', code: 'InternalError' });
      return true;
    },
  });
  await expect(moving).rejects.toMatchObject({ failure: { code: 'destination_exists' } });
  expect(await download(endpoint, 'raced')).toEqual(others);
});
