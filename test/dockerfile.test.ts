import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');

/** Returns the commands of the first stage that run after its last file was copied. */
function lastCommands(): string[] {
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, stage = ''] = text.split(/^FROM .*$/m);
  const [, after = ''] = stage.split(/^COPY (?![\s\S]*^COPY ).*$/m);
  return [...after.matchAll(/^RUN (.*)$/gm)].map(([, command]) => command as string);
}

/** Sets the time at which a file was changed, in seconds of the year 1970. */
function write(file: string, seconds: number, text = '', mode = 0o644): void {
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, text, { mode });
  utimesSync(file, seconds, seconds);
}

test('the image does not build the console again at each command', async () => {
  const root = mkdtempSync(join(tmpdir(), 'waybill-image-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  mkdirSync(join(root, 'bin'));
  cpSync(join(ROOT, 'bin/waybill'), join(root, 'bin/waybill'));
  write(join(root, 'bin/node'), 1, '#!/bin/sh\necho "$@"\n', 0o755);
  const run = () => execFileSync(join(root, 'bin/waybill'), ['serve'], { encoding: 'utf8' });

  // The layer of `npm ci` comes from the cache. The files of the same text come from a new clone.
  write(join(root, 'scripts/patch-postgres.ts'), 1);
  write(join(root, 'node_modules/.package-lock.json'), 2);
  write(join(root, 'node_modules/.waybill-set-up'), 3);
  write(join(root, 'dist/console/index.html'), 4);
  write(join(root, 'src/console/app.tsx'), 5);
  expect(run()).toContain('scripts/set-up.ts');

  for (const command of lastCommands()) execFileSync('sh', ['-euc', command], { cwd: root });
  expect(run()).toMatch(/^(?:--\S+ )+\S+\/src\/cli\.ts serve\n$/);
});
