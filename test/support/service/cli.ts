import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runCommand } from '../../../src/cli/run-command.ts';

/** For a test that runs several commands, while the machine may be busy. */
export const CLI_TIMEOUT_MS = 120_000;

const PROGRAM = join(import.meta.dirname, '..', '..', '..', 'bin', 'waybill');

export interface CliResult {
  code: number | null;
  stdout: string;
  stderr: string;
  /** stdout as JSON lines. */
  json<T = Record<string, unknown>>(): T[];
}

export interface Cli {
  /** Runs one command to its end. */
  run(args: string[], input?: string): Promise<CliResult>;
  /** Starts a command that keeps running, as a process; stdout and stderr are piped. */
  start(args: string[]): ChildProcess;
}

/**
 * The `waybill` command with these settings, and none from the environment of the test run. Its
 * commands run in this process: the start of a process costs half a second of CPU time.
 */
export function createCli(settings: Record<string, string>): Cli {
  const env = environmentOf(settings);
  return {
    start: createSpawnedCli(settings).start,
    async run(args, input = '') {
      const stdout = collector();
      const stderr = collector();
      const code = await runCommand(args, {
        env,
        stdin: () => Readable.from([Buffer.from(input)]),
        stdout,
        stderr,
        stopSignal: neverStopped,
      });
      return toResult(code, stdout.text(), stderr.text());
    },
  };
}

/** Runs a command whose reader has closed stdout, as `head` does. Returns the exit code. */
export function runClosed(settings: Record<string, string>, args: string[]): Promise<number> {
  const stdout = new Writable({
    write(_chunk, _encoding, done) {
      done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    },
  });
  return runCommand(args, {
    env: environmentOf(settings),
    stdin: () => Readable.from([]),
    stdout,
    stderr: collector(),
    stopSignal: neverStopped,
  });
}

/** The same as users run it: each command is a process. `program` may be of another folder. */
export function createSpawnedCli(
  settings: Record<string, string>,
  cwd?: string,
  program = PROGRAM,
): Cli {
  const env = environmentOf(settings);
  const start = (args: string[]) => spawn(program, args, { env, cwd, stdio: 'pipe' });
  return {
    start,
    async run(args, input = '') {
      const child = start(args);
      child.stdin.end(input);
      const [stdout, stderr, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'close'),
      ]);
      return toResult(code, stdout, stderr);
    },
  };
}

/** The environment of the test run with these settings, and with no others of Waybill. */
export function environmentOf(settings: Record<string, string>): NodeJS.ProcessEnv {
  const foreign = (name: string) =>
    name.startsWith('WAYBILL_') || ['DATABASE_URL', 'EVENTSTORE_URL'].includes(name);
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign(name))),
    ...settings,
  };
}

function neverStopped() {
  return Object.assign(new AbortController().signal, { [Symbol.dispose]: () => undefined });
}

function collector(): Writable & { text(): string } {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  return Object.assign(stream, { text: () => Buffer.concat(chunks).toString() });
}

function toResult(code: number | null, stdout: string, stderr: string): CliResult {
  const json = <T>() =>
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as T);
  return { code, stdout, stderr, json };
}

/** Settings for an installation in a test database. */
export function settingsFor(databaseUrl: string): Record<string, string> {
  return {
    DATABASE_URL: databaseUrl,
    WAYBILL_MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
    WAYBILL_PORT: '0',
  };
}

/** Waits until the output of a process matches. Throws all of it if the process ends before. */
export function written(stream: NodeJS.ReadableStream, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let all = '';
    const end = () => reject(new Error(`It ended without writing ${pattern}:\n${all}`));
    stream.once('end', end).on('data', (chunk) => {
      all += chunk;
      const match = pattern.exec(all);
      if (match) resolve(match);
    });
  });
}
