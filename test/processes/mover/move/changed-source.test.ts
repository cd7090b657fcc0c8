import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openFileEndpoint } from '../../../../src/adapters/files/open.ts';
import { credentialsOf, definitionOf } from '../../../../src/contract/endpoints/definition.ts';
import { endpointRequest } from '../../../../src/contract/endpoints/requests.ts';
import { LeaseLost } from '../../../../src/processes/mover/failure.ts';
import { createInlineHasher, type Hasher } from '../../../../src/processes/mover/hash/hasher.ts';
import type { ResumeRecord } from '../../../../src/processes/mover/move/move-state.ts';
import { endpointOn } from '../../../adapters/files/s3/endpoint-on.ts';
import { startBehindProxy } from '../../../support/file-servers/behind-proxy.ts';
import { whyNoFtpsServer } from '../../../support/file-servers/ftps/server.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { endpointOn as sftpEndpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import { startSftpServer, whyNoSftpServer } from '../../../support/file-servers/sftp/server.ts';
import { LONG } from '../../../support/run/long.ts';
import { moveWith } from '../../../support/service/move.ts';

const CHUNK_BYTES = 8 << 20;
/** Longer than the test may take. */
const SLOW_MS = 600_000;

const whyNot = await whyNoSftpServer();
const title = 'an attempt whose source changed ends before a slow destination has taken the rest';
const name = whyNot ? `${title} (skipped: ${whyNot})` : title;

test.skipIf(whyNot)(name, LONG, async () => {
  const from = await startSftpServer();
  const server = await startS3Server();
  server.createBucket('bucket');
  const source = sftpEndpointOn(from);
  const endpoint = endpointOn(server, { timeouts: { stallMs: SLOW_MS } });
  onTestFinished(async () => {
    for (const each of [source, endpoint]) await each.close();
    for (const each of [from, server]) await each.stop();
  });
  const file = join(from.root, 'file');
  writeFileSync(file, randomBytes(4 * CHUNK_BYTES));
  const places = {
    source: { endpoint: source, path: file },
    destination: { endpoint, path: 'file' },
  };
  let record: ResumeRecord | null = null;
  const interrupted = moveWith({
    ...places,
    save: async ({ committing, ...saved }) => {
      if (!committing) return true;
      // As a mover that ended after its first chunk has saved it.
      const sums = Buffer.from(saved.sums as string, 'base64')
        .subarray(0, 4)
        .toString('base64');
      const destination = { ...saved.destination, bytes: CHUNK_BYTES };
      record = { ...saved, sums, destination, committing: null };
      return false;
    },
  });
  await expect(interrupted).rejects.toThrow(LeaseLost);

  const { atime, mtime } = statSync(file);
  writeFileSync(file, randomBytes(4 * CHUNK_BYTES));
  utimesSync(file, atime, mtime);
  for (const _ of ['second part', 'third part', 'fourth part'])
    server.fault({ operation: 'UploadPart', kind: 'slow', delayMs: SLOW_MS });
  const partsSent = () =>
    server.requests.filter(({ operation }) => operation === 'UploadPart').length;
  const before = partsSent();
  const createHasher = (): Hasher => {
    const hasher = createInlineHasher();
    return {
      ...hasher,
      async update(chunk) {
        // The source differs in this chunk. What follows is on its way before that shows.
        await vi.waitUntil(() => partsSent() === before + 3, { timeout: 60_000 });
        return hasher.update(chunk);
      },
    };
  };
  await expect(moveWith({ ...places, record, createHasher })).rejects.toMatchObject({
    failure: { code: 'source_changed', phase: 'read' },
  });
});

const single = 'an attempt whose small source changed leaves no older record to the next one';

test.skipIf(whyNot)(whyNot ? `${single} (skipped: ${whyNot})` : single, async () => {
  const from = await startSftpServer();
  const server = await startS3Server();
  server.createBucket('bucket');
  const source = sftpEndpointOn(from);
  const endpoint = endpointOn(server);
  onTestFinished(async () => {
    for (const each of [source, endpoint]) await each.close();
    for (const each of [from, server]) await each.stop();
  });
  const file = join(from.root, 'file');
  writeFileSync(file, randomBytes(CHUNK_BYTES / 2));
  let record: ResumeRecord | null = null;
  const attempt = (survives: boolean) =>
    moveWith({
      source: { endpoint: source, path: file },
      destination: { endpoint, path: 'file' },
      record,
      save: async (saved) => {
        record = saved;
        return survives;
      },
    });
  // The record says that the only request, which carries the file, may have been sent.
  await expect(attempt(false)).rejects.toThrow(LeaseLost);
  expect(record).toMatchObject({ committing: { size: CHUNK_BYTES / 2 } });

  const { atime, mtime } = statSync(file);
  const newer = randomBytes(CHUNK_BYTES / 2);
  writeFileSync(file, newer);
  utimesSync(file, atime, mtime);
  await expect(attempt(true)).rejects.toMatchObject({ failure: { code: 'source_changed' } });
  const { sha256 } = await attempt(true);
  expect(sha256).toBe(createHash('sha256').update(newer).digest('hex'));
});

const whyNoFtps = whyNot ?? (await whyNoFtpsServer('proftpd'));
const late = 'a late write of a broken connection does not get into the file of a changed source';
const lateName = whyNoFtps ? `${late} (skipped: ${whyNoFtps})` : late;

test.skipIf(whyNoFtps)(lateName, async () => {
  const from = await startSftpServer();
  const to = await startBehindProxy('ftps');
  const source = sftpEndpointOn(from);
  const parsed = endpointRequest.parse({ ...to.request, name: 'to' });
  const { credentials } = credentialsOf(parsed);
  const endpoint = await openFileEndpoint(definitionOf(parsed), credentials);
  onTestFinished(async () => {
    for (const each of [source, endpoint]) await each.close();
    for (const each of [from, to]) await each.stop();
  });
  const file = join(from.root, 'file');
  const [older, newer] = [randomBytes(3 << 20), randomBytes(3 << 20)];
  writeFileSync(file, older);
  const broken = to.proxy.cutWhen(() => to.proxy.forwarded.up > 1 << 20, 'up');
  const moved = moveWith({
    source: { endpoint: source, path: file },
    destination: { endpoint, path: join(to.root as string, 'file') },
  });
  await broken;
  // The server's session of the broken connection may have the part open, too.
  const [part] = readdirSync(to.root as string);
  const session = openSync(join(to.root as string, part as string), 'r+');
  writeFileSync(file, newer);
  utimesSync(file, 1_000, 1_000);
  await moved;
  writeSync(session, older.subarray(0, 1_000));
  closeSync(session);
  expect(readFileSync(join(to.root as string, 'file')).equals(newer)).toBe(true);
});
