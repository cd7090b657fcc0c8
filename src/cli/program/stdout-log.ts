import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pino, { type Logger } from 'pino';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import { reasonOf } from '../../domain/errors.ts';
import { leaveOutRepeats } from './outage-lines.ts';

/** Maximum size of the lines that wait for a blocked stdout. Further lines are dropped. */
const WAITING_BYTES = 4 << 20;
/** Lines wait this long for others after a write, unless they are warnings or many. */
const GATHER_MS = 50;
const GATHER_BYTES = 64 << 10;
/** How long the process waits for a blocked stdout before it exits. */
const FLUSH_MS = 2_000;

/** How log lines show an error: with its stack, unless a store of ours was just not available. */
export const serializers = {
  err: (error: Error) =>
    isStoreUnavailable(error)
      ? { type: error.name, message: reasonOf(error) }
      : pino.stdSerializers.err(error),
};

export interface StdoutLog {
  logger: Logger;
  /** Resolves when stdout has taken all lines, or after two seconds. */
  flushed(): Promise<void>;
}

/** pino sets `lastLevel` of a destination that has this property. */
const WITH_LEVEL = Symbol.for('pino.metadata');
const WARN = pino.levels.values.warn as number;

/**
 * Creates a logger that writes to stdout, for a supervisor to collect. A busy service writes the
 * lines of 50 ms together: a write for each line took a tenth of its CPU time. A line that follows
 * a pause does not wait, and neither does a warning or an error. While stdout is blocked, lines
 * wait in memory, up to a limit. Further lines are dropped. A warning counts them when stdout takes
 * lines again. pino's own destination is not used: it writes to the file descriptor, and a blocked
 * write would hold a thread and the exit of the process.
 */
export function stdoutLog(level: string): StdoutLog {
  const { stdout } = process;
  let dropped = 0;
  let corked = false;
  let ending = false;
  let writtenAt = Number.NEGATIVE_INFINITY;
  function uncork(): void {
    if (!corked) return;
    corked = false;
    ending = false;
    writtenAt = performance.now();
    stdout.uncork();
  }
  const destination = {
    [WITH_LEVEL]: true,
    lastLevel: 0,
    write(line: string) {
      if (stdout.writableLength > WAITING_BYTES) {
        dropped++;
        return;
      }
      const isDue =
        performance.now() > writtenAt + GATHER_MS ||
        destination.lastLevel >= WARN ||
        stdout.writableLength > GATHER_BYTES;
      if (!corked) {
        corked = true;
        stdout.cork();
        if (!isDue) setTimeout(uncork, GATHER_MS);
      }
      // The lines of a turn of the event loop share a write.
      if (isDue && !ending) {
        ending = true;
        setImmediate(uncork);
      }
      stdout.write(line);
    },
  };
  const logger: Logger = pino(
    { level, serializers, hooks: { logMethod: leaveOutRepeats(() => logger) } },
    destination,
  );
  process.once('exit', uncork);
  stdout.on('drain', () => {
    if (dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    logger.warn({ dropped_lines: lines }, 'log lines were dropped while stdout was blocked');
  });
  return {
    logger,
    async flushed() {
      uncork();
      if (stdout.writableLength === 0) return;
      await Promise.race([once(stdout, 'drain'), sleep(FLUSH_MS)]).catch(() => undefined);
    },
  };
}
