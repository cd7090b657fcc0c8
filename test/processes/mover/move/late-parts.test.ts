import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { TIMEOUTS } from '../../../../src/adapters/files/connection-timeouts.ts';
import type { FileEndpoint, ResumePoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { endpointOn as ftpsEndpointOn } from '../../../adapters/files/ftps/ftps-endpoint.ts';
import { startFtpsServer, whyNoFtpsServer } from '../../../support/file-servers/ftps/server.ts';
import { endpointOn as sftpEndpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import { startSftpServer, whyNoSftpServer } from '../../../support/file-servers/sftp/server.ts';
import { holdRequest } from '../../../support/network/late-request.ts';
import { startTcpProxy } from '../../../support/network/tcp-proxy.ts';
import { moveWith } from '../../../support/service/move.ts';

const timeouts = { ...TIMEOUTS, stallMs: 1_500 };
const never = new AbortController().signal;
const CHUNK_BYTES = 4 << 20;

async function openSsh() {
  const server = await startSftpServer();
  const proxy = await startTcpProxy(server);
  const direct = sftpEndpointOn(server);
  const slow = sftpEndpointOn({ ...server, port: proxy.port }, { timeouts });
  onTestFinished(async () => {
    for (const each of [direct, slow]) await each.close();
    await proxy.close();
    await server.stop();
  });
  mkdirSync(join(server.root, 'to'));
  return { direct, slow, proxy, root: server.root };
}

/** Returns a source that calls `read` before each chunk, with the number of the opening. */
function sourceWith(
  endpoint: FileEndpoint,
  read: (opening: number, offset: number) => Promise<void> | void,
): FileEndpoint {
  let openings = 0;
  return {
    ...endpoint,
    async openSource(path, signal) {
      const opening = ++openings;
      const { content: _, readWhole: __, ...file } = await endpoint.openSource(path, signal);
      return {
        ...file,
        readAtOnce: false,
        parallelReads: 1,
        async read(offset, target) {
          await file.read(offset, target);
          await read(opening, offset);
        },
      };
    },
  };
}

function reason(whyNot: string | null): string {
  return whyNot === null ? '' : ` (skipped: ${whyNot})`;
}

const noSsh = await whyNoSftpServer();
test.skipIf(noSsh)(
  `a late rename publishes no unfinished part: OpenSSH${reason(noSsh)}`,
  async () => {
    const { direct, slow, proxy, root } = await openSsh();
    const path = (name: string) => join(root, name);
    const delivered = join(root, 'to/file');
    const newer = randomBytes(20_000);
    writeFileSync(delivered, 'there before');
    writeFileSync(join(root, 'from'), randomBytes(10_000));
    let release = async () => {};
    let meanwhile = 'unread';
    const late = holdRequest(proxy, /^rename .*\.part .*\/to\/file$/).then((letGo) => {
      writeFileSync(join(root, 'from'), newer);
      release = letGo;
    });
    const source = sourceWith(direct, async (opening) => {
      if (opening === 1) return;
      // The new part is open and empty.
      await release();
      meanwhile = readFileSync(delivered, 'utf8');
    });
    await moveWith({
      source: { endpoint: source, path: path('from') },
      destination: { endpoint: slow, path: path('to/file') },
      options: { verify: 'read_back' },
    });
    await late;
    expect(meanwhile).toBe('there before');
    expect(newer.equals(readFileSync(delivered))).toBe(true);
    expect(readdirSync(join(root, 'to'))).toEqual(['file']);
  },
);

const noFtps = await whyNoFtpsServer('proftpd');
test.skipIf(noFtps)(
  `a late STOR truncates no newer part, which has another name: ProFTPD${reason(noFtps)}`,
  async () => {
    const server = await startFtpsServer({ kind: 'proftpd', tls: 'explicit' });
    const endpoint = ftpsEndpointOn(server);
    onTestFinished(async () => {
      await endpoint.close();
      await server.stop();
    });
    const claim = { transferId: newId('txr'), claimId: newId('clm'), overwrite: true };
    const content = randomBytes(CHUNK_BYTES + 1);
    const open = (opening: number, resume: ResumePoint | null) =>
      endpoint.openDestination(server.remotePath('file'), {
        ...claim,
        opening,
        resume,
        size: content.length,
        signal: never,
      });
    const parts = () => readdirSync(server.root).filter((name) => name.endsWith('.part'));

    const first = await open(1, null);
    await first.write(0, content.subarray(0, CHUNK_BYTES));
    const nothing = await first.resumePoint(0);
    await first.close();
    const [older] = parts();
    const second = await open(2, nothing);
    await second.write(0, content.subarray(0, CHUNK_BYTES));
    const half = await second.resumePoint(CHUNK_BYTES);
    await second.close();
    const [newer] = parts();
    expect([older, newer]).toEqual([expect.any(String), expect.any(String)]);
    expect(newer).not.toBe(older);
    const third = await open(3, half);
    expect(parts()).toEqual([newer]);
    expect(third.resumedFrom).toBe(CHUNK_BYTES);
    await third.close();
  },
);

test.skipIf(noFtps)(
  `a late STOR does not corrupt the file that is being written: ProFTPD${reason(noFtps)}`,
  async () => {
    const server = await startFtpsServer({ kind: 'proftpd', tls: 'explicit' });
    const proxy = await startTcpProxy(server);
    const direct = ftpsEndpointOn(server);
    const slow = ftpsEndpointOn(server, { port: proxy.port, timeouts });
    onTestFinished(async () => {
      for (const each of [direct, slow]) await each.close();
      await proxy.close();
      await server.stop();
    });
    const content = randomBytes(3 * CHUNK_BYTES);
    writeFileSync(join(server.root, 'from'), content);
    let late: Promise<() => Promise<void>> | null = null;
    let carriedOut = false;
    const source = sourceWith(direct, async (opening, offset) => {
      if (opening === 1) {
        // The second connection begins the part again, and its STOR is held back.
        late ??= holdRequest(proxy, /^STOR /);
        proxy.cut();
      } else if (offset >= 2 * CHUNK_BYTES && !carriedOut) {
        // The third one has written the beginning of the file.
        carriedOut = true;
        await (await late)?.();
      }
    });
    await moveWith({
      source: { endpoint: source, path: server.remotePath('from') },
      destination: { endpoint: slow, path: server.remotePath('to') },
    });
    expect(carriedOut).toBe(true);
    expect(content.equals(readFileSync(join(server.root, 'to')))).toBe(true);
  },
);
