import { expect, test } from 'vitest';
import { createSftpEndpoint } from '../../../../src/adapters/files/sftp/endpoint.ts';
import {
  type ListedEntry,
  type Listing,
  startSshSignInServer,
} from '../../../support/file-servers/sftp/sign-in-server.ts';

const never = new AbortController().signal;
const RECORDED = '.a.txr_1.clm_1.part';
const FORGOTTEN = '.a.txr_1.clm_2.part';

/** Removes leftovers on a server that answers a listing in this way. Adds the removed files. */
async function removeOn(
  listing: Listing,
  removed: string[] = [],
  signal: AbortSignal = never,
): Promise<void> {
  const server = await startSshSignInServer('password', 'right', listing);
  const endpoint = createSftpEndpoint({
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
  const resume = { bytes: 1, state: { part: RECORDED } };
  try {
    await endpoint.removeLeftovers('/in/a', { transferId: 'txr_1', resume, signal });
  } finally {
    removed.push(...server.removed);
    await endpoint.close();
    await server.stop();
  }
}

function entry(filename: string): ListedEntry {
  return { filename, longname: '', attrs: { mode: 0o100644, size: 5, atime: 1, mtime: 1 } };
}

test('a clean-up whose listing failed is not done', async () => {
  const removed: string[] = [];
  await expect(removeOn('FAILURE', removed)).rejects.toMatchObject({
    name: 'FileError',
    step: 'commit',
  });
  expect(removed).toEqual([`/in/${RECORDED}`]);
});

test('a clean-up in a folder that may not be listed is done', async () => {
  const removed: string[] = [];
  await expect(removeOn('PERMISSION_DENIED', removed)).resolves.toBeUndefined();
  expect(removed).toEqual([`/in/${RECORDED}`]);
});

test('a clean-up finds a part in a folder that is too long for a listing', async () => {
  // 80 MB of names.
  const others = Array<ListedEntry[]>(400).fill([entry('a'.repeat(200_000))]);
  const removed: string[] = [];
  await removeOn({ answers: [...others, [entry(FORGOTTEN), entry('a')]] }, removed);
  expect(removed).toEqual([`/in/${RECORDED}`, `/in/${FORGOTTEN}`]);
});

test('a clean-up in a folder that never ends ends with its signal', async () => {
  const removed: string[] = [];
  const signal = AbortSignal.timeout(300);
  await expect(removeOn({ endless: entry('a') }, removed, signal)).rejects.toMatchObject({
    name: 'FileError',
  });
  // The listing may still show a file set aside, and the part says what becomes of that.
  expect(removed).toEqual([]);
});
