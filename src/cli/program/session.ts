import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import pino, { type Logger } from 'pino';
import { mayHaveInstallation } from '../../adapters/postgres/existing-installation.ts';
import { GIVE_UP_ON_STORES_MS } from '../../adapters/unavailable.ts';
import type { Cause } from '../../commands/handle.ts';
import { type Config, type LogLevel, parseConfig } from '../../config.ts';
import { DomainError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { type Installation, type OpenOptions, openInstallation } from '../../installation.ts';
import { note } from './output.ts';
import { PostgresSilent, unlessSilent } from './silent-postgres.ts';
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

/** A command that takes minutes outlasts a short outage, as its statements do. */
const LONG_SILENT_MS = 60_000;

export interface SessionOptions
  extends Pick<OpenOptions, 'opensChangedLog' | 'adoptsLog' | 'masterKeyIsLost'> {
  /** True for a command that may be the first one: it creates an installation if there is none. */
  begins?: boolean;
  /** True for a command that follows something, or reads much: it may take minutes. */
  runsLong?: boolean | undefined;
  /** The settings; those of the terminal by default. */
  env?: NodeJS.ProcessEnv;
}

/**
 * Runs an operator's command on the installation of the settings, and closes the installation
 * afterwards. Throws `not_found` if there is none and the command does not begin one, and
 * `unavailable` if Postgres falls silent meanwhile.
 */
export async function withInstallation<T>(
  work: (installation: Installation) => Promise<T>,
  { runsLong = false, env, begins = false, ...options }: SessionOptions = {},
): Promise<T> {
  const config = readConfig('error', env);
  const logger = createLogger(config);
  const silentMs = runsLong ? LONG_SILENT_MS : GIVE_UP_ON_STORES_MS;
  const isNew = !mayHaveInstallation(config);
  return unlessSilent(silentMs, async (onPostgres) => {
    const installation = await openInstallation(config, logger, {
      ...options,
      begins,
      onPostgres,
    });
    try {
      if (isNew) noteNew(config.dataDir);
      return await work(installation);
    } finally {
      await installation.close();
    }
  }).catch((error: unknown) => {
    throw error instanceof PostgresSilent ? silent(config, silentMs) : error;
  });
}

/** Says that the command has created an installation: its user may have meant another one. */
function noteNew(dataDir: string): void {
  note(
    `Created a new, empty installation in ${resolve(dataDir)}. If yours is in another folder, set ` +
      'WAYBILL_DATA_DIR to it.',
  );
}

function silent({ databaseUrl, dataDir }: Config, silentMs: number): DomainError {
  const advice =
    databaseUrl === null
      ? `Its log is ${join(dataDir, 'postgres', 'log')}.`
      : 'Check that it runs, DATABASE_URL, and the network between.';
  return new DomainError(
    'unavailable',
    `Postgres has not answered for ${silentMs / 1_000} s. ${advice} If this command changes ` +
      'something, it is unknown whether the change took effect: look before you repeat it.',
  );
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
  using stop = terminal().stopSignal();
  try {
    await work(stop);
  } catch (error) {
    if (!stop.aborted || error !== stop.reason) throw error;
  }
}
