import { createHash, randomBytes } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { commitAlways } from '../../../src/adapters/files/commit.ts';
import type {
  CommitProof,
  DestinationFile,
  FileEndpoint,
  OpenDestination,
  SourceFile,
} from '../../../src/adapters/files/port.ts';
import { countOf, createSharedCounter } from '../../../src/concurrency/shared-counter.ts';
import { newId } from '../../../src/domain/ids.ts';

/** A real server with an endpoint on it, and access to its files without the adapter. */
export interface EndpointFixture {
  endpoint: FileEndpoint;
  /** Returns the remote path of a name. The name may contain folders. */
  path(name: string): string;
  put(name: string, content: Buffer): Promise<void>;
  /** Null if there is no such file. */
  get(name: string): Promise<Buffer | null>;
  /** Names of all files on the server, part files included. */
  names(): Promise<string[]>;
  stop(): Promise<void>;
}

const never = new AbortController().signal;

const ODD_NAMES = [
  'with space.txt',
  'Übergröße-文件-🚚.bin',
  '100% #1?.txt',
  `quote"and'quote`,
  ' leading and trailing ',
  '-rf',
  '*[a]{b}',
  '~',
  'x'.repeat(200),
];

/**
 * What every FileEndpoint must do. `whyNot` skips the suite by name. `partFiles`: the protocol
 * writes a part file before the commit. `resumes`: the server can continue a file.
 * `removesOpenFiles`: a file that is removed while it is written is gone when it is closed.
 * `tags`: those of the suite.
 */
export function describeFileEndpoint(
  name: string,
  whyNot: string | null,
  start: () => Promise<EndpointFixture>,
  { partFiles = false, resumes = true, removesOpenFiles = true, tags = [] as string[] } = {},
): void {
  const title = whyNot === null ? name : `${name} (${whyNot})`;
  describe.skipIf(whyNot !== null)(title, { tags }, () => {
    let fixture: EndpointFixture;
    let endpoint: FileEndpoint;
    beforeAll(async () => {
      fixture = await start();
      endpoint = fixture.endpoint;
    });
    afterAll(async () => {
      await endpoint?.close();
      await fixture?.stop();
    });

    async function leftovers(): Promise<string[]> {
      return (await fixture.names()).filter((file) => file.includes('.part'));
    }

    async function versionOf(path: string): Promise<string | null> {
      const file = await endpoint.openSource(path, never);
      await file.close();
      return file.identity.version;
    }

    test.each([0, 1, 10_240, 8 << 20, (8 << 20) + 1, 32 << 20])(
      'a file of %i bytes moves in and out, and is counted',
      async (size) => {
        const content = randomBytes(size);
        const acknowledged = createSharedCounter();
        const path = fixture.path(`size-${size}`);
        const proof = await upload(endpoint, path, content, { acknowledged });
        expect(proof.size).toBe(size);
        if (proof.version !== undefined) expect(await versionOf(path)).toBe(proof.version);
        expect(countOf(acknowledged)).toBe(size);
        expect(content.equals((await fixture.get(`size-${size}`)) as Buffer)).toBe(true);
        expect(content.equals(await download(endpoint, fixture.path(`size-${size}`)))).toBe(true);
      },
    );

    test.each([0, 1, 10_240, 256 << 10])(
      'a small file of %i bytes may be given when its destination is opened',
      async (size) => {
        const content = randomBytes(size);
        const path = fixture.path(`given-${size}`);
        const file = await endpoint.openDestination(path, options(size, { content }));
        expect([0, size]).toContain(file.resumedFrom);
        expect(await fixture.get(`given-${size}`)).toBeNull();
        await writeFrom(file, content);
        const written = await file.openWritten();
        if (written) {
          const target = Buffer.alloc(size);
          await readAll(written, target);
          await written.close();
          expect(target).toEqual(content);
        }
        expect(await file.commit(whole(content))).toMatchObject({ size });
        await file.close();
        expect(await fixture.get(`given-${size}`)).toEqual(content);
        expect(await leftovers()).toEqual([]);
      },
    );

    test('a source that is read as a whole has the identity after the read', async () => {
      for (const size of [0, 1, 10_240, 256 << 10]) {
        const content = randomBytes(size);
        await fixture.put('read-whole', content);
        const file = await endpoint.openSource(fixture.path('read-whole'), never);
        const target = Buffer.alloc(size);
        const after = await file.readWhole?.(target);
        if (after) expect({ after, target }).toEqual({ after: file.identity, target: content });
        await fixture.put('read-whole', Buffer.concat([content, Buffer.from('more')]));
        const changed = await file.readWhole?.(target);
        if (changed) expect(changed).not.toEqual(file.identity);
        await file.close();
      }
    });

    test.each(ODD_NAMES)('the name %j is used as it is', async (odd) => {
      const content = Buffer.from(odd);
      await upload(endpoint, fixture.path(`odd/${odd}`), content);
      expect(await fixture.get(`odd/${odd}`)).toEqual(content);
      expect(await download(endpoint, fixture.path(`odd/${odd}`))).toEqual(content);
    });

    test('missing folders are created', async () => {
      await upload(endpoint, fixture.path('new/folder/in/depth.txt'), Buffer.from('deep'));
      expect(await fixture.get('new/folder/in/depth.txt')).toEqual(Buffer.from('deep'));
    });

    test('concurrent uploads into one new folder do not disturb each other', async () => {
      const names = Array.from({ length: 20 }, (_, index) => `crowd/a/b/${index}`);
      await Promise.all(
        names.map((file) => upload(endpoint, fixture.path(file), Buffer.from(file))),
      );
      for (const file of names) expect(await fixture.get(file)).toEqual(Buffer.from(file));
    });

    test('an existing file is replaced', async () => {
      await fixture.put('replaced', Buffer.from('the old and longer content'));
      for (const content of ['new', 'newer', '']) {
        const acknowledged = createSharedCounter();
        await upload(endpoint, fixture.path('replaced'), Buffer.from(content), { acknowledged });
        expect(countOf(acknowledged)).toBe(content.length);
        expect(String(await fixture.get('replaced'))).toBe(content);
      }
    });

    test('an existing file stays if it may not be overwritten', async () => {
      await fixture.put('kept', Buffer.from('old'));
      await expect(
        upload(endpoint, fixture.path('kept'), Buffer.from('new'), { overwrite: false }),
      ).rejects.toMatchObject({
        code: 'destination_exists',
      });
      expect(await fixture.get('kept')).toEqual(Buffer.from('old'));
    });

    test('a file that appears meanwhile is not overwritten either', async () => {
      const content = Buffer.from('new');
      const given = options(content.length, { overwrite: false });
      const file = await endpoint.openDestination(fixture.path('raced'), given);
      await file.write(0, content);
      await fixture.put('raced', Buffer.from('other'));
      await expect(file.commit(whole(content))).rejects.toMatchObject({
        code: 'destination_exists',
        step: 'commit',
      });
      await abandon(endpoint, file, fixture.path('raced'), given);
      expect(await fixture.get('raced')).toEqual(Buffer.from('other'));
      expect(await leftovers()).toEqual([]);
    });

    test('the name does not exist before the commit', async () => {
      const content = randomBytes(100_000);
      await fixture.put('whole', Buffer.from('before'));
      const file = await endpoint.openDestination(fixture.path('whole'), options(content.length));
      await file.write(0, content);
      expect(await fixture.get('whole')).toEqual(Buffer.from('before'));
      await commitAlways(file, whole(content));
      await file.close();
      expect(content.equals((await fixture.get('whole')) as Buffer)).toBe(true);
      expect(await leftovers()).toEqual([]);
    });

    describe('dispose', () => {
      const transferId = newId('txr');

      /** Opens the file, as a transfer does, and returns what then deletes or moves it. */
      async function disposalOf(file: string, moveTo: string | null = null) {
        const path = fixture.path(file);
        const source = await endpoint.openSource(path, never);
        await source.close();
        const folder = moveTo && fixture.path(moveTo);
        const { identity } = source;
        return () =>
          endpoint.dispose(path, { transferId, identity, moveTo: folder, signal: never });
      }

      test('deletes the file that was copied, and finds it gone afterwards', async () => {
        await fixture.put('disposed/copied', Buffer.from('copied'));
        const dispose = await disposalOf('disposed/copied');
        expect(await dispose()).toEqual({ outcome: 'deleted' });
        expect(await fixture.get('disposed/copied')).toBeNull();
        expect(await dispose()).toEqual({ outcome: 'gone', movedAs: null });
      });

      test('leaves another file under the name as it is', async () => {
        await fixture.put('disposed/changed', Buffer.from('copied'));
        const remove = await disposalOf('disposed/changed');
        const move = await disposalOf('disposed/changed', 'disposed/never/');
        await fixture.put('disposed/changed', Buffer.from('another and longer one'));
        const changed = { outcome: 'changed', found: { size: 22 } };
        expect(await remove()).toMatchObject(changed);
        expect(await move()).toMatchObject(changed);
        expect(await fixture.get('disposed/changed')).toEqual(
          Buffer.from('another and longer one'),
        );
      });

      test('moves the file, and adds the id to a name that is taken', async () => {
        await fixture.put('disposed/moved.csv', Buffer.from('first'));
        const first = await disposalOf('disposed/moved.csv', 'disposed/new folder/deep/');
        expect(await first()).toEqual({ outcome: 'moved', name: 'moved.csv' });
        expect(await first()).toEqual({ outcome: 'gone', movedAs: 'moved.csv' });

        await fixture.put('disposed/moved.csv', Buffer.from('the second'));
        const second = await disposalOf('disposed/moved.csv', 'disposed/new folder/deep/');
        const name = `moved.${transferId}.csv`;
        expect(await second()).toEqual({ outcome: 'moved', name });
        expect(await fixture.get('disposed/moved.csv')).toBeNull();
        expect(await fixture.get('disposed/new folder/deep/moved.csv')).toEqual(
          Buffer.from('first'),
        );
        expect(await fixture.get(`disposed/new folder/deep/${name}`)).toEqual(
          Buffer.from('the second'),
        );

        await fixture.put('disposed/moved.csv', Buffer.from('a third one'));
        const third = await disposalOf('disposed/moved.csv', 'disposed/new folder/deep/');
        await expect(third()).rejects.toMatchObject({ code: 'destination_exists' });
        expect(await fixture.get('disposed/moved.csv')).toEqual(Buffer.from('a third one'));
        expect((await fixture.names()).filter((file) => file.includes('.held'))).toEqual([]);
      });

      test('moves a file of a taken name whose ending is long', async () => {
        const file = `a.${'y'.repeat(250)}`;
        await fixture.put(`disposed/${file}`, Buffer.from('newer'));
        await fixture.put(`disposed/taken/${file}`, Buffer.from('older'));
        const dispose = await disposalOf(`disposed/${file}`, 'disposed/taken/');
        const name = `${file.slice(0, 150)}.${transferId}`;
        expect(await dispose()).toEqual({ outcome: 'moved', name });
        expect(await fixture.get(`disposed/taken/${name}`)).toEqual(Buffer.from('newer'));
      });

      test.each(ODD_NAMES)('moves %j', async (odd) => {
        await fixture.put(`disposed/${odd}`, Buffer.from(odd));
        const dispose = await disposalOf(`disposed/${odd}`, 'disposed/odd/');
        expect(await dispose()).toEqual({ outcome: 'moved', name: odd });
        expect(await fixture.get(`disposed/odd/${odd}`)).toEqual(Buffer.from(odd));
      });
    });

    test('a commit with missing bytes is rejected', async () => {
      const content = randomBytes(1000);
      const given = options(content.length);
      const file = await endpoint.openDestination(fixture.path('short'), given);
      await file.write(0, content.subarray(0, 999));
      await expect(file.commit(whole(content))).rejects.toMatchObject({ code: 'size_mismatch' });
      await abandon(endpoint, file, fixture.path('short'), given);
      expect(await fixture.get('short')).toBeNull();
    });

    const uses = {
      'it is read back': (file: DestinationFile) => file.openWritten(),
      'the commit': (file: DestinationFile, content: Buffer) => file.commit(whole(content)),
    };
    for (const [moment, use] of partFiles ? Object.entries(uses) : []) {
      test(`a part that was removed before ${moment} is sent again`, async () => {
        const content = randomBytes(1000);
        const path = fixture.path('removed-part');
        const given = options(content.length);
        const first = await endpoint.openDestination(path, given);
        await first.write(0, content);
        const resume = await first.resumePoint(content.length);
        for (const part of await leftovers()) await endpoint.remove(fixture.path(part), never);
        // The code for which a move connects again.
        if (removesOpenFiles)
          await expect(use(first, content)).rejects.toMatchObject({ code: 'connection_failed' });
        await first.close();
        await upload(endpoint, path, content, { ...given, resume });
        expect(await fixture.get('removed-part')).toEqual(content);
        expect(await leftovers()).toEqual([]);
      });
    }

    test('clean-up removes the leftovers of several claims, and nothing else', async () => {
      const transferId = newId('txr');
      const before = Buffer.from('the destination as it was');
      await fixture.put('left-behind', before);
      for (const _claim of ['first', 'second']) {
        const file = await endpoint.openDestination(
          fixture.path('left-behind'),
          options(9, { transferId }),
        );
        await file.write(0, Buffer.from('some bits'));
        await file.close();
      }
      const other = await endpoint.openDestination(fixture.path('left-behind'), options(5));
      await other.write(0, Buffer.from('other'));
      await endpoint.removeLeftovers(fixture.path('left-behind'), {
        transferId,
        resume: null,
        signal: never,
      });
      expect(await fixture.get('left-behind')).toEqual(before);
      await commitAlways(other, whole(Buffer.from('other')));
      await other.close();
      expect(await leftovers()).toEqual([]);
      expect(await fixture.get('left-behind')).toEqual(Buffer.from('other'));
    });

    test('clean-up without leftovers removes nothing', async () => {
      await endpoint.removeLeftovers(fixture.path('no/such/folder/file'), {
        transferId: newId('txr'),
        resume: null,
        signal: never,
      });
    });

    test('closing a source ends its reads: no buffer is written to afterwards', async () => {
      await fixture.put('closed-early', randomBytes(16 << 20));
      const source = await endpoint.openSource(fixture.path('closed-early'), never);
      const target = Buffer.alloc(16 << 20);
      const reading = source.read(0, target).catch(() => {});
      while (target.subarray(0, 1024).every((byte) => byte === 0)) await turn();
      await Promise.all([source.close(), source.close()]);
      const atClose = Buffer.from(target);
      await reading;
      expect(target.equals(atClose)).toBe(true);
    });

    test('closing a destination ends its writes', async () => {
      const content = randomBytes(16 << 20);
      const given = options(content.length);
      const file = await endpoint.openDestination(fixture.path('never-finished'), given);
      const writing = file.write(0, content.subarray(0, file.chunkSize)).catch(() => {});
      await turn();
      await Promise.all([file.close(), file.close()]);
      await writing;
      await abandon(endpoint, file, fixture.path('never-finished'), given);
      expect(await fixture.get('never-finished')).toBeNull();
      expect(await leftovers()).toEqual([]);
    });

    test.each([0, 1])(
      'a successor with another claim resumes where the first one stopped, after %i chunks',
      async (chunks) => {
        const content = randomBytes((16 << 20) + 5);
        const transferId = newId('txr');
        const first = await endpoint.openDestination(
          fixture.path('resumed'),
          options(content.length, { transferId }),
        );
        const written = chunks * first.chunkSize;
        if (written > 0) await first.write(0, content.subarray(0, written));
        const resume = JSON.parse(JSON.stringify(await first.resumePoint(written)));
        await first.close();
        const second = await endpoint.openDestination(
          fixture.path('resumed'),
          options(content.length, { transferId, resume }),
        );
        expect(second.resumedFrom).toBe(resumes ? written : 0);
        await writeFrom(second, content);
        await second.commit(whole(content));
        await second.close();
        expect(content.equals((await fixture.get('resumed')) as Buffer)).toBe(true);
        expect(await leftovers()).toEqual([]);
      },
    );

    test('an upload starts from zero when its resume point is gone', async () => {
      const content = randomBytes(9 << 20);
      const given = options(content.length);
      const first = await endpoint.openDestination(fixture.path('afresh'), given);
      await first.write(0, content.subarray(0, first.chunkSize));
      const resume = await first.resumePoint(first.chunkSize);
      await abandon(endpoint, first, fixture.path('afresh'), given);
      const second = await endpoint.openDestination(
        fixture.path('afresh'),
        options(content.length, { resume }),
      );
      expect(second.resumedFrom).toBe(0);
      await writeFrom(second, content);
      await second.commit(whole(content));
      await second.close();
      expect(content.equals((await fixture.get('afresh')) as Buffer)).toBe(true);
    });

    test('a missing source is reported', async () => {
      await expect(endpoint.openSource(fixture.path('no-such-file'), never)).rejects.toMatchObject({
        name: 'FileError',
        code: 'source_not_found',
        step: 'open',
      });
    });

    test('a source that shrinks during the read does not count as complete', async () => {
      await fixture.put('shrinking', randomBytes(4 << 20));
      const file = await endpoint.openSource(fixture.path('shrinking'), never);
      await fixture.put('shrinking', randomBytes(1 << 20));
      await expect(file.read(0, new Uint8Array(4 << 20))).rejects.toMatchObject({
        code: 'source_changed',
      });
      await file.close();
    });

    test('a replaced source has another identity', async () => {
      await fixture.put('identity', randomBytes(1000));
      const file = await endpoint.openSource(fixture.path('identity'), never);
      expect(await file.stat()).toEqual(file.identity);
      await fixture.put('identity', randomBytes(1001));
      expect(await file.stat()).not.toEqual(file.identity);
      await file.close();
    });

    test('a folder is listed', async () => {
      await fixture.put('listed/file.txt', Buffer.from('12345'));
      await fixture.put('listed/below/deeper.txt', Buffer.from('1'));
      const entries = await endpoint.list(fixture.path('listed'), never);
      expect(
        entries
          .map(({ name, type, size }) => ({ name, type, size }))
          .sort((a, b) => a.name.localeCompare(b.name)),
      ).toEqual([
        { name: 'below', type: 'directory', size: null },
        { name: 'file.txt', type: 'file', size: 5 },
      ]);
      const modifiedAt = entries.find((entry) => entry.name === 'file.txt')?.modified_at ?? null;
      if (modifiedAt !== null) expect(Date.parse(modifiedAt)).not.toBeNaN();
    });

    test('the configured server is trusted', async () => {
      expect(await endpoint.probe(never)).toMatchObject({ trusted: true, reason: null });
    });

    test('an aborted signal ends a move, and the endpoint remains usable', async () => {
      await fixture.put('aborted', randomBytes(8 << 20));
      const control = new AbortController();
      const file = await endpoint.openSource(fixture.path('aborted'), control.signal);
      const reading = file.read(0, new Uint8Array(8 << 20));
      control.abort();
      await expect(reading).rejects.toMatchObject({ name: 'FileError' });
      await file.close();
      await expect(
        endpoint.openSource(fixture.path('aborted'), control.signal),
      ).rejects.toMatchObject({ name: 'FileError' });
      expect((await download(endpoint, fixture.path('aborted'))).length).toBe(8 << 20);
    });

    test('no call leaves a listener on its signal, which may be that of the process', async () => {
      const { signal } = new AbortController();
      const path = fixture.path('listeners/file');
      await upload(endpoint, path, Buffer.from('content'), { signal });
      const file = await endpoint.openSource(path, signal);
      await file.stat();
      await file.close();
      const { identity } = file;
      await endpoint.list(fixture.path('listeners'), signal);
      await endpoint.probe(signal);
      const options = { transferId: newId('txr'), signal };
      await endpoint.removeLeftovers(path, { ...options, resume: null });
      await endpoint.dispose(path, {
        ...options,
        identity,
        moveTo: fixture.path('listeners/done/'),
      });
      await endpoint.remove(fixture.path('listeners/done/file'), signal);
      expect(getEventListeners(signal, 'abort')).toEqual([]);
    });

    test('the leftovers of an aborted upload can still be removed', async () => {
      const control = new AbortController();
      const given = options(8 << 20, { signal: control.signal });
      const file = await endpoint.openDestination(fixture.path('aborted-upload'), given);
      const writing = file.write(0, randomBytes(8 << 20));
      control.abort();
      await expect(writing).rejects.toMatchObject({ name: 'FileError' });
      await abandon(endpoint, file, fixture.path('aborted-upload'), given);
      expect(await fixture.get('aborted-upload')).toBeNull();
      expect(await leftovers()).toEqual([]);
    });
  });
}

/** Options of a destination for its own transfer and claim. */
export function options(size: number, given: Partial<OpenDestination> = {}): OpenDestination {
  return {
    transferId: newId('txr'),
    claimId: newId('clm'),
    size,
    overwrite: true,
    resume: null,
    signal: never,
    ...given,
  };
}

export function whole(content: Buffer): { size: number; sha256: string } {
  return { size: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

/**
 * Writes, commits and closes as a mover does: chunk by chunk, as many at once as the destination
 * accepts.
 */
export async function upload(
  endpoint: FileEndpoint,
  path: string,
  content: Buffer,
  given: Partial<OpenDestination> = {},
): Promise<CommitProof> {
  const opening = options(content.length, given);
  const file = await endpoint.openDestination(path, opening);
  try {
    await writeFrom(file, content);
    const proof = await commitAlways(file, whole(content));
    await file.close();
    return proof;
  } catch (error) {
    await abandon(endpoint, file, path, opening);
    throw error;
  }
}

/** Ends a failed transfer, as a mover does. */
export async function abandon(
  endpoint: FileEndpoint,
  file: DestinationFile,
  path: string,
  { transferId }: OpenDestination,
): Promise<void> {
  await file.close();
  await endpoint.removeLeftovers(path, { transferId, resume: null, signal: never });
}

/** Writes the bytes missing from `resumedFrom`. */
export async function writeFrom(file: DestinationFile, content: Buffer): Promise<void> {
  const offsets = chunks(file.resumedFrom, content.length, file.chunkSize);
  await inParallel(file.parallelWrites, offsets, ([start, end]) =>
    file.write(start, content.subarray(start, end)),
  );
}

/**
 * Opens a source over an endpoint with short limits. Repeats it: a pause of this process may take
 * longer than they are.
 */
export function opened(endpoint: FileEndpoint, path: string): Promise<SourceFile> {
  return vi.waitFor(() => endpoint.openSource(path, never), 30_000);
}

/** Writes a file over an endpoint with short limits, up to its commit. Repeats it likewise. */
export function written(
  endpoint: FileEndpoint,
  path: string,
  content: Buffer,
): Promise<DestinationFile> {
  return vi.waitFor(async () => {
    const file = await endpoint.openDestination(path, options(content.length));
    try {
      await writeFrom(file, content);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }, 30_000);
}

export async function download(endpoint: FileEndpoint, path: string): Promise<Buffer> {
  const file = await endpoint.openSource(path, never);
  const content = Buffer.alloc(file.identity.size);
  try {
    await readAll(file, content);
    return content;
  } finally {
    await file.close();
  }
}

export async function readAll(file: SourceFile, content: Buffer): Promise<void> {
  const offsets = chunks(0, content.length, 8 << 20);
  await inParallel(file.parallelReads, offsets, ([start, end]) =>
    file.read(start, content.subarray(start, end)),
  );
}

function chunks(from: number, to: number, size: number): [number, number][] {
  const offsets: [number, number][] = [];
  for (let start = from; start < to; start += size)
    offsets.push([start, Math.min(to, start + size)]);
  return offsets;
}

async function inParallel<Item>(
  width: number,
  items: Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (const item of queue) await work(item);
    }),
  );
}
