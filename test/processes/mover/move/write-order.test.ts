import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { pacedDestination, paceOf } from '../../../../src/adapters/files/threads/paced-files.ts';
import { createPacer } from '../../../../src/concurrency/pacer.ts';
import { options, upload, whole, writeFrom } from '../../../adapters/files/contract.ts';
import { endpointOn } from '../../../adapters/files/s3/endpoint-on.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import {
  otherSftpEndpoint,
  startOtherSftpServer,
  whyNoOtherSftpServer,
} from '../../../support/file-servers/sftp/other-servers.ts';
import { LONG } from '../../../support/run/long.ts';
import { moveWith } from '../../../support/service/move.ts';

/** Such a server waits a second for the bytes that come next, then refuses the others. */
const IN_ORDER = 'rclone-stream';
const CHUNK_BYTES = 8 << 20;
const never = new AbortController().signal;

const whyNot = await whyNoOtherSftpServer(IN_ORDER);
const title =
  'a server that writes files from their start to their end gets the bytes in this order';
const skipped = whyNot === null ? '' : ` (skipped: ${whyNot})`;

async function destination() {
  const server = await startOtherSftpServer(IN_ORDER);
  const endpoint = otherSftpEndpoint(server);
  onTestFinished(async () => {
    await endpoint.close();
    await server.stop();
  });
  return { endpoint, read: (name: string) => readFile(join(server.root, name)) };
}

test.skipIf(whyNot)(`${title}, whatever is read first${skipped}`, async () => {
  const server = await startS3Server();
  server.createBucket('bucket');
  const source = endpointOn(server);
  onTestFinished(async () => {
    await source.close();
    await server.stop();
  });
  const content = randomBytes(4 * CHUNK_BYTES);
  await upload(source, 'file', content);
  const { endpoint, read } = await destination();
  // The first request opens the file, the second reads its first chunk.
  server.fault({ operation: 'GetObject', kind: 'slow', delayMs: 0 });
  server.fault({ operation: 'GetObject', kind: 'slow', delayMs: 3_000 });
  await moveWith({
    source: { endpoint: source, path: 'file' },
    destination: { endpoint, path: '/file' },
  });
  expect(content.equals(await read('file'))).toBe(true);
});

test.skipIf(whyNot)(`${title}, also when a limit of the bandwidth ends${skipped}`, async () => {
  const { endpoint, read } = await destination();
  const content = randomBytes(3 << 20);
  const pacer = createPacer();
  pacer.setRate(1 << 20);
  const opened = await endpoint.openDestination('/unlimited', options(content.length));
  const file = pacedDestination(opened, paceOf(pacer, never));
  const write = (piece: number) =>
    file.write(piece << 20, content.subarray(piece << 20, (piece + 1) << 20));
  const limited = [write(0), write(1)];
  pacer.setRate(null);
  const unlimited = write(2);
  // The first two take two seconds all the same.
  pacer.setRate(1 << 20);
  await Promise.all([...limited, unlimited]);
  await file.commit(whole(content));
  await file.close();
  expect(content.equals(await read('unlimited'))).toBe(true);
});

test.skipIf(whyNot)(`${title}, also with a limited bandwidth${skipped}`, LONG, async () => {
  const { endpoint, read } = await destination();
  const content = randomBytes(2 * CHUNK_BYTES);
  const pacer = createPacer();
  pacer.setRate(8 << 20);
  const opened = await endpoint.openDestination('/limited', options(content.length));
  const file = pacedDestination(opened, paceOf(pacer, never));
  await writeFrom({ ...opened, write: file.write }, content);
  await file.commit(whole(content));
  await file.close();
  expect(content.equals(await read('limited'))).toBe(true);
});
