import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createFilter, GlobTooSlow } from '../../../src/adapters/files/globs.ts';
import { type FileEntry, FileError } from '../../../src/adapters/files/port.ts';
import { type Found, type List, walk } from '../../../src/processes/batches/walk.ts';

const folder = {
  source_uri: 'sftp://from/',
  destination_uri: 'sftp://to/',
  pattern: '*',
  recursive: true,
  exclude: [] as string[],
};

/** Lists folders as they follow from the paths of their files. A folder ends in a slash. */
function listing(paths: readonly string[], denied: readonly string[] = []): List {
  return async (folderPath) => {
    if (denied.includes(folderPath))
      throw new FileError('permission_denied', 'open', `${folderPath}: permission denied`);
    const start = folderPath === '' ? '' : `${folderPath}/`;
    const entries = new Map<string, FileEntry>();
    for (const path of paths) {
      if (!path.startsWith(start)) continue;
      const [name = '', ...rest] = path.slice(start.length).split('/');
      if (name === '' && rest.length === 0) continue;
      const type = rest.length > 0 ? 'directory' : name.endsWith('@') ? 'other' : 'file';
      entries.set(`${name} ${type}`, { name, type, size: 1, modified_at: null });
    }
    return [...entries.values()].reverse();
  };
}

async function all(
  list: List,
  changes: Partial<typeof folder> = {},
  through: string | null = null,
  signal: AbortSignal = new AbortController().signal,
): Promise<Found[]> {
  const found: Found[] = [];
  for await (const one of walk(list, { ...folder, ...changes }, through, signal)) found.push(one);
  return found;
}
const pathsOf = (found: Found[]) => found.map(({ path }) => path);

describe('the walk through a folder', () => {
  const files = ['b.csv', 'a/z.csv', 'a/b/c.csv', 'a.csv', 'a/.hidden', 'link@'];

  it('rejects names that could not be read, and does not enter such folders', async () => {
    const found = await all(listing(['caf\ufffd', 'fold\ufffd/a', 'plain']));
    const error = { code: 'validation_failed' };
    expect(found).toMatchObject([
      { path: 'caf\ufffd', error },
      { path: 'fold\ufffd/', error },
      { path: 'plain' },
    ]);
    expect(found[2]).not.toHaveProperty('error');
  });

  it.each(['*', '**/*', '?*', '!(x)'])(
    'leaves no name out that begins with a line break, or is . or ..: %s',
    async (pattern) => {
      const names = ['\n.a', '\r.a', '.', '..', '...', 'b\n.a', '\u2028.a', '\u2029.a'];
      expect(pathsOf(await all(listing(names), { pattern }))).toEqual(names);
      const below = ['.', '..', '../a', './a', 'a/.', 'a/..', 'a/../a'].map((path) => `x/${path}`);
      const found = pathsOf(await all(listing(below), { pattern }));
      expect(found.toSorted()).toEqual(below.toSorted());
    },
  );

  it('finds the files of the folder, or of its subfolders too', async () => {
    expect(pathsOf(await all(listing(files), { recursive: false }))).toEqual([
      'a.csv',
      'b.csv',
      'link@',
    ]);
    expect(pathsOf(await all(listing(files)))).toEqual([
      'a/.hidden',
      'a/b/c.csv',
      'a/z.csv',
      'a.csv',
      'b.csv',
      'link@',
    ]);
  });

  it('leaves out the part files of transfers', async () => {
    const part = '.a.csv.txr_01JNQ0000000000000000000T1.clm_01JNQ0000000000000000000T1.part';
    expect(pathsOf(await all(listing([part, 'a.csv'])))).toEqual(['a.csv']);
  });

  it('rejects a folder without a name, as object stores have them, and ends', async () => {
    const odd = ['/root.csv', 'a//below.csv', 'a/b/c.csv', 'a.csv'];
    const found = await all(listing(odd));
    expect(pathsOf(found)).toEqual(['/', 'a//', 'a/b/c.csv', 'a.csv']);
    expect(found[1]).toMatchObject({ error: { code: 'validation_failed' } });
    expect(pathsOf(await all(listing(odd), {}, 'a//'))).toEqual(['a/b/c.csv', 'a.csv']);
    expect(pathsOf(await all(listing(odd), { recursive: false }))).toEqual(['a.csv']);
  });

  it('lists no folder of which a glob leaves everything out', async () => {
    const paths = ['a/b/c.csv', 'a/d.csv', 'b/c.csv', 'private', 'x/private/y/z.csv', 'x//y.csv'];
    const listed: string[] = [];
    const list: List = (path) => {
      listed.push(path);
      return listing(paths, ['x/private'])(path);
    };
    const exclude = ['a/b/**', '**/private/**', '!(x)/c.csv'];
    const found = await all(list, { exclude });
    expect(pathsOf(found)).toEqual(['a/d.csv', 'x//']);
    expect(found[1]).toMatchObject({ unnameable: true });
    expect(listed).toEqual(['', 'a', 'b', 'x']);
  });

  it('names what is no file, and a folder that cannot be listed', async () => {
    const found = await all(listing(files, ['a/b']));
    expect(found.filter(({ error }) => error)).toMatchObject([
      { path: 'a/b/', error: { code: 'permission_denied', message: 'a/b: permission denied' } },
      { path: 'link@', error: { code: 'not_a_file', message: expect.any(String) } },
    ]);
    expect(await all(listing(files, ['']))).toMatchObject([{ path: '' }]);
  });

  it('continues after any path that it has yielded, without a repetition', async () => {
    const segment = fc.constantFrom('a', 'b', 'a.b', 'A', '-', 'ä', 'a!');
    const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(path, { minLength: 1, maxLength: 25 }),
        fc.array(path, { maxLength: 3 }),
        fc.nat(),
        async (paths, denied, place) => {
          const list = listing(paths, denied);
          const found = await all(list);
          const at = place % found.length;
          const rest = await all(list, {}, found[at]?.path as string);
          expect(rest).toEqual(found.slice(at + 1));
        },
      ),
      { numRuns: 100 },
    );
  });

  it('leaves no file out without a reason if folders fail when it continues', async () => {
    const segment = fc.constantFrom('a', 'b', 'a.b', '-');
    const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
    const folderPath = fc.oneof(path, fc.constant(''));
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(path, { minLength: 1, maxLength: 25 }),
        fc.array(path, { maxLength: 3 }),
        fc.array(folderPath, { minLength: 1, maxLength: 3 }),
        fc.nat(),
        async (paths, denied, deniedLater, place) => {
          const whole = pathsOf(await all(listing(paths)));
          const before = pathsOf(await all(listing(paths, denied)));
          const through = before[place % before.length] as string;
          const found = pathsOf(await all(listing(paths, deniedLater), {}, through));
          const said = [...before.slice(0, before.indexOf(through) + 1), ...found];
          const isSaid = (one: string) =>
            said.some(
              (it) => it === one || ((it === '' || it.endsWith('/')) && one.startsWith(it)),
            );
          expect(whole.filter((one) => !isSaid(one))).toEqual([]);
          expect(new Set(said).size).toBe(said.length);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('ends at the first folder whose names take the pattern too long', async () => {
    const slow = 'a'.repeat(200);
    const found = await all(listing([`1/${slow}`, `2/${slow}`, '3/b']), { pattern: '(a+)+$' });
    expect(found).toMatchObject([{ path: '1/', error: { code: 'validation_failed' } }]);
  });

  it('ends when it is stopped', async () => {
    expect(await all(listing(files), {}, null, AbortSignal.abort())).toEqual([]);
  });
});

describe('the globs of a batch', () => {
  const taken = async (pattern: string, exclude: string[], paths: string[]) => {
    const takes = await createFilter({ pattern, exclude })(paths);
    return paths.filter((_, i) => takes[i]);
  };

  it.each([
    ['*', [], ['a.csv', '.hidden', 'sub/b.csv'], ['a.csv', '.hidden', 'sub/b.csv']],
    ['*.csv', [], ['a.csv', 'a.CSV', 'sub/b.csv', 'b.csv.gz'], ['a.csv', 'sub/b.csv']],
    ['*.{csv,txt}', ['b*'], ['a.csv', 'b.csv', 'c.txt', 'd.pdf'], ['a.csv', 'c.txt']],
    ['sub/*', [], ['a.csv', 'sub/b.csv', 'sub/deep/c.csv'], ['sub/b.csv']],
    ['*', ['tmp/**'], ['a.csv', 'tmp/b.csv', 'tmp/deep/c.csv', 'x/tmp/d'], ['a.csv', 'x/tmp/d']],
    ['[ab]?.csv', [], ['a1.csv', 'c1.csv', 'b.csv'], ['a1.csv']],
    ['*.csv', [], ['.', '..', '../a.csv', './a.txt'], ['../a.csv']],
    ['.*', [], ['.', '..', '.a', 'a'], ['..', '.a']],
    ['*', ['..', 'a/*'], ['.', '..', 'a/.', 'b/..', 'b/.'], ['.', 'b/.']],
  ])('%s without %j', async (pattern, exclude, paths, expected) => {
    expect(await taken(pattern, exclude, paths)).toEqual(expected);
  });

  it('are compared with all names of a large folder', async () => {
    const paths = Array.from({ length: 25_000 }, (_, i) => `${i}.${i % 2 ? 'csv' : 'txt'}`);
    const csv = paths.filter((path) => path.endsWith('.csv'));
    expect(await taken('*.csv', [], paths)).toEqual(csv);
  });

  it('are given up when a name takes too long, and the process does other work meanwhile', async () => {
    const slow = createFilter({ pattern: `${'*a'.repeat(30)}b`, exclude: [] });
    let worked = false;
    setImmediate(() => {
      worked = true;
    });
    await expect(slow(['a'.repeat(200)])).rejects.toThrow(GlobTooSlow);
    expect(worked).toBe(true);
  });

  it.each([['/\\\\\\\\', []] as const, ['*', ['[\\\\\\\\']] as const])(
    'are given up when picomatch does not end: %s without %j',
    async (pattern, exclude) => {
      const endless = createFilter({ pattern, exclude: [...exclude] });
      await expect(endless(['a'])).rejects.toThrow(GlobTooSlow);
    },
  );
});
