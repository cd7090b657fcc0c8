import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable, Writable } from 'node:stream';
import { EXIT, type ExitCode } from './exit-codes.ts';

/** Where a command reads and writes. Any number of commands may run in a process at a time. */
export interface Terminal {
  env: NodeJS.ProcessEnv;
  stdin(): Readable;
  stdout: Writable;
  stderr: Screen;
  /** Returns a signal that aborts when the user, or a supervisor, stops the command. */
  stopSignal(): AbortSignal;
}

/** A stream that may be a terminal with a cursor, as `process.stderr` may be. */
export type Screen = Writable & { isTTY?: boolean; columns?: number };

interface Running extends Terminal {
  exitCode: ExitCode;
  /** The first error of stdout: its reader has closed it, or a disk is full. */
  outputError: NodeJS.ErrnoException | null;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
const running = new AsyncLocalStorage<Running>();

/** Returns the terminal of the running command. */
export function terminal(): Running {
  const found = running.getStore();
  if (!found) throw new Error('No command runs');
  return found;
}

/**
 * Makes the running command exit with 1 unless it sets another code, for a command whose exit code
 * is its verdict. Call it before the first output, which may be closed before the verdict is known.
 */
export function failUntilVerdict(): void {
  terminal().exitCode = EXIT.failed;
}

/** Runs a command on a terminal. Returns the exit code that the command has set. */
export function runOn(on: Terminal, command: () => Promise<void>): Promise<ExitCode> {
  const state: Running = { ...on, exitCode: EXIT.done, outputError: null };
  return running.run(state, async () => {
    await command();
    return state.exitCode;
  });
}

/** The streams, the environment and the signals of this process. */
export const PROCESS: Terminal = {
  env: process.env,
  stdin: () => process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  stopSignal() {
    const controller = new AbortController();
    for (const name of SIGNALS) {
      process.on(name, () => {
        // A second signal ends the process at once.
        if (controller.signal.aborted) endBy(name);
        controller.abort();
      });
    }
    return controller.signal;
  },
};

/**
 * Ends this process at a signal, also as the first process of a container: there the system ignores
 * a signal without a handler. A command that stops by itself takes the signal instead.
 */
export function endAtSignals(): void {
  if (process.pid !== 1) return;
  for (const name of SIGNALS)
    process.on(name, () => {
      if (process.listenerCount(name) === 1) endBy(name);
    });
}

/** Ends this process with the exit code that a shell shows for the signal. */
function endBy(name: (typeof SIGNALS)[number]): never {
  process.exit(name === 'SIGINT' ? EXIT.interrupted : EXIT.terminated);
}
