import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { startFtpsServer, whyNoFtpsServer } from '../../support/ftps-server.ts';
import { startSftpServer, whyNoSftpServer } from '../../support/sftp-server.ts';
import { options, whole, writeFrom } from './contract.ts';
import { endpointOn } from './ftps/ftps-endpoint.ts';
import { endpointOn as sftpEndpointOn } from './sftp/sftp-endpoint.ts';

vi.setConfig({ testTimeout: 60_000 });

interface Fixture {
  endpoint: FileEndpoint;
  root: string;
  stop(): Promise<void>;
}

async function openSsh(): Promise<Fixture> {
  const server = await startSftpServer({ denied: ['posix-rename'] });
  return { endpoint: sftpEndpointOn(server), root: server.root, stop: server.stop };
}

async function proftpd(): Promise<Fixture> {
  const server = await startFtpsServer({
    kind: 'proftpd',
    tls: 'explicit',
    extraConfig: 'AllowOverwrite off',
  });
  return {
    endpoint: endpointOn(server, { maxConnections: 8 }),
    root: server.root,
    stop: server.stop,
  };
}

const SERVERS = [
  ['OpenSSH without posix-rename', await whyNoSftpServer(), openSsh],
  ['ProFTPD without AllowOverwrite', await whyNoFtpsServer('proftpd'), proftpd],
] as const;

describe.each(SERVERS)('rival uploads to one name on %s', (_name, whyNot, start) => {
  let fixture: Fixture;
  beforeAll(async () => {
    if (whyNot === null) fixture = await start();
  });
  afterAll(async () => {
    await fixture?.endpoint.close();
    await fixture?.stop();
  });

  /** Returns every file under the name or set aside. Each must be one of the whole ones. */
  async function watch(file: string, contents: Set<string>, signal: AbortSignal): Promise<number> {
    let looks = 0;
    for (; !signal.aborted; looks++) {
      for (const name of await readdir(fixture.root)) {
        if (name !== file && !(name.startsWith(`.${file}.`) && name.endsWith('.old'))) continue;
        const content = await readFile(join(fixture.root, name), 'latin1').catch(() => null);
        if (content !== null && !contents.has(content)) throw new Error(`${name} is not whole`);
      }
      await sleep(1);
    }
    return looks;
  }

  test.skipIf(whyNot !== null).each([
    [2, 15],
    [8, 3],
  ])('%i transfers publish at once, %i times, and all succeed', async (rivals, rounds) => {
    const { endpoint, root } = fixture;
    for (let round = 0; round < rounds; round++) {
      const name = `file-${rivals}-${round}`;
      const path = join(root, name);
      const older = randomBytes(2_000);
      const newer = Array.from({ length: rivals }, () => randomBytes(3_000));
      await writeFile(path, older);
      const files = await Promise.all(
        newer.map((content) => endpoint.openDestination(path, options(content.length))),
      );
      await Promise.all(files.map((file, n) => writeFrom(file, newer[n] as Buffer)));
      const watching = new AbortController();
      const contents = new Set([older, ...newer].map((content) => content.toString('latin1')));
      const watched = watch(name, contents, watching.signal);
      const proofs = await Promise.allSettled(
        files.map((file, n) => file.commit(whole(newer[n] as Buffer))),
      );
      watching.abort();
      await Promise.all(files.map((file) => file.close()));
      expect(proofs.filter(({ status }) => status === 'rejected')).toEqual([]);
      expect(await watched).toBeGreaterThan(0);
      const left = await readFile(path);
      expect(newer.some((content) => content.equals(left))).toBe(true);
      expect((await readdir(root)).filter((other) => other.includes(name))).toEqual([name]);
    }
  });
});
