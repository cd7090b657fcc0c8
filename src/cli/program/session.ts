import { userInfo } from 'node:os';
import pino, { type Logger } from 'pino';
import type { Cause } from '../../commands/handle.ts';
import { type Config, type LogLevel, parseConfig } from '../../config.ts';
import { newId } from '../../domain/ids.ts';
import { type Installation, type OpenOptions, openInstallation } from '../../installation.ts';
import { serializers } from './stdout-log.ts';
import { terminal } from './terminal.ts';

/** Reads the settings. `logLevel` applies if none is set. */
export function readConfig(logLevel: LogLevel, env = terminal().env): Config {
  return parseConfig({
    ...env,
    WAYBILL_LOG_LEVEL: env.WAYBILL_LOG_LEVEL || logLevel,
  });
}

/** Creates a logger that writes to stderr: stdout is for results. */
export function createLogger(config: Config): Logger {
  return pino(
    { level: config.logLevel, base: { pid: process.pid }, serializers },
    terminal().stderr,
  );
}

/**
 * Runs an operator's command on the installation of the settings in `env`, and closes the
 * installation afterwards.
 */
export async function withInstallation<T>(
  work: (installation: Installation) => Promise<T>,
  env = terminal().env,
  options: OpenOptions = {},
): Promise<T> {
  const config = readConfig('error', env);
  const installation = await openInstallation(config, createLogger(config), options);
  try {
    return await work(installation);
  } finally {
    await installation.close();
  }
}

/** Returns the actor and a new correlation id for the events of an operator's command. */
export function operator(): Cause {
  return { actor: `cli:${userName()}`, correlationId: newId('req') };
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container can run under a user id without an account.
    return String(process.getuid?.() ?? 'unknown');
  }
}

/**
 * Runs work until it ends, or until SIGTERM or SIGINT stops it. It may still wait for its stores.
 */
export async function untilStopped(work: (stop: AbortSignal) => Promise<void>): Promise<void> {
  const stop = terminal().stopSignal();
  try {
    await work(stop);
  } catch (error) {
    if (!stop.aborted || error !== stop.reason) throw error;
  }
}
