import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { type FileEndpoint, FileError } from '../../../../src/adapters/files/port.ts';
import { createFileThread } from '../../../../src/adapters/files/threads/file-thread.ts';
import { startFtpsServer, whyNoFtpsServer } from '../../../support/file-servers/ftps/server.ts';
import { moveWith } from '../../../support/service/move.ts';

const whyNot = await whyNoFtpsServer('proftpd');
const title =
  'a small file whose first source connection breaks is written once, within the attempt';

/** Its connection breaks while it reads the first file that is opened. */
function breakingOnce(endpoint: FileEndpoint): FileEndpoint {
  let opened = 0;
  return {
    ...endpoint,
    async openSource(path, signal) {
      const file = await endpoint.openSource(path, signal);
      if (++opened > 1) return file;
      const lost = new FileError('connection_failed', 'transfer', 'the connection was lost');
      return { ...file, content: undefined, read: () => Promise.reject(lost) };
    },
  };
}

test.skipIf(whyNot)(whyNot === null ? title : `${title} (${whyNot})`, async () => {
  const server = await startFtpsServer({ kind: 'proftpd', tls: 'explicit' });
  const { host, port, username, password, caPem, remotePath } = server;
  const endpoint = {
    endpoint_id: 'end_small',
    settings: {
      protocol: 'ftps',
      host,
      port,
      base_path: '/',
      username,
      tls: 'explicit',
      ca_pem: caPem,
    },
    max_connections: 4,
    overwrite: true,
    accounts: null,
  } as const;
  const threads = ['sources', 'destinations'].map(createFileThread);
  onTestFinished(async () => {
    for (const thread of threads) await thread.close();
    await server.stop();
  });
  const [from, to] = threads.map((thread) => thread.open(endpoint, { password }));
  const content = randomBytes(5_000);
  await writeFile(remotePath('from'), content);

  const moved = await moveWith({
    source: { endpoint: breakingOnce(from as FileEndpoint), path: remotePath('from') },
    destination: { endpoint: to as FileEndpoint, path: remotePath('to') },
  });
  expect(moved.sha256).toBe(createHash('sha256').update(content).digest('hex'));
  expect(readFileSync(remotePath('to')).equals(content)).toBe(true);
});
