import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pino, { type Logger } from 'pino';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import { reasonOf } from '../../domain/errors.ts';

/** Maximum size of the lines that wait for a blocked stdout. Further lines are dropped. */
const WAITING_BYTES = 4 << 20;
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

/**
 * Creates a logger that writes to stdout, for a supervisor to collect. While stdout is blocked,
 * lines wait in memory, up to a limit. Further lines are dropped. A warning counts them when stdout
 * takes lines again. pino's own destination is not used: it writes to the file descriptor, and a
 * blocked write would hold a thread and the exit of the process.
 */
export function stdoutLog(level: string): StdoutLog {
  const { stdout } = process;
  let dropped = 0;
  let corked = false;
  function uncork(): void {
    if (!corked) return;
    corked = false;
    stdout.uncork();
  }
  const logger = pino(
    { level, serializers },
    {
      write(line) {
        if (stdout.writableLength > WAITING_BYTES) {
          dropped++;
          return;
        }
        // The lines of a turn of the event loop share a write.
        if (!corked) {
          corked = true;
          stdout.cork();
          setImmediate(uncork);
        }
        stdout.write(line);
      },
    },
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
