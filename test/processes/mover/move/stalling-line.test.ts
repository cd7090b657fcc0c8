import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createS3Endpoint } from '../../../../src/adapters/files/s3/endpoint.ts';
import { createSftpEndpoint } from '../../../../src/adapters/files/sftp/endpoint.ts';
import { credentialsOf, definitionOf } from '../../../../src/contract/endpoints/definition.ts';
import { endpointRequest } from '../../../../src/contract/endpoints/requests.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { createBufferPool } from '../../../../src/processes/mover/buffer-pool.ts';
import { createInlineHasher } from '../../../../src/processes/mover/hash/hasher.ts';
import { createMeter } from '../../../../src/processes/mover/meter.ts';
import { moveFile } from '../../../../src/processes/mover/move/move.ts';
import type { ResumeRecord } from '../../../../src/processes/mover/move/move-state.ts';
import { startBehindProxy } from '../../../support/file-servers/behind-proxy.ts';
import { whyNotAll } from '../../../support/file-servers/endpoints.ts';

const MiB = 1 << 20;
const CHUNK_BYTES = 8 * MiB;
const SIZE = 12 * MiB;
/** Less than a chunk. Each connection carries it, then is silent and stays open. */
const CARRIED = 4 * MiB;
const STALL_MS = 3_000;

const whyNot = whyNotAll(['sftp']);
const skipped = whyNot === null ? '' : ` (skipped: ${whyNot})`;

/** Starts a server behind a proxy, and opens it as the mover does. */
async function opened(name: 'sftp' | 's3-strict') {
  const server = await startBehindProxy(name);
  const request = endpointRequest.parse({ ...server.request, name: 'stalling' });
  const { settings } = definitionOf(request);
  const create = { sftp: createSftpEndpoint, s3: createS3Endpoint }[
    settings.protocol as 'sftp' | 's3'
  ] as (options: unknown) => ReturnType<typeof createSftpEndpoint>;
  const endpoint = create({
    settings,
    credentials: credentialsOf(request).credentials,
    maxConnections: 4,
    timeouts: { stallMs: STALL_MS },
  });
  onTestFinished(async () => {
    await endpoint.close();
    await server.stop();
  });
  const path = 'base_path' in settings ? join(settings.base_path, 'file') : 'file';
  return { server, place: { endpoint, path } };
}

/** Moves a file of random bytes with one attempt. */
async function moved(
  side: 'source' | 'destination',
  to: 'sftp' | 's3-strict' = 'sftp',
  record: ResumeRecord | null = null,
) {
  const ends = { source: await opened('sftp'), destination: await opened(to) };
  const content = randomBytes(SIZE);
  await ends.source.server.put('file', content);
  ends[side].server.proxy.stallEach(CARRIED);
  const result = await moveFile({
    transferId: newId('txr'),
    claimId: newId('clm'),
    source: ends.source.place,
    destination: ends.destination.place,
    overwrite: true,
    options: {},
    listed: null,
    record,
    meter: createMeter(() => undefined),
    buffers: createBufferPool(8, CHUNK_BYTES),
    opened: async () => undefined,
    createHasher: createInlineHasher,
    save: async () => true,
    signal: new AbortController().signal,
  });
  const root = ends.destination.server.root as string;
  return { content, result, arrived: readFileSync(join(root, 'file')) };
}

for (const side of ['source', 'destination'] as const)
  test.skipIf(whyNot)(
    `a file arrives over connections that stall within a chunk: SFTP ${side}${skipped}`,
    async () => {
      const { content, result, arrived } = await moved(side);
      expect(arrived.equals(content)).toBe(true);
      expect(result.sha256).toBe(createHash('sha256').update(content).digest('hex'));
    },
  );

test.skipIf(whyNot)(
  `S3, whose parts have a smallest size, gets one more try, and the error says why${skipped}`,
  async () => {
    await expect(moved('destination', 's3-strict')).rejects.toMatchObject({
      failure: {
        code: 'stalled',
        phase: 'write',
        message: expect.stringMatching(
          /Each of the last 2 connections broke before a piece of 8 MiB was through/,
        ),
      },
    });
  },
);
