import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { replaceFile, writeNewFile } from '../../src/adapters/durable-file.ts';

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
