import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Leftovers, OpenDestination } from '../../../src/adapters/files/port.ts';
import { newId } from '../../../src/domain/ids.ts';
import { abandon, options, whole } from './contract.ts';
import { type Fixture, SERVERS } from './no-rename-over.ts';

vi.setConfig({ testTimeout: 60_000 });

const never = new AbortController().signal;
const OLDER = Buffer.from('older');

describe.each(SERVERS)('a commit that broke off on %s', (_name, whyNot, start) => {
  let fixture: Fixture;
  let folders = 0;
  beforeAll(async () => {
    if (whyNot === null) fixture = await start();
  });
  afterAll(async () => {
    await fixture?.endpoint.close();
    await fixture?.stop();
  });

  /** Leaves what a claim leaves whose connection breaks after it set the older file aside. */
  async function brokenOff() {
    const { endpoint, root } = fixture;
    const content = randomBytes(1_000);
    const opening = options(content.length);
    const path = join(root, `folder-${folders++}`, 'file');
    const folder = dirname(path);
    await mkdir(folder);
    const file = await endpoint.openDestination(path, opening);
    await file.write(0, content);
    const resume = await file.resumePoint(content.length);
    await file.close();
    const part = join(folder, (resume.state as { part: string }).part);
    const aside = part.replace(/part$/, 'old');
    await writeFile(aside, OLDER);
    const { transferId, claimId } = opening;

    const cleanUp = (given: Partial<Leftovers> = {}) =>
      endpoint.removeLeftovers(path, { transferId, resume, signal: never, ...given });

    /** Opens the file again, and returns what is in the folder then. */
    async function reopen(given: Partial<OpenDestination> = {}): Promise<string[]> {
      const again = options(content.length, { transferId, resume, ...given });
      const second = await endpoint.openDestination(path, again);
      const names = await readdir(folder);
      await abandon(endpoint, second, path, again);
      return names;
    }

    return {
      ...{ content, path, part, aside, transferId, claimId, resume, cleanUp, reopen },
      names: () => readdir(folder),
      publish: () => rename(part, path),
      /** Publishes, and a consumer takes the newer file at once. */
      async publishAndTake() {
        await rename(part, path);
        await rm(path);
      },
      /** Another claim has taken the part over, and saved no resume point. */
      async takeOver(): Promise<string> {
        const taken = part.replace(claimId, newId('clm'));
        await rename(part, taken);
        return taken;
      },
    };
  }

  type Broken = Awaited<ReturnType<typeof brokenOff>>;
  const onServer = test.skipIf(whyNot !== null);

  describe('before the newer file had its name', () => {
    onServer.each<[string, (it: Broken) => Promise<unknown>]>([
      ['clean-up', (it) => it.cleanUp()],
      ['a repeated clean-up', (it) => it.cleanUp({ resume: null, repeated: true })],
      ['a clean-up without a resume point', (it) => it.cleanUp({ resume: null })],
      ['a reconnect', (it) => it.reopen({ claimId: it.claimId })],
      ['a successor', (it) => it.reopen()],
    ])('%s gives the older file its name back', async (_, act) => {
      const broken = await brokenOff();
      await act(broken);
      expect(await broken.names()).toEqual(['file']);
      expect(await readFile(broken.path)).toEqual(OLDER);
    });

    onServer.each<[string, (it: Broken) => Promise<unknown>]>([
      ['clean-up', (it) => it.cleanUp()],
      ['the next successor', (it) => it.reopen()],
    ])('%s does so after a successor took the part over', async (_, act) => {
      const broken = await brokenOff();
      await broken.takeOver();
      await act(broken);
      expect(await broken.names()).toEqual(['file']);
      expect(await readFile(broken.path)).toEqual(OLDER);
    });

    onServer('a successor replaces the older file', async () => {
      const { content, path, transferId, resume, names } = await brokenOff();
      const second = await fixture.endpoint.openDestination(
        path,
        options(content.length, { transferId, resume }),
      );
      expect(await readFile(path)).toEqual(OLDER);
      await second.commit(whole(content));
      await second.close();
      expect(await readFile(path)).toEqual(content);
      expect(await names()).toEqual(['file']);
    });

    // A folder that has the name of a part ends the clean-up there: it cannot be removed as a file.
    onServer('clean-up that ends between its steps loses nothing', async () => {
      const broken = await brokenOff();
      const stuck = await broken.takeOver();
      await rm(stuck);
      await mkdir(stuck);
      await expect(broken.cleanUp()).rejects.toMatchObject({ name: 'FileError' });
      expect(await readFile(broken.path)).toEqual(OLDER);
      await rm(stuck, { recursive: true });
      await broken.cleanUp();
      expect(await readFile(broken.path)).toEqual(OLDER);
      expect(await broken.names()).toEqual(['file']);
    });
  });

  onServer('clean-up removes the older file if the newer one has its name', async () => {
    const { content, path, publish, cleanUp, names } = await brokenOff();
    await publish();
    await cleanUp();
    expect(await readFile(path)).toEqual(content);
    expect(await names()).toEqual(['file']);
  });

  describe('after a consumer took the newer file', () => {
    onServer('clean-up removes the older file', async () => {
      const { publishAndTake, cleanUp, names } = await brokenOff();
      await publishAndTake();
      await cleanUp();
      expect(await names()).toEqual([]);
    });

    onServer.each<[string, (it: Broken) => Partial<OpenDestination>]>([
      ['a reconnect', (it) => ({ claimId: it.claimId })],
      ['a successor', () => ({})],
    ])('%s does so, too', async (_, given) => {
      const broken = await brokenOff();
      await broken.publishAndTake();
      expect(await broken.reopen(given(broken))).toEqual([expect.stringMatching(/\.part$/)]);
      expect(await broken.names()).toEqual([]);
    });
  });

  onServer('a file set aside late, after a clean-up had removed the parts, goes back', async () => {
    const { path, aside, cleanUp, names } = await brokenOff();
    await cleanUp();
    // The server carries out a request of the claim that has ended.
    await rename(path, aside);
    await cleanUp({ resume: null, repeated: true });
    expect(await readFile(path)).toEqual(OLDER);
    expect(await names()).toEqual(['file']);
  });

  // As it does if the source has changed, or the server holds another size.
  onServer('a file set aside late, after a successor had removed its part, goes back', async () => {
    const { path, aside, transferId, resume, cleanUp, names } = await brokenOff();
    const given = options(1_000, { transferId, resume });
    const successor = await fixture.endpoint.openDestination(path, given);
    const theirs = await successor.resumePoint(0);
    await successor.close();
    await cleanUp({ resume: theirs });
    // The server carries out a request of the claim that was taken over.
    await rename(path, aside);
    await cleanUp({ resume: theirs });
    expect(await readFile(path)).toEqual(OLDER);
    expect(await names()).toEqual(['file']);
  });

  describe('clean-up of a completed transfer', () => {
    onServer('gives the delivered file its name back if a stale claim set it aside', async () => {
      const { content, path, part, aside, cleanUp, names } = await brokenOff();
      await rename(part, aside);
      await cleanUp({ completed: true, size: content.length });
      expect(await readFile(path)).toEqual(content);
      expect(await names()).toEqual(['file']);
    });

    onServer('does so if the size is unknown', async () => {
      const { content, path, part, aside, cleanUp } = await brokenOff();
      await rename(part, aside);
      await cleanUp({ completed: true, size: null });
      expect(await readFile(path)).toEqual(content);
    });

    onServer('removes a file of another size', async () => {
      const { content, publishAndTake, cleanUp, names } = await brokenOff();
      await publishAndTake();
      await cleanUp({ completed: true, size: content.length });
      expect(await names()).toEqual([]);
    });

    onServer('removes a file of the same size that has another SHA-256', async () => {
      const { content, aside, publishAndTake, cleanUp, names } = await brokenOff();
      await writeFile(aside, randomBytes(content.length));
      await publishAndTake();
      await cleanUp({ completed: true, ...whole(content) });
      expect(await names()).toEqual([]);
    });

    onServer('gives the delivered file its name back if the SHA-256 is known, too', async () => {
      const { content, path, part, aside, cleanUp, names } = await brokenOff();
      await rename(part, aside);
      await cleanUp({ completed: true, ...whole(content) });
      expect(await readFile(path)).toEqual(content);
      expect(await names()).toEqual(['file']);
    });

    onServer('removes a file of the same size if there is a newer one', async () => {
      const { content, path, part, aside, cleanUp, names } = await brokenOff();
      await rename(part, aside);
      await writeFile(path, 'newer');
      await cleanUp({ completed: true, size: content.length });
      expect(await readFile(path, 'utf8')).toBe('newer');
      expect(await names()).toEqual(['file']);
    });
  });
});
