/*
 * The lines of an outage of Postgres or the event store. Each part of a service tries again every
 * second or so, and logs each failure: at rest, that is 300 equal lines a minute. The log shows each
 * of them once in an outage, and how many more there were, every minute and at the end.
 */
import { inspect } from 'node:util';
import type { Logger, LoggerOptions } from 'pino';
import { EmbeddedPostgresError } from '../../adapters/postgres/embedded/error.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';

/** An outage has ended if no line has said otherwise for this long. The parts retry within 5 s. */
const OVER_AFTER_MS = 15_000;
const COUNT_EVERY_MS = 60_000;
/** How many different lines of an outage are remembered. Further ones are all logged. */
const REMEMBERED_LINES = 1_000;

type LogMethod = NonNullable<NonNullable<LoggerOptions['hooks']>['logMethod']>;

interface Outage {
  began: number;
  lastFailure: number;
  lastCount: number;
  lines: Set<string>;
  repeated: number;
  timer: NodeJS.Timeout;
}

/**
 * Creates the hook of a logger that leaves out what repeats while a store is not available. Lines
 * with another message, error or subject are not left out. `root` returns the logger that logs the
 * numbers.
 */
export function leaveOutRepeats(
  root: () => Logger,
  { overAfterMs = OVER_AFTER_MS, countEveryMs = COUNT_EVERY_MS } = {},
): LogMethod {
  let outage: Outage | null = null;

  function begin(now: number): Outage {
    const lookMs = Math.min(overAfterMs, countEveryMs) / 3;
    return {
      began: now,
      lastFailure: now,
      lastCount: now,
      lines: new Set(),
      repeated: 0,
      timer: setInterval(look, lookMs).unref(),
    };
  }

  function look(): void {
    if (outage === null) return;
    const now = performance.now();
    const { began, lastFailure, lastCount, repeated, timer } = outage;
    const seconds = Math.round((lastFailure - began) / 1_000);
    const numbers = { repeated_lines: repeated, seconds };
    if (now - lastFailure > overAfterMs) {
      clearInterval(timer);
      outage = null;
      if (repeated > 0) root().info(numbers, 'calls to the stores succeed again');
    } else if (now - lastCount > countEveryMs && repeated > 0) {
      outage.lastCount = now;
      root().error(numbers, 'calls to a store still fail; lines that repeat are left out');
    }
  }

  function isRepeated(line: string): boolean {
    const now = performance.now();
    outage ??= begin(now);
    outage.lastFailure = now;
    if (outage.lines.has(line)) {
      outage.repeated++;
      return true;
    }
    if (outage.lines.size < REMEMBERED_LINES) outage.lines.add(line);
    return false;
  }

  return function logMethod(args, method) {
    const [fields, message] = args as [unknown, unknown];
    if (!isOfOutage(fields) || !isRepeated(keyOf(fields, message))) method.apply(this, args);
  };
}

function isOfOutage(fields: unknown): fields is { err: Error } {
  const error = (fields as { err?: unknown } | null)?.err;
  return isStoreUnavailable(error) || error instanceof EmbeddedPostgresError;
}

function keyOf({ err, ...subject }: { err: Error }, message: unknown): string {
  return inspect([message, err.message, subject]);
}
