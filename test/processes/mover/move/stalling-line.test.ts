import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createFtpsEndpoint } from '../../../../src/adapters/files/ftps/endpoint.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { createS3Endpoint } from '../../../../src/adapters/files/s3/endpoint.ts';
import { createSftpEndpoint } from '../../../../src/adapters/files/sftp/endpoint.ts';
import { credentialsOf, definitionOf } from '../../../../src/contract/endpoints/definition.ts';
import { endpointRequest } from '../../../../src/contract/endpoints/requests.ts';
import { endpointOn } from '../../../adapters/files/s3/endpoint-on.ts';
import { startBehindProxy } from '../../../support/file-servers/behind-proxy.ts';
import { whyNotAll } from '../../../support/file-servers/endpoints.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { LONG, longUnless } from '../../../support/run/long.ts';
import { moveWith } from '../../../support/service/move.ts';

// These tests wait for connections that say nothing, on machines that may be busy.
vi.setConfig({ testTimeout: 120_000 });

const MiB = 1 << 20;
const CHUNK_BYTES = 8 * MiB;
const SIZE = 10 * MiB;
/** Less than a chunk. Each connection carries it, then is silent and stays open. */
const CARRIED = 4 * MiB;
const STALL_MS = 3_000;

type Name = 'sftp' | 'ftps' | 's3-strict';

/**
 * Starts a server behind a proxy, and opens it as the mover does. One whose line does not stall gets
 * the mover's time for an answer: its disk may be busy.
 */
async function opened(name: Name, line: 'stalls' | 'works') {
  const server = await startBehindProxy(name);
  const request = endpointRequest.parse({ ...server.request, name: 'stalling' });
  const { settings } = definitionOf(request);
  const create = {
    sftp: createSftpEndpoint,
    ftps: createFtpsEndpoint,
    's3-strict': createS3Endpoint,
  }[name] as (options: unknown) => FileEndpoint;
  const endpoint = create({
    settings,
    credentials: credentialsOf(request).credentials,
    maxConnections: 4,
    timeouts: line === 'stalls' ? { stallMs: STALL_MS } : {},
  });
  onTestFinished(async () => {
    await endpoint.close();
    await server.stop();
  });
  const path = 'base_path' in settings ? join(settings.base_path, 'file') : 'file';
  return { server, place: { endpoint, path } };
}

/** Moves a file of random bytes with one attempt. */
async function moved(side: 'source' | 'destination', to: Name) {
  const ends = {
    source: await opened('sftp', side === 'source' ? 'stalls' : 'works'),
    destination: await opened(to, side === 'destination' ? 'stalls' : 'works'),
  };
  const content = randomBytes(SIZE);
  await ends.source.server.put('file', content);
  ends[side].server.proxy.stallEach(CARRIED);
  const { source, destination } = ends;
  const result = await moveWith({ source: source.place, destination: destination.place });
  const root = ends.destination.server.root as string;
  return { content, result, arrived: readFileSync(join(root, 'file')) };
}

for (const [side, to] of [
  ['source', 'sftp'],
  ['destination', 'sftp'],
  ['destination', 'ftps'],
] as const) {
  const whyNot = whyNotAll(['sftp', to]);
  const title = `a file arrives over connections that stall within a chunk: ${to} ${side}`;
  const name = whyNot ? `${title} (skipped: ${whyNot})` : title;
  test.skipIf(whyNot)(name, longUnless(to === 'sftp' && side === 'source'), async () => {
    const { content, result, arrived } = await moved(side, to);
    expect(arrived.equals(content)).toBe(true);
    expect(result.sha256).toBe(createHash('sha256').update(content).digest('hex'));
  });
}

const whyNoSftp = whyNotAll(['sftp']);
const kept = 'what a slow destination has when the source stalls is not sent again';
test.skipIf(whyNoSftp)(whyNoSftp ? `${kept} (skipped: ${whyNoSftp})` : kept, LONG, async () => {
  const source = await opened('sftp', 'stalls');
  const content = randomBytes(3 * CHUNK_BYTES);
  await source.server.put('file', content);
  source.server.proxy.stallEach(2 * CHUNK_BYTES + CARRIED);
  const server = await startS3Server();
  server.createBucket('bucket');
  const endpoint = endpointOn(server);
  onTestFinished(async () => {
    await endpoint.close();
    await server.stop();
  });
  for (const _ of ['first part', 'second part'])
    server.fault({ operation: 'UploadPart', kind: 'slow', delayMs: 2 * STALL_MS });
  const result = await moveWith({ source: source.place, destination: { endpoint, path: 'file' } });
  expect(result.sha256).toBe(createHash('sha256').update(content).digest('hex'));
  const sent = server.requests.filter(({ operation }) => operation === 'UploadPart');
  expect(sent.map(({ query }) => query.get('partNumber')).toSorted()).toEqual(['1', '2', '3']);
});

const title = 'S3, whose parts have a smallest size, gets one more try, and the error says why';
test.skipIf(whyNoSftp)(whyNoSftp ? `${title} (skipped: ${whyNoSftp})` : title, LONG, async () => {
  await expect(moved('destination', 's3-strict')).rejects.toMatchObject({
    failure: {
      code: 'stalled',
      phase: 'write',
      message: expect.stringMatching(
        /Each of the last 2 connections broke before a piece of 8 MiB was through/,
      ),
    },
  });
});
