import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { serializers } from '../../../src/cli/program/stdout-log.ts';

vi.setConfig({ testTimeout: 60_000 });

const LINES = 60_000;
const LOG = fileURLToPath(new URL('../../../src/cli/program/stdout-log.ts', import.meta.url));
// Logs 500 bytes a line, reports over IPC, answers questions, and ends as the service does.
const WRITER = `
  import { stdoutLog } from ${JSON.stringify(LOG)};
  const { logger, flushed } = stdoutLog('info');
  process.on('message', () => process.send({ rss: process.memoryUsage().rss }));
  process.on('SIGTERM', async () => { await flushed(); process.exit(); });
  for (let n = 0; n < Number(process.env.LINES); n++) {
    logger.info({ n }, 'x'.repeat(500));
    if (n % 1_000 === 0) await new Promise(setImmediate);
  }
  await new Promise(setImmediate);
  process.send({ waiting: process.stdout.writableLength });
`;

let writer: ChildProcess;
afterEach(() => writer?.kill('SIGKILL'));

function startWriter(lines = LINES): void {
  writer = spawn(process.execPath, ['--input-type=module', '-e', WRITER], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, LINES: String(lines) },
  });
}

test('a log limits the lines that wait for stdout, and counts dropped ones', async () => {
  startWriter();
  await once(writer, 'message');
  writer.send('memory');
  const [{ rss }] = (await once(writer, 'message')) as [{ rss: number }];
  expect(rss).toBeLessThan(200e6);

  const written: unknown[] = [];
  let dropped = 0;
  for await (const line of createInterface({ input: writer.stdout as Readable })) {
    const { n, dropped_lines } = JSON.parse(line) as { n?: number; dropped_lines?: number };
    if (n !== undefined) written.push(n);
    dropped = dropped_lines ?? 0;
    if (dropped > 0) break;
  }
  expect(written.length + dropped).toBe(LINES);
  expect(written).toEqual(written.map((_, index) => index));
});

test('a process ends although nothing reads its stdout', async () => {
  startWriter();
  await once(writer, 'message');
  writer.kill('SIGTERM');
  expect(await once(writer, 'exit')).toEqual([0, null]);
});

test('a process waits at its end until stdout has taken the last line', async () => {
  // More than a pipe takes, and little enough to be read within two seconds on a busy machine.
  const lines = 1_000;
  startWriter(lines);
  const [{ waiting }] = await once(writer, 'message');
  expect(waiting).toBeGreaterThan(0);
  writer.kill('SIGTERM');
  let output = '';
  writer.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await once(writer, 'close');
  expect(output.trim().split('\n')).toHaveLength(lines);
});

test('a line after a pause and a warning are written at once, other lines together', async () => {
  const program = `
    import { stdoutLog } from ${JSON.stringify(LOG)};
    const { logger } = stdoutLog('info');
    const turn = () => new Promise(setImmediate);
    const written = [];
    const line = async (level, name) => {
      logger[level](name);
      await turn();
      await turn();
      if (process.stdout.writableLength === 0) written.push(name);
    };
    let ms = 0;
    performance.now = () => ms;
    const waiting = [];
    globalThis.setTimeout = (callback) => void waiting.push(callback);
    await line('info', 'first');
    await line('info', 'second');
    await line('warn', 'warning');
    await line('info', 'third');
    ms = 60;
    await line('info', 'after a pause');
    await line('info', 'last');
    for (const callback of waiting) callback();
    process.stderr.write(JSON.stringify(written));
  `;
  writer = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [output, written] = await Promise.all(
    [writer.stdout, writer.stderr].map((stream) => text(stream as Readable)),
  );
  expect(JSON.parse(written as string)).toEqual(['first', 'warning', 'after a pause']);
  const lines = (output as string).trim().split('\n');
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual([
    'first',
    'second',
    'warning',
    'third',
    'after a pause',
    'last',
  ]);
});

test.each([
  ['exits', 'process.exit(1)'],
  ['throws', 'throw new Error("the end of the test")'],
])('a process that %s writes its last lines before', async (_how, end) => {
  const program = `
    import { stdoutLog } from ${JSON.stringify(LOG)};
    const { logger } = stdoutLog('info');
    for (let n = 0; n < 100; n++) logger.info({ n }, 'line');
    ${end};
  `;
  writer = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let output = '';
  writer.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  expect(await once(writer, 'close')).toEqual([1, null]);
  expect(output.trim().split('\n')).toHaveLength(100);
});

test('a line has the stack of an unexpected error, and the reason of an unavailable store', () => {
  const outage = serializers.err(new EventStoreUnavailable('no leader'));
  expect(outage).toEqual({ type: 'EventStoreUnavailable', message: 'no leader' });
  expect(serializers.err(new Error('a fault'))).toHaveProperty('stack');
});
