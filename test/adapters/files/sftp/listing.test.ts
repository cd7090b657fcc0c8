import { afterEach, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { createSftpEndpoint } from '../../../../src/adapters/files/sftp/endpoint.ts';
import {
  type ListedEntry,
  type SshSignInServer,
  startSshSignInServer,
} from '../../../support/file-servers/sftp/sign-in-server.ts';

let server: SshSignInServer;
let endpoint: FileEndpoint;

afterEach(async () => {
  await endpoint.close();
  await server.stop();
});

async function listed(entries: ListedEntry[] | { endless: ListedEntry }) {
  server = await startSshSignInServer('password', 'right', entries);
  endpoint = createSftpEndpoint({
    settings: {
      protocol: 'sftp',
      host: server.host,
      port: server.port,
      base_path: '/',
      username: 'someone',
      host_key_sha256: server.hostKeySha256,
      host_keys: null,
    },
    credentials: { password: 'right' },
    maxConnections: 1,
  });
  return endpoint.list('/in', new AbortController().signal);
}

const FILE = { type: 'file', size: 5 };
const FOLDER = { type: 'directory', size: null };
const OTHER = { type: 'other', size: null };

test.each([
  ['a file, whatever the long name says', 0o100644, 'file.csv', FILE],
  ['a file without a long name', 0o100644, '', FILE],
  ['a folder, whatever the long name says', 0o040755, '-', FOLDER],
  ['a link', 0o120777, 'lrwxrwxrwx 1 a a 5 Jan 1 00:00 name -> -', OTHER],
  ['a pipe, whatever the long name says', 0o010644, '-', OTHER],
  ['a file by its long name', undefined, '-rw-r--r-- 1 a a 5 Jan 1 00:00 name', FILE],
  ['a folder by its long name', undefined, 'drwxr-xr-x 1 a a 5 Jan 1 00:00 name', FOLDER],
  ['a file by its long name, if the mode has no type', 0o644, '-rw-r--r-- 1 a a 5 name', FILE],
  ['a folder that the server lists, without mode and long name', undefined, '', FOLDER],
])('an entry is %s', async (_name, mode, longname, expected) => {
  const attrs = { ...(mode !== undefined && { mode }), size: 5, atime: 1, mtime: 1 };
  expect(await listed([{ filename: 'name', longname, attrs }])).toEqual([
    { name: 'name', ...expected, modified_at: '1970-01-01T00:00:01.000Z' },
  ]);
});

test('an entry without size and time has neither', async () => {
  const known = { mode: 0o100644, size: 5, atime: 1, mtime: 1 };
  const entries = await listed([
    { filename: 'known', longname: '', attrs: known },
    { filename: 'unknown', longname: '', attrs: { mode: 0o100644 } },
  ]);
  expect(entries).toEqual([
    { name: 'known', ...FILE, modified_at: '1970-01-01T00:00:01.000Z' },
    { name: 'unknown', type: 'file', size: null, modified_at: null },
  ]);
});

test('a listing that never ends is rejected', async () => {
  const attrs = { mode: 0o100644, size: 5, atime: 1, mtime: 1 };
  const endless = { filename: 'a'.repeat(200_000), longname: '', attrs };
  await expect(listed({ endless })).rejects.toMatchObject({
    code: 'connection_failed',
    message: '/in: the listing is too long',
  });
});
