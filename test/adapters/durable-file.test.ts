import { execFile } from 'node:child_process';
import {
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createFolderSink } from '../../src/adapters/checkpoint-sinks/folder.ts';
import { checkpointFile } from '../../src/adapters/checkpoint-sinks/port.ts';
import {
  createForOwner,
  replaceFile,
  writeNewFile,
  writeOutput,
} from '../../src/adapters/durable-file.ts';
import { tryFileLock } from '../../src/adapters/file-lock.ts';
import { makeFolder } from '../../src/adapters/make-folder.ts';
import { loadMasterKeys } from '../../src/adapters/master-key.ts';
import { canHaveMountNamespace } from '../support/programs/mount-namespace.ts';

/** Runs in the folder, whose disk has no room for the second text. */
const WRITE_TOO_MUCH = `
  import { readdirSync, readFileSync } from 'node:fs';
  import { writeOutput } from ${JSON.stringify(resolve('src/adapters/durable-file.ts'))};
  await writeOutput('known', 'one');
  const { code, path } = await writeOutput('known', 'x'.repeat(1 << 20)).catch((error) => error);
  const left = readdirSync('.').map((name) => [name, readFileSync(name, 'utf8')]);
  console.log(JSON.stringify({ code, path, left }));
`;

test('a new file that cannot be written leaves nothing behind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-files-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  async function* pieces(end: Error | null) {
    yield 'one';
    if (end) throw end;
  }
  const broken = new Error('broken');
  await expect(writeNewFile(join(folder, 'a'), pieces(broken))).rejects.toBe(broken);
  expect(await readdir(folder)).toEqual([]);
  await writeNewFile(join(folder, 'a'), pieces(null));
  await expect(writeNewFile(join(folder, 'a'), pieces(null))).rejects.toThrow('EEXIST');
  expect(await readdir(folder)).toEqual(['a']);
  expect(await readFile(join(folder, 'a'), 'utf8')).toBe('one');
});

test('a file that cannot be replaced leaves nothing behind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-files-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, 'a'));
  await expect(replaceFile(join(folder, 'a'), 'one')).rejects.toThrow('EISDIR');
  expect(await readdir(folder)).toEqual(['a']);
});

test('a file that several writers replace at once is whole at any moment', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-files-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'a');
  const texts = ['1', '2', '3', '4'].map((digit) => digit.repeat(1 << 20));
  await replaceFile(file, texts[0] as string);
  const found = new Set<string>();
  const writers = texts.map(async (text) => {
    for (let i = 0; i < 10; i++) {
      await replaceFile(file, text);
      found.add(await readFile(file, 'utf8'));
    }
  });
  await Promise.all(writers);
  expect(texts).toEqual(expect.arrayContaining([...found]));
  expect(await readdir(folder)).toEqual(['a']);
});

test('what a killed writer left goes later, but not what another is writing', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-files-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const leftOf = async (name: string, ageMs: number) => {
    const left = `${name}.${crypto.randomUUID()}.new`;
    await writeFile(join(folder, left), '');
    const then = new Date(Date.now() - ageMs);
    await utimes(join(folder, left), then, then);
    return left;
  };
  const hours = 3_600_000;
  const [old, otherFile, written] = [
    await leftOf('a', 2 * hours),
    await leftOf('a.b', 2 * hours),
    await leftOf('a', 0),
  ];
  await replaceFile(join(folder, 'a'), 'one');
  const kept = await readdir(folder);
  expect(kept).not.toContain(old);
  expect(kept.sort()).toEqual(['a', otherFile, written].sort());

  const sink = createFolderSink(folder);
  const checkpoint = await leftOf(checkpointFile(4), 2 * hours);
  await sink.newest();
  const key = await leftOf('master.key', 2 * hours);
  await loadMasterKeys({ setting: null, dataDir: folder, hasHadOne: async () => false });
  const left = await readdir(folder);
  expect(left).toContain(otherFile);
  expect(left).not.toContain(checkpoint);
  expect(left).not.toContain(key);
});

describe.skipIf(process.geteuid?.() !== 0)('a file that root writes (needs root)', () => {
  const [SERVICE, OTHER] = [65_534, 65_533];
  async function folderOfService(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'waybill-files-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    await chown(folder, SERVICE, SERVICE);
    return folder;
  }
  const ownerOf = async (file: string) => {
    const { uid, gid, mode } = await stat(file);
    return [uid, gid, mode & 0o777];
  };

  test('belongs to the owner of the file that it replaces, else of the folder', async () => {
    const file = join(await folderOfService(), 'a');
    await replaceFile(file, 'one');
    expect(await ownerOf(file)).toEqual([SERVICE, SERVICE, 0o600]);
    await chown(file, OTHER, OTHER);
    await replaceFile(file, 'two');
    expect(await ownerOf(file)).toEqual([OTHER, OTHER, 0o600]);
    expect(await readFile(file, 'utf8')).toBe('two');
  });

  test('is never another file that a link names', async () => {
    const folder = await folderOfService();
    const [other, elsewhere] = [join(folder, 'other'), await mkdtemp(join(tmpdir(), 'waybill-'))];
    onTestFinished(() => rm(elsewhere, { recursive: true }));
    const secret = join(elsewhere, 'secret');
    await replaceFile(secret, 'secret');
    await symlink(secret, other);
    await replaceFile(other, 'one');
    await symlink(secret, join(folder, 'log'));
    createForOwner(join(folder, 'log'), 0o600);
    expect(await ownerOf(secret)).toEqual([0, 0, 0o600]);
    expect(await readFile(secret, 'utf8')).toBe('secret');
  });

  test('may be a master key that rotates, and a lock', async () => {
    const dataDir = await folderOfService();
    const load = { setting: null, dataDir, hasHadOne: async () => false };
    await (await loadMasterKeys(load)).rotate(async () => undefined);
    tryFileLock(join(dataDir, 'users.lock'), 'shared')?.release();
    for (const name of await readdir(dataDir))
      expect((await ownerOf(join(dataDir, name))).slice(0, 2), name).toEqual([SERVICE, SERVICE]);
    expect(await readdir(dataDir)).toEqual(['master.key', 'master.key.lock', 'users.lock']);
  });

  test('may be a new one, as an export', async () => {
    const file = join(await folderOfService(), 'a');
    async function* pieces() {
      yield 'one';
    }
    await writeNewFile(file, pieces());
    expect(await ownerOf(file)).toEqual([SERVICE, SERVICE, 0o600]);
  });

  test('has its folders from the owner of the parent, but none that existed', async () => {
    const parent = await folderOfService();
    await makeFolder(join(parent, 'a', 'b'));
    for (const folder of ['a', 'a/b'])
      expect(await ownerOf(join(parent, folder))).toEqual([SERVICE, SERVICE, 0o700]);
    await chown(join(parent, 'a', 'b'), OTHER, OTHER);
    await makeFolder(join(parent, 'a', 'b'));
    expect(await ownerOf(join(parent, 'a', 'b'))).toEqual([OTHER, OTHER, 0o700]);
  });
});

test.skipIf(!canHaveMountNamespace())(
  'an output that cannot be written to its end leaves the file as it was (needs namespaces)',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waybill-files-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const { stdout } = await promisify(execFile)('unshare', [
      '--mount',
      ...['sh', '-c', 'mount -t tmpfs -o size=16k tmpfs "$1"; cd "$1"; exec "$2" -e "$3"', 'sh'],
      ...[folder, process.execPath, WRITE_TOO_MUCH],
    ]);
    expect(JSON.parse(stdout)).toEqual({ code: 'ENOSPC', path: 'known', left: [['known', 'one']] });
  },
);

test('an output goes into a device, and through a link into its file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-files-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [file, link] = [join(folder, 'file'), join(folder, 'link')];
  await writeOutput(file, 'one');
  await symlink(file, link);
  await writeOutput(link, 'two');
  expect(await readFile(file, 'utf8')).toBe('two');
  expect(await readdir(folder)).toEqual(['file', 'link']);
  await writeOutput('/dev/null', 'three');
  expect((await stat('/dev/null')).isCharacterDevice()).toBe(true);
});
