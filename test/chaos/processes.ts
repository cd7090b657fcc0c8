import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type ServerProcess, startProcess } from '../support/programs/server-process.ts';
import { PROCESS_NAMES, PROCESSES, type ProcessName } from './plan.ts';
import type { EvidenceWriter } from './writer.ts';

const WAYBILL = fileURLToPath(new URL('../../bin/waybill', import.meta.url));
/** How long a supervisor waits before it restarts a process that ended by itself. */
const RESTART_DELAY_MS = 2_000;
/** How long a supervisor waits after SIGTERM before it sends SIGKILL. */
const STOP_PATIENCE_MS = 60_000;
const LAST_LINES = 40;
// Below the ports that systems assign automatically.
const [FIRST_PORT, LAST_PORT] = [10_000, 32_000];

export interface Supervised {
  name: ProcessName;
  /** Base URL if it has the role `api`, else null. */
  url: string | null;
  /** Its roles run, and it is not frozen. */
  readonly ready: boolean;
  start(): void;
  /** Sends SIGKILL; returns when the process has ended. It stays down until `start`. */
  kill(): Promise<void>;
  /** Sends SIGTERM; returns when the process has ended. It stays down until `start`. */
  stop(): Promise<void>;
  freeze(): void;
  thaw(): void;
}

export interface Supervisor {
  processes: Supervised[];
  find(name: string): Supervised;
  /** Returns when all are ready; throws if one is not ready after `ms`. */
  untilReady(ms: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts every process of the installation. Restarts those that end by themselves, as a supervisor
 * does.
 */
export function startSupervisor(
  settingsOf: (name: ProcessName) => Record<string, string>,
  evidence: EvidenceWriter,
): Supervisor {
  const logs = join(evidence.folder, 'logs');
  mkdirSync(logs, { recursive: true });
  const processes = PROCESS_NAMES.map((name) =>
    supervise(name, settingsOf(name), join(logs, `${name}.log`), evidence),
  );
  for (const each of processes) each.start();

  return {
    processes,
    find(name) {
      const found = processes.find((each) => each.name === name);
      if (!found) throw new Error(`there is no process ${name}`);
      return found;
    },
    async untilReady(ms) {
      for (
        const deadline = Date.now() + ms;
        processes.some((each) => !each.ready);
        await sleep(50)
      ) {
        if (Date.now() < deadline) continue;
        const missing = processes.filter((each) => !each.ready).map((each) => each.name);
        throw new Error(`not ready after ${ms / 1_000} s: ${missing.join(', ')}; see ${logs}`);
      }
    },
    close: async () => void (await Promise.all(processes.map((each) => each.kill()))),
  };
}

function supervise(
  name: ProcessName,
  settings: Record<string, string>,
  logFile: string,
  evidence: EvidenceWriter,
): Supervised {
  const roles: readonly string[] = PROCESSES[name];
  const port = roles.includes('api') ? randomInt(FIRST_PORT, LAST_PORT) : 0;
  const log = createWriteStream(logFile);
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, ...settings, WAYBILL_PORT: String(port) };
  let server: ServerProcess | null = null;
  let closed: Promise<unknown> = Promise.resolve();
  let wanted = false;
  let ready = false;
  let frozen = false;
  /** Why it is about to end, if the runner ends it. */
  let ending: 'kill' | 'stop' | null = null;

  function start(): void {
    wanted = true;
    ending = null;
    let output = '';
    const started = startProcess([WAYBILL, 'serve', '--roles', roles.join(',')], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    server = started;
    const { child } = started;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        log.write(text);
        output = (output + text).slice(-100_000);
        if (output.includes('"msg":"waybill runs"')) ready = true;
      });
    }
    closed = once(child, 'close').then(([code, signal]) => ended(code, signal, output));
  }

  function ended(code: number | null, signal: string | null, output: string): void {
    const wasReady = ready;
    ready = false;
    server = null;
    const expected =
      (ending === 'kill' && signal === 'SIGKILL') || (ending === 'stop' && code === 0);
    const lines = output.trimEnd().split('\n').slice(-LAST_LINES).join('\n');
    const at = new Date().toISOString();
    evidence.exit({ at, process: name, code, signal, expected, ready: wasReady, output: lines });
    const chaos = `ended with ${code ?? signal}${expected ? '' : ', UNEXPECTED'}`;
    log.write(`${JSON.stringify({ at, chaos })}\n`);
    if (wanted) setTimeout(() => wanted && !server && start(), RESTART_DELAY_MS);
  }

  async function kill(): Promise<void> {
    wanted = false;
    ending = 'kill';
    server?.child.kill('SIGKILL');
    frozen = false;
    await closed;
  }

  async function stop(): Promise<void> {
    wanted = false;
    ending = 'stop';
    thaw();
    server?.child.kill('SIGTERM');
    const patience = setTimeout(() => server?.child.kill('SIGKILL'), STOP_PATIENCE_MS);
    await closed;
    clearTimeout(patience);
  }

  function thaw(): void {
    if (frozen) server?.child.kill('SIGCONT');
    frozen = false;
  }

  return {
    name,
    url: port === 0 ? null : `http://127.0.0.1:${port}`,
    get ready() {
      return ready && !frozen;
    },
    start,
    kill,
    stop,
    freeze() {
      frozen = server?.child.kill('SIGSTOP') ?? false;
    },
    thaw,
  };
}

/** Runs one `waybill` command and returns its stdout. Throws its output if it fails. */
export async function runWaybill(
  args: string[],
  settings: Record<string, string>,
): Promise<string> {
  const { PATH = '', HOME = '' } = process.env;
  return (await promisify(execFile)(WAYBILL, args, { env: { PATH, HOME, ...settings } })).stdout;
}
