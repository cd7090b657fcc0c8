import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { createThread } from '../../src/concurrency/thread.ts';
import type { TestFunctions } from './thread-functions.ts';

const thread = createThread<TestFunctions>(new URL('./thread-functions.ts', import.meta.url), {
  gather: true,
  lost: (cause) => new Error(`lost: ${cause.message}`),
  revive: (error) => error as Error,
});
afterAll(() => thread.close());

test('returns results and errors of the thread', async () => {
  const run = thread.run();
  expect(await Promise.all([run.call('double', [2]), run.call('double', [3])])).toEqual([4, 6]);
  await expect(run.call('fail', ['no'])).rejects.toMatchObject({ name: 'TypeError' });
});

test('shares the memory of bytes, also for a call without an answer', async () => {
  const run = thread.run();
  const bytes = new Uint8Array(new SharedArrayBuffer(4));
  run.notify('fill', [bytes, 7]);
  await run.call('double', [1]);
  expect([...bytes]).toEqual([7, 7, 7, 7]);
});

test('passes an abort on, also before the call and after its answer if it keeps its signal', async () => {
  const run = thread.run();
  const during = new AbortController();
  const waiting = run.call('untilAborted', [], during.signal);
  during.abort();
  expect(await waiting).toBe('aborted');
  expect(await run.call('untilAborted', [], AbortSignal.abort())).toBe('aborted');

  const after = new AbortController();
  const opened = await run.call('open', [], after.signal);
  expect(await run.call('isEnded', [opened])).toBe(false);
  after.abort();
  expect(await run.call('isEnded', [opened])).toBe(true);
});

test('an uncaught error fails the calls under way, and the next run starts again', async () => {
  const run = thread.run();
  const waiting = run.call('untilAborted', []);
  run.notify('crash', []);
  await expect(waiting).rejects.toThrow('lost: crashed');
  await expect(run.call('double', [1])).rejects.toThrow('lost: crashed');
  expect(await thread.run().call('double', [4])).toBe(8);
});

test('a thread in the background answers, and lets the process end', async () => {
  const program = fileURLToPath(new URL('./background-thread.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program]);
  expect(stdout).toBe('[ true, false ]\n');
});
