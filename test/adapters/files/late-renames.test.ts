import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { TIMEOUTS } from '../../../src/adapters/files/connection-timeouts.ts';
import { heldPath } from '../../../src/adapters/files/part-name.ts';
import type { FileEndpoint, Leftovers, ResumePoint } from '../../../src/adapters/files/port.ts';
import { newId } from '../../../src/domain/ids.ts';
import { startFtpsServer, whyNoFtpsServer } from '../../support/file-servers/ftps/server.ts';
import { endpointOn as sftpEndpointOn } from '../../support/file-servers/sftp/endpoint.ts';
import { startSftpServer, whyNoSftpServer } from '../../support/file-servers/sftp/server.ts';
import { holdRequest } from '../../support/network/late-request.ts';
import { startTcpProxy, type TcpProxy } from '../../support/network/tcp-proxy.ts';
import { longUnless } from '../../support/run/long.ts';
import { moveWith } from '../../support/service/move.ts';
import { endpointOn as ftpsEndpointOn } from './ftps/ftps-endpoint.ts';

vi.setConfig({ testTimeout: 60_000 });

const never = new AbortController().signal;
const timeouts = { ...TIMEOUTS, stallMs: 500 };

/** A server, a way to it that is fine, and one whose requests can be held back. */
interface Place {
  root: string;
  path(name: string): string;
  proxy: TcpProxy;
  direct: FileEndpoint;
  slow: FileEndpoint;
  stop(): Promise<void>;
}

async function openSsh(denied: string[] = []): Promise<Place> {
  const server = await startSftpServer({ denied });
  const proxy = await startTcpProxy(server);
  const direct = sftpEndpointOn(server);
  const slow = sftpEndpointOn({ ...server, port: proxy.port }, { timeouts });
  const { root, stop } = server;
  return { root, path: (name) => join(root, name), proxy, direct, slow, stop };
}

async function proftpd(extraConfig = ''): Promise<Place> {
  const server = await startFtpsServer({ kind: 'proftpd', tls: 'explicit', extraConfig });
  const proxy = await startTcpProxy(server);
  const direct = ftpsEndpointOn(server);
  const slow = ftpsEndpointOn(server, { port: proxy.port, timeouts });
  const { root, remotePath: path, stop } = server;
  return { root, path, proxy, direct, slow, stop };
}

async function startOpen(start: () => Promise<Place>): Promise<Place> {
  const place = await start();
  onTestFinished(async () => {
    for (const each of [place.direct, place.slow]) await each.close();
    await place.proxy.close();
    await place.stop();
  });
  return place;
}

const noSsh = await whyNoSftpServer();
const noProftpd = await whyNoFtpsServer('proftpd');

describe.each([
  ['OpenSSH', noSsh, () => openSsh()],
  ['ProFTPD', noProftpd, () => proftpd()],
])('a source at %s that a late rename hides', (name, whyNot, start) => {
  const onServer = test.skipIf(whyNot);
  const options = longUnless(name.startsWith('OpenSSH'));
  const title = (text: string) => (whyNot ? `${text} (${name}: ${whyNot})` : text);

  /** Interrupts the first try of a delete at its rename. */
  async function interrupted() {
    const place = await startOpen(start);
    const at = (file: string) => join(place.root, file);
    const path = place.path('a.csv');
    writeFileSync(at('a.csv'), 'copied');
    const { identity, close } = await place.direct.openSource(path, never);
    await close();
    const options = { transferId: newId('txr'), identity, moveTo: null, signal: never };
    const held = holdRequest(place.proxy, /^(rename|RNTO) .*\.held$/);
    const first = place.slow.dispose(path, options);
    const failed = expect(first).rejects.toMatchObject({ step: 'commit' });
    const release = await held;
    await failed;
    return { ...place, at, path, options, release };
  }

  onServer(title('gets its name back'), options, async () => {
    const { root, direct, at, path, options, release } = await interrupted();
    expect(await direct.dispose(path, { ...options, tried: 2 })).toEqual({ outcome: 'deleted' });
    writeFileSync(at('a.csv'), 'newer');
    await release();
    expect(existsSync(at('a.csv'))).toBe(false);
    expect(await direct.restoreSource?.(path, { ...options, tried: 2 })).toBe(true);
    expect(readdirSync(root)).toEqual(['a.csv']);
    expect(readFileSync(at('a.csv'), 'utf8')).toBe('newer');
  });

  onServer(title('is not what a later try deletes'), options, async () => {
    const { root, at, path, options, release, ...place } = await interrupted();
    const second = heldPath(at('a.csv'), options.transferId, 2);
    const answer = place.proxy.holdWhen(() => existsSync(second), 'down');
    const trying = place.slow.dispose(path, { ...options, tried: 2 });
    const goOn = await answer;
    writeFileSync(at('a.csv'), 'newer');
    await release();
    await goOn();
    expect(await trying).toEqual({ outcome: 'deleted' });
    expect(await place.direct.restoreSource?.(path, { ...options, tried: 2 })).toBe(true);
    expect(readdirSync(root)).toEqual(['a.csv']);
    expect(readFileSync(at('a.csv'), 'utf8')).toBe('newer');
  });

  onServer(title('is not taken for the copied one'), options, async () => {
    const { root, direct, at, path, options, release } = await interrupted();
    const copied = heldPath(at('a.csv'), options.transferId, 2);
    // The second try was interrupted too, after its rename.
    renameSync(at('a.csv'), copied);
    writeFileSync(at('a.csv'), 'newer');
    await release();
    expect(await direct.dispose(path, { ...options, tried: 3 })).toEqual({ outcome: 'deleted' });
    expect(await direct.restoreSource?.(path, { ...options, tried: 3 })).toBe(true);
    expect(readdirSync(root)).toEqual(['a.csv']);
    expect(readFileSync(at('a.csv'), 'utf8')).toBe('newer');
  });
});

describe.each([
  ['OpenSSH without posix-rename', noSsh, () => openSsh(['posix-rename'])],
  ['ProFTPD without AllowOverwrite', noProftpd, () => proftpd('AllowOverwrite off')],
])('a destination at %s', (name, whyNot, start) => {
  const onServer = test.skipIf(whyNot);
  const options = longUnless(name.startsWith('OpenSSH'));
  const title = (text: string) => (whyNot ? `${text} (${name}: ${whyNot})` : text);

  /** Moves a file. A request of its first connection is held back, and another one completes it. */
  async function movedBeside(request: RegExp) {
    const place = await startOpen(start);
    const at = (file: string) => join(place.root, file);
    const transferId = newId('txr');
    const lost: string[] = [];
    let resume: ResumePoint | null = null;
    writeFileSync(at('from'), 'delivered');
    mkdirSync(at('to'));
    writeFileSync(at('to/a.csv'), 'there before');
    const held = holdRequest(place.proxy, request);
    const move = () =>
      moveWith({
        transferId,
        source: { endpoint: place.direct, path: place.path('from') },
        destination: { endpoint: place.slow, path: place.path('to/a.csv') },
        async save(record) {
          resume = record.destination;
          return true;
        },
        async destinationLost() {
          lost.push('destination');
        },
      });
    const moving = move().catch(() => move());
    const release = await held;
    const moved = await moving;
    expect(lost).toEqual(['destination']);
    expect(readdirSync(at('to'))).toEqual(['a.csv']);
    const cleanUp = (given: Partial<Leftovers>) =>
      place.direct.removeLeftovers(place.path('to/a.csv'), {
        transferId,
        resume,
        signal: never,
        ...given,
      });
    const { bytes: size, sha256 } = moved;
    return { at, release, cleanUp, completed: { completed: true, size, sha256 } };
  }

  const SET_ASIDE = /^(rename|RNTO) .*\.old$/;

  onServer(title('gets the delivered file back that a late rename hides'), options, async () => {
    const { at, release, cleanUp, completed } = await movedBeside(SET_ASIDE);
    await cleanUp(completed);
    await release();
    expect(readdirSync(at('to'))).toEqual([expect.stringMatching(/\.old$/)]);
    await cleanUp({ repeated: true });
    expect(readdirSync(at('to'))).toEqual(['a.csv']);
    expect(readFileSync(at('to/a.csv'), 'utf8')).toBe('delivered');
  });

  onServer.each([
    ['the first clean-up', false],
    ['a later look', true],
  ])(
    title('gets a newer file of another transfer back that a late rename hides: by %s'),
    async (_, repeated) => {
      const { at, release, cleanUp, completed } = await movedBeside(SET_ASIDE);
      writeFileSync(at('to/a.csv'), 'newer, and of another size');
      await release();
      expect(readdirSync(at('to'))).toEqual([expect.stringMatching(/\.old$/)]);
      await cleanUp({ ...completed, repeated });
      expect(readdirSync(at('to'))).toEqual(['a.csv']);
      expect(readFileSync(at('to/a.csv'), 'utf8')).toBe('newer, and of another size');
    },
  );

  onServer(title('loses the part that a late request creates again'), options, async () => {
    const { at, release, cleanUp, completed } = await movedBeside(/^(open|STOR) .*\.part$/);
    await cleanUp(completed);
    await release();
    expect(readdirSync(at('to'))).toEqual([expect.stringMatching(/\.part$/), 'a.csv']);
    await cleanUp({ repeated: true });
    expect(readdirSync(at('to'))).toEqual(['a.csv']);
  });
});
