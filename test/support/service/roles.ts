import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Installation } from '../../../src/installation.ts';
import type { ProcessRole } from '../../../src/process-roles.ts';
import { runAdmission } from '../../../src/processes/dispatch/admission.ts';
import { createJobRecorder, dispatchConsumer } from '../../../src/processes/dispatch/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../../../src/projections/read-models.ts';
import { runConsumer } from '../../../src/projections/run-consumer.ts';
import { startService } from '../../../src/service.ts';
import { startProcess } from '../programs/server-process.ts';

const WAYBILL = fileURLToPath(new URL('../../../bin/waybill', import.meta.url));

/** All the roles that it takes to move a file. */
export const MOVING: readonly ProcessRole[] = ['projector', 'mover'];

export interface RunningRoles {
  /** Stops them in good order. Fails if they had ended by themselves. */
  stop(): Promise<void>;
}

/** Starts roles of an installation in this process. */
export async function startRoles(
  installation: Installation,
  roles: readonly ProcessRole[] = MOVING,
): Promise<RunningRoles> {
  const service = await startService(installation, roles);
  let stopped: Promise<unknown> | null = null;
  return {
    async stop() {
      stopped ??= Promise.race([service.stop(), service.failed]);
      await stopped;
    },
  };
}

/**
 * Runs the single processes besides the movers in this process. All movers run in separate
 * processes.
 */
export function startDispatch(installation: Installation): RunningRoles {
  const stopping = new AbortController();
  const consumers = [
    ...Object.values(PROJECTIONS).map((projection) => projectionConsumer(projection)),
    dispatchConsumer,
  ];
  const running = [
    ...consumers.map((consumer) =>
      runConsumer(installation, consumer, stopping.signal, () => undefined),
    ),
    runAdmission(
      { ...installation, record: createJobRecorder(installation.sql) },
      stopping.signal,
      {
        moversReturnMs: 0,
      },
    ),
  ];
  return {
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

export interface SpawnedService {
  pid: number;
  /** Its output so far, from stdout and stderr. */
  output(): string;
  signal(name: NodeJS.Signals): void;
  /** Sends SIGTERM; returns the exit code after the end. */
  stop(): Promise<number | null>;
  /** Sends SIGKILL; returns after the end. Does nothing if the process has ended. */
  kill(): Promise<void>;
}

/** Runs only a mover as a separate process: for tests that run all else with `startDispatch`. */
export function spawnMover(
  environment: Record<string, string>,
  changes: Record<string, string> = {},
): Promise<SpawnedService> {
  return spawnService({ ...environment, ...changes }, ['mover']);
}

/**
 * Runs `waybill serve` as a separate process, with a log from `info` on. Returns when its roles run.
 * Throws the output if the process ends instead.
 */
export async function spawnService(
  environment: Record<string, string>,
  roles: readonly ProcessRole[] = MOVING,
): Promise<SpawnedService> {
  const { PATH = '', HOME = '' } = process.env;
  // Only from `info` on does the log say that the roles run.
  const isVerbose = /^(debug|trace)$/.test(environment.WAYBILL_LOG_LEVEL ?? '');
  const WAYBILL_LOG_LEVEL = isVerbose ? environment.WAYBILL_LOG_LEVEL : 'info';
  const service = startProcess([WAYBILL, 'serve', '--roles', roles.join(',')], {
    env: { PATH, HOME, ...environment, WAYBILL_LOG_LEVEL },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { child } = service;
  const closed = once(child, 'close');
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  if (!(await service.ready(async () => output.includes('"msg":"waybill runs"')))) {
    await closed;
    throw new Error(`waybill serve ended with ${child.exitCode ?? child.signalCode}:\n${output}`);
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (!service.ended) child.kill(signal);
    await closed;
  }

  return {
    pid: child.pid as number,
    output: () => output,
    signal: (name) => child.kill(name),
    async stop() {
      await end('SIGTERM');
      return child.exitCode;
    },
    kill: () => end('SIGKILL'),
  };
}
