import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { upload } from '../../../adapters/files/contract.ts';
import {
  type OtherSftpServerKind,
  otherSftpEndpoint,
  startOtherSftpServer,
  whyNoOtherSftpServer,
} from '../../../support/file-servers/sftp/other-servers.ts';
import { moveWith } from '../../../support/service/move.ts';

const CHUNK_BYTES = 8 << 20;

const CASES: [string, OtherSftpServerKind, string, number][] = [
  ['a server that ignores letter case', 'asyncssh-any-case', '/FILE', 1_000],
  ['a server that shows a file when it is closed', 'asyncssh-closed', '/file', 1_000],
  ['a server that writes a file from its start only', 'rclone-stream', '/file', CHUNK_BYTES + 1],
];

for (const [server, kind, destination, size] of CASES) {
  const whyNot = await whyNoOtherSftpServer(kind);
  const skipped = whyNot === null ? '' : ` (skipped: ${whyNot})`;
  test.skipIf(whyNot)(`${server} tells that the destination is the source${skipped}`, () =>
    moveToItself(kind, destination, size),
  );
}

async function moveToItself(kind: OtherSftpServerKind, destination: string, size: number) {
  const server = await startOtherSftpServer(kind);
  // As two endpoints with two names of one server.
  const [from, to] = [otherSftpEndpoint(server), otherSftpEndpoint(server)];
  onTestFinished(async () => {
    for (const each of [from, to]) await each.close();
    await server.stop();
  });
  const content = randomBytes(size);
  await upload(from, '/file', content);
  const move = (path: string, removesSource: boolean, source = '/file') =>
    moveWith({
      source: { endpoint: from, path: source },
      destination: { endpoint: to, path },
      removesSource,
    });
  await expect(move(destination, true)).rejects.toMatchObject({
    failure: { code: 'destination_is_source', phase: 'verify' },
  });
  expect(content.equals(await readFile(join(server.root, 'file')))).toBe(true);
  await move('/other', true);
  // Their parts have the same name.
  const [long, longer] = ['a', 'b'].map((end) => `/${'x'.repeat(200)}${end}`) as [string, string];
  await upload(from, long, content);
  await move(longer, true, long);
  await move(destination, false);
  expect((await readdir(server.root)).filter((name) => !name.endsWith('.part'))).toEqual([
    'file',
    'other',
    long.slice(1),
    longer.slice(1),
  ]);
}
