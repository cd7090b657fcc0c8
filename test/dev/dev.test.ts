import { type ChildProcess, execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { LONG } from '../support/run/long.ts';
import {
  CLI_TIMEOUT_MS,
  type Cli,
  createSpawnedCli,
  environmentOf,
  written,
} from '../support/service/cli.ts';

interface Demo {
  process: ChildProcess;
  text: string;
  baseUrl: string;
  console: string;
  apiKey: string;
  consoleKey: string;
}

describeWithPostgres('waybill dev', () => {
  let dataDir: string;
  let cli: Cli;
  let running: ChildProcess | null = null;

  beforeAll(async () => {
    // The name needs quotes in a shell.
    dataDir = await mkdtemp(join(tmpdir(), "waybill dev'"));
    await chmod(dataDir, 0o711);
    cli = createSpawnedCli({ WAYBILL_DATA_DIR: dataDir, WAYBILL_PORT: '0' });
  });
  afterEach(() => end('SIGKILL'));
  afterAll(async () => {
    // The last user of the embedded Postgres stops it, even one left by a killed process.
    await cli.run(['migrate']);
    await rm(dataDir, { recursive: true });
  });

  async function start(): Promise<Demo> {
    const process = cli.start(['dev']);
    running = process;
    process.stderr?.resume();
    const { input: text } = await written(process.stdout!, /Ctrl-C stops everything/);
    const fact = (name: string) => new RegExp(`^${name} +(\\S+)$`, 'm').exec(text)?.[1] ?? '';
    return {
      process,
      text,
      baseUrl: fact('Base URL'),
      console: fact('Console'),
      apiKey: fact('API key'),
      consoleKey: fact('Console key'),
    };
  }

  async function end(signal: NodeJS.Signals): Promise<[number | null, string | null]> {
    const process = running;
    running = null;
    if (!process) return [null, null];
    const ended = once(process, 'exit') as Promise<[number | null, string | null]>;
    process.kill(signal);
    return ended;
  }

  it('shows the service at work, and continues after kill -9 with the same keys', {
    // It starts the demo three times; one start is refused.
    timeout: 3 * CLI_TIMEOUT_MS,
  }, async (context) => {
    try {
      execFileSync('curl', ['--version'], { stdio: 'ignore' });
    } catch {
      context.skip('curl is missing');
    }
    const first = await start();
    expect(first.text).toMatch(/SSH crypto: /);
    expect(first.text).toMatch(/txr_\w+ completed: 128\.0 MiB/);
    expect(first.baseUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    expect(first.console).toBe(first.baseUrl.replace('/v1', '/console'));

    // A small file from here on: the demo's servers take seconds of CPU time for its own.
    const invoices = join(dataDir, 'demo', 'hospital', 'outbox', 'invoices.zip');
    await writeFile(invoices, randomBytes(1 << 20));
    const curl = /^ {2}curl [\s\S]*?invoices-2\.zip.*$/m.exec(first.text)![0];
    const { stdout } = await promisify(execFile)('sh', ['-c', curl]);
    const { id } = JSON.parse(stdout);
    const watchCommand = /^ {2}(.*) txr_\.\.\.$/m.exec(first.text)![1];
    const watched = await promisify(execFile)('sh', ['-c', `${watchCommand} ${id}`], {
      env: environmentOf({}),
    });
    expect(watched.stdout).toMatch(/completed: 1\.0 MiB/);
    const arrived = await readFile(join(dataDir, 'demo', 'bank', 'inbox', 'invoices-2.zip'));
    expect(arrived.equals(await readFile(invoices))).toBe(true);
    expect((await stat(join(dataDir, 'demo', 'demo.json'))).mode & 0o777).toBe(0o600);

    expect(await cli.run(['dev'])).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/runs in .* already/),
    });

    expect(await end('SIGKILL')).toEqual([null, 'SIGKILL']);
    const second = await start();
    expect([second.apiKey, second.consoleKey]).toEqual([first.apiKey, first.consoleKey]);
    const headers = { authorization: `Bearer ${second.apiKey}` };
    const answer = await fetch(`${second.baseUrl}/transfers`, { headers });
    expect(await answer.json()).toMatchObject({
      data: [{ id, status: 'completed' }, { status: 'completed' }],
      pagination: { total: 2 },
    });
    expect(await end('SIGTERM')).toEqual([0, null]);
  });

  it('replaces a key that was revoked', { ...LONG, timeout: 3 * CLI_TIMEOUT_MS }, async () => {
    const before = await start();
    const [key] = (await cli.run(['keys', 'list', '--json']))
      .json<{ id: string; name: string }>()
      .filter(({ name }) => name === 'demo api');
    expect(await cli.run(['keys', 'revoke', key!.id])).toMatchObject({ code: 0 });
    expect(await end('SIGTERM')).toEqual([0, null]);

    const after = await start();
    expect(after.apiKey).not.toBe(before.apiKey);
    expect(after.consoleKey).toBe(before.consoleKey);
    expect(await end('SIGINT')).toEqual([0, null]);
  });

  it('names the setting when its port is taken', { timeout: CLI_TIMEOUT_MS }, async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const { code, stderr } = await createSpawnedCli({
      WAYBILL_DATA_DIR: dataDir,
      WAYBILL_PORT: String(port),
    }).run(['dev']);
    other.close();
    expect(code).toBe(1);
    expect(stderr).toBe(
      `waybill: Port ${port} of 127.0.0.1 is in use by another program. Set WAYBILL_PORT to ` +
        `another port, or to 0 for any free port.\n`,
    );
  });
});
