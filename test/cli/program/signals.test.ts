import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { EXIT } from '../../../src/cli/program/exit-codes.ts';
import { PROCESS } from '../../../src/cli/program/terminal.ts';
import { descendants, killAll } from '../../support/programs/process-tree.ts';
import { CLI_TIMEOUT_MS, environmentOf, written } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

const PROGRAM = join(import.meta.dirname, '..', '..', '..', 'bin', 'waybill');
const CONTAINER = ['-p', '-f', '--mount-proc', '--'];

/** Null if a process can be the first one of a container here, else why not. */
const whyNot = (() => {
  try {
    execFileSync('unshare', [...CONTAINER, 'true'], { stdio: 'pipe' });
    return null;
  } catch {
    return 'unshare -p fails here';
  }
})();

test('a signal that no command waits for ends the process as ever', () => {
  const handlers = () => ['SIGINT', 'SIGTERM'].map((name) => process.listenerCount(name));
  const before = handlers();
  {
    using stop = PROCESS.stopSignal();
    expect(stop.aborted).toBe(false);
    expect(handlers()).toEqual(before.map((count) => count + 1));
  }
  expect(handlers()).toEqual(before);
});

let started: number[] = [];
afterEach(() => killAll(started));

test('SIGINT itself ends a command, so that Ctrl-C ends the loop of a shell, too', async () => {
  const command = ['webhooks', 'verify', '--secret', 'x', '--body-file', '-'];
  const child = spawn(PROGRAM, [...command, '--signature', 'ab'.repeat(32)], {
    env: environmentOf({}),
    stdio: 'pipe',
  });
  started = [child.pid as number];
  const ended = once(child, 'close');
  await written(child.stderr, /--secret is visible/);
  child.kill('SIGINT');
  expect(await ended).toEqual([null, 'SIGINT']);
});

test.skipIf(whyNot !== null).each([
  ['SIGINT', EXIT.interrupted],
  ['SIGTERM', EXIT.terminated],
] as const)(
  `%s ends a command that is the first process of a container${whyNot ? ` (${whyNot})` : ''}`,
  async (name, code) => {
    // It waits for stdin for ever.
    const command = ['webhooks', 'verify', '--secret', 'x', '--body-file', '-'];
    const child = spawn(
      'unshare',
      [...CONTAINER, PROGRAM, ...command, '--signature', 'ab'.repeat(32)],
      { env: environmentOf({}), stdio: 'pipe' },
    );
    const ended = once(child, 'close');
    await written(child.stderr, /--secret is visible/);
    const below = descendants(child.pid as number);
    started = [child.pid as number, ...below];
    process.kill(below[0] as number, name);
    expect(await ended).toEqual([code, null]);
  },
);
