import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { copyService, OPEN } from './copy.ts';

const ROOT = join(import.meta.dirname, '..', '..');

test('the entry of a fifth protocol makes the compiler require only its adapter', async () => {
  const copy = await copyService();
  try {
    await copy.addFacts();
    expect(await filesWithErrors(copy.folder)).toEqual([OPEN]);
    await copy.addAdapter();
    expect(await filesWithErrors(copy.folder)).toEqual([]);
  } finally {
    await copy.remove();
  }
});

/** Returns the service's files in a folder that do not compile. */
async function filesWithErrors(folder: string): Promise<string[]> {
  const { compilerOptions } = JSON.parse(await readFile(join(ROOT, 'tsconfig.json'), 'utf8'));
  const config = { compilerOptions, include: ['src'], exclude: ['src/console'] };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const { stdout } = await promisify(execFile)(process.execPath, [tsc], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  return [...new Set(stdout.match(/^\S+?(?=\(\d+,\d+\): error)/gm))];
}
