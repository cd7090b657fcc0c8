import { AsyncLocalStorage } from 'node:async_hooks';
import type { Readable, Writable } from 'node:stream';
import { EXIT, type ExitCode } from './exit-codes.ts';

/** The exit codes that a shell shows for these signals. */
const EXIT_OF = { SIGINT: EXIT.interrupted, SIGTERM: EXIT.terminated };
type StoppingSignal = keyof typeof EXIT_OF;
const SIGNALS = Object.keys(EXIT_OF) as StoppingSignal[];

/** Where a command reads and writes. Any number of commands may run in a process at a time. */
export interface Terminal {
  env: NodeJS.ProcessEnv;
  stdin(): Readable;
  stdout: Writable;
  stderr: Screen;
  /**
   * Returns a signal that aborts with `Stopped` when the user, or a supervisor, stops the command.
   * The caller must stop then: until it disposes of the signal, nothing else ends the command.
   */
  stopSignal(): StopSignal;
}

export type StopSignal = AbortSignal & Disposable;

/** The user, or a supervisor, has stopped the command. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
  readonly exitCode: ExitCode;
  constructor(signal: StoppingSignal) {
    super(`Stopped by ${signal}`);
    this.exitCode = EXIT_OF[signal];
  }
}

/** A stream that may be a terminal with a cursor, as `process.stderr` may be. */
export type Screen = Writable & { isTTY?: boolean; columns?: number };

interface Running extends Terminal {
  exitCode: ExitCode;
  /** The first error of stdout: its reader has closed it, or a disk is full. */
  outputError: NodeJS.ErrnoException | null;
}

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
    const { signal } = controller;
    const stop = (name: StoppingSignal) => {
      // A second signal ends the process at once.
      if (signal.aborted) exitWith(EXIT_OF[name]);
      controller.abort(new Stopped(name));
    };
    for (const name of SIGNALS) process.on(name, stop);
    return Object.assign(signal, {
      [Symbol.dispose]() {
        for (const name of SIGNALS) process.off(name, stop);
      },
    });
  },
};

/**
 * Ends this process at a signal, and the embedded Postgres with it if no other process uses that. A
 * command that stops by itself takes the signal instead.
 */
export function endAtSignals(): void {
  for (const name of SIGNALS)
    process.on(name, () => {
      if (process.listenerCount(name) === 1) exitWith(EXIT_OF[name]);
    });
}

/** Ends this process with the exit code of a command, also if handles are still open. */
export function exitWith(code: ExitCode): never {
  const stoppedBy = SIGNALS.find((name) => EXIT_OF[name] === code);
  if (stoppedBy !== undefined) {
    process.removeAllListeners(stoppedBy);
    // Ctrl-C ends a loop of a shell only if the signal itself ends the process. The system ignores
    // it for the first process of a container, which exits.
    process.once('exit', () => process.kill(process.pid, stoppedBy));
  }
  process.exit(code);
}
