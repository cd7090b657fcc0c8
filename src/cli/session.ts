import { userInfo } from 'node:os';
import pino, { type Logger } from 'pino';
import type { Cause } from '../commands/handle.ts';
import { type Config, type LogLevel, parseConfig } from '../config.ts';
import { newId } from '../domain/ids.ts';
import { type Installation, openInstallation } from '../installation.ts';

/** The settings, with a log level of the command's own where none is set. */
export function readConfig(logLevel: LogLevel): Config {
  return parseConfig({ ...process.env, WAYBILL_LOG_LEVEL: process.env.WAYBILL_LOG_LEVEL || logLevel });
}

/** Logs to stderr, which leaves stdout to results. */
export function createLogger(config: Config): Logger {
  return pino({ level: config.logLevel, base: { pid: process.pid } }, pino.destination({ dest: 2, sync: true }));
}

/** Runs an operator's command on the installation that the settings name, and lets go of it whatever happens. */
export async function withInstallation<T>(work: (installation: Installation) => Promise<T>): Promise<T> {
  const config = readConfig('error');
  const installation = await openInstallation(config, createLogger(config));
  try {
    return await work(installation);
  } finally {
    await installation.close();
  }
}

/** Why an operator's command does what it does. */
export function operator(): Cause {
  return { actor: `cli:${userName()}`, correlationId: newId('req') };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run under a number that no account has.
    return String(process.getuid?.() ?? 'unknown');
  }
}

/**
 * A signal that aborts at SIGINT or SIGTERM, for work that goes on until it is told to stop. A second one
 * ends the process at once.
 */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  const numbers = { SIGINT: 2, SIGTERM: 15 };
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(128 + numbers[name]);
      controller.abort();
    });
  }
  return controller.signal;
}
