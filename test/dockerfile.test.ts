import { execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const NPM_CI = 'npm ci --omit=dev';

interface Instruction {
  name: string;
  value: string;
}

/** Returns the instructions of the stage that builds. */
function instructions(): Instruction[] {
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, stage = ''] = text.split(/^FROM .*$/m);
  return [...stage.matchAll(/^([A-Z]+) (.*)$/gm)].map(([, name = '', value = '']) => ({
    name,
    value,
  }));
}

function copy(files: string[], root: string, to: string): void {
  for (const file of files)
    cpSync(join(ROOT, file), join(root, to, to === './' ? file : ''), { recursive: true });
}

/** Links the installed packages. What the set-up notes in their folder stays in this one. */
function linkPackages(root: string): void {
  mkdirSync(join(root, 'node_modules'));
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (name !== '.waybill-set-up' && name !== '.cache')
      symlinkSync(join(ROOT, 'node_modules', name), join(root, 'node_modules', name));
}

test('the image has a console, which no command builds again', async () => {
  const root = mkdtempSync(join(tmpdir(), 'waybill-image-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const page = join(root, 'dist/console/index.html');
  let installed = false;
  for (const { name, value } of instructions()) {
    const words = value.split(' ');
    if (name === 'COPY') copy(words.slice(0, -1), root, words.at(-1) as string);
    if (name !== 'RUN') continue;
    if (value === NPM_CI) linkPackages(root);
    if (installed) execFileSync('sh', ['-euc', value], { cwd: root });
    installed ||= value === NPM_CI;
  }
  const built = statSync(page).mtimeMs;

  const run = () => execFileSync(join(root, 'bin/waybill'), ['--version'], { encoding: 'utf8' });
  run();
  expect(statSync(page).mtimeMs).toBe(built);

  const now = Date.now() / 1000 + 1;
  utimesSync(join(root, 'src/domain/attention.ts'), now, now);
  run();
  expect(statSync(page).mtimeMs).toBeGreaterThan(built);
});
