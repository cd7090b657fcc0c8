import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Names } from '../../../src/adapters/files/names.ts';
import { publish } from '../../../src/adapters/files/publish.ts';
import { whyNoFtpsServer } from '../../support/file-servers/ftps/server.ts';
import { whyNoSftpServer } from '../../support/file-servers/sftp/server.ts';
import { options, upload, whole, writeFrom } from './contract.ts';
import { type Fixture, openSsh, proftpd, SERVERS } from './no-rename-over.ts';

vi.setConfig({ testTimeout: 60_000 });

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

describe.each(SERVERS)('a program that removes parts on %s', (_name, whyNot, start) => {
  test.skipIf(whyNot !== null)('takes no older file away', async () => {
    const { endpoint, root, stop } = await start();
    const path = join(root, 'file');
    const older = randomBytes(2_000);
    const newer = randomBytes(3_000);
    let removedWhileAside = 0;
    for (let round = 0; removedWhileAside < 3 && round < 100; round++) {
      await writeFile(path, older);
      const given = options(newer.length);
      const file = await endpoint.openDestination(path, given);
      await writeFrom(file, newer);
      const committing = Promise.allSettled([file.commit(whole(newer))]);
      const removed = await removeOnceAside(root);
      const [outcome] = await committing;
      await file.close();
      expect(await readdir(root)).toEqual(['file']);
      expect(await readFile(path)).toEqual(removed ? older : newer);
      if (!removed) continue;
      removedWhileAside++;
      expect(outcome).toMatchObject({ reason: { code: 'connection_failed', step: 'commit' } });
      expect(outcome).toMatchObject({ reason: { message: expect.stringContaining('is gone') } });
    }
    await endpoint.close();
    await stop();
    expect(removedWhileAside).toBe(3);
  });

  /** Removes the part while the older file is aside. Returns false if the part got its name. */
  async function removeOnceAside(root: string): Promise<boolean> {
    for (;;) {
      const names = readdirSync(root);
      const part = names.find((name) => name.endsWith('.part'));
      if (part === undefined) return false;
      if (names.some((name) => name.endsWith('.old')))
        return unlink(join(root, part)).then(
          () => true,
          () => false,
        );
      await turn();
    }
  }
});

const noFtps = await whyNoFtpsServer('proftpd');

test.skipIf(noFtps !== null)(
  'a successor starts from zero on a server that does not write over a file',
  async () => {
    const { endpoint, root, stop } = await proftpd();
    const content = randomBytes(3_000);
    const path = join(root, 'file');
    const given = options(content.length);
    const first = await endpoint.openDestination(path, given);
    await first.write(0, content.subarray(0, 1_000));
    await first.close();
    const resume = await first.resumePoint(0);
    await upload(endpoint, path, content, { transferId: given.transferId, resume });
    expect(await readFile(path)).toEqual(content);
    expect(await readdir(root)).toEqual(['file']);
    await endpoint.close();
    await stop();
  },
);

const noSftp = await whyNoSftpServer();

test.skipIf(noSftp !== null)(
  'a stale claim whose successor has published takes nothing away',
  async () => {
    const { endpoint, root, stop } = await openSsh();
    const content = randomBytes(3_000);
    const path = join(root, 'file');
    const given = options(content.length);
    const stale = await endpoint.openDestination(path, given);
    await writeFrom(stale, content);
    const resume = await stale.resumePoint(content.length);
    const { transferId } = given;
    await upload(endpoint, path, content, { transferId, resume });
    const watching = new AbortController();
    const watched = looks();
    const outcome = await Promise.allSettled([stale.commit(whole(content))]);
    watching.abort();
    const seen = await watched;
    const left = await readFile(path);
    await stale.close();
    await endpoint.close();
    await stop();
    expect(outcome).toMatchObject([{ status: 'rejected', reason: { code: 'connection_failed' } }]);
    expect(new Set(seen)).toEqual(new Set(['file']));
    expect(left).toEqual(content);

    /** Returns what was in the folder, at each look. */
    async function looks(): Promise<string[]> {
      const seen: string[] = [];
      do {
        seen.push((await readdir(root)).join());
        await sleep(1);
      } while (!watching.signal.aborted);
      return seen;
    }
  },
);

describe('a successor that publishes during the commit of a stale claim', () => {
  const PART = '/in/.file.txr_1.clm_1.part';
  const PATH = '/in/file';
  const aside = '/in/.file.txr_1.clm_1.old';
  const PUBLICATION = { part: PART, aside, path: PATH, overwrite: true };

  /**
   * A server that does not rename over a file. The successor takes the part over and publishes it
   * before the operation of this number.
   */
  function overtaken(before: number): { names: Names; files: Map<string, string>; done(): number } {
    const files = new Map([
      [PATH, 'old'],
      [PART, 'new'],
    ]);
    let operations = 0;
    const next = () => {
      if (operations++ === before && files.delete(PART)) files.set(PATH, 'new');
    };
    const names: Names = {
      async typeOf(path) {
        next();
        return files.has(path) ? 'file' : null;
      },
      sizeOf: async (path) => files.get(path)?.length ?? null,
      list: async () => [],
      async rename(from, to) {
        next();
        const content = files.get(from);
        if (content === undefined || files.has(to)) throw new Error('refused');
        files.delete(from);
        files.set(to, content);
      },
      renameOver: null,
      async remove(path) {
        next();
        files.delete(path);
      },
      isRefusal: () => true,
    };
    return { names, files, done: () => operations };
  }

  test('keeps its file under the name, at any moment', async () => {
    const alone = overtaken(Number.POSITIVE_INFINITY);
    expect(await publish(alone.names, PUBLICATION)).toEqual({ atomicReplace: false });
    for (let before = 0; before < alone.done(); before++) {
      const { names, files } = overtaken(before);
      await publish(names, PUBLICATION).catch((error) =>
        expect(error).toMatchObject({ code: 'connection_failed', step: 'commit' }),
      );
      expect([before, ...files]).toEqual([before, [PATH, 'new']]);
    }
  });
});
