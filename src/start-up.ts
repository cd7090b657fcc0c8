import { readFile } from 'node:fs/promises';
import type { Server } from 'node:net';
import { createSecureContext } from 'node:tls';
import type { Logger } from 'pino';
import { EventStoreUnavailable } from './adapters/event-store/port.ts';
import { isRejectedSignIn } from './adapters/postgres/unavailable.ts';
import { isStoreUnavailable } from './adapters/unavailable.ts';
import { pause } from './concurrency/pause.ts';
import { unlessStopped } from './concurrency/unless-stopped.ts';
import { type Config, ConfigError } from './config.ts';
import type { Check } from './health.ts';
import { type ServerWhileStarting, serveWhileStarting } from './http/while-starting.ts';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
/**
 * How long a step may still take after the signal aborts. A silent store holds it up much longer.
 */
const STEP_ENDS_WITHIN_MS = 5_000;

const STARTING = { start: { ok: false, detail: 'the process is starting' } };

/** Starts a process while its stores may be unavailable. */
export interface StartUp {
  /** Aborts if the process must stop before it has started. */
  signal: AbortSignal;
  /**
   * Listens at the address of the API, and answers until `handOver`. Call it before anything is
   * opened. Throws ConfigError if WAYBILL_HOST or the TLS files cannot be used, and the error of
   * `listen` if the port is taken.
   */
  listen(): Promise<void>;
  /**
   * Repeats a step until Postgres and the event store answer. Logs and reports which store it waits
   * for. Throws any other error at once, because no wait fixes wrong settings. Throws the signal's
   * reason when the signal aborts, at the latest five seconds after that.
   */
  attempt<T>(step: () => Promise<T>): Promise<T>;
  /** Sets the checks that readiness shows from now on. */
  report(checks: Record<string, Check>): void;
  /** Lets the server of the API take over, if `listen` was called. Call its `listen` next. */
  handOver(server: Server): void;
  /** Ends what still answers. Never rejects. */
  close(): Promise<void>;
}

/** Creates the start-up of a process. `signal` aborts if the process must stop before it runs. */
export function createStartUp(
  config: Pick<Config, 'host' | 'port' | 'tls' | 'publicUrl' | 'rateLimit'>,
  logger: Logger,
  signal: AbortSignal,
): StartUp {
  let checks: Record<string, Check> = STARTING;
  let meanwhile: ServerWhileStarting | null = null;

  async function attempt<T>(step: () => Promise<T>): Promise<T> {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      signal.throwIfAborted();
      try {
        const done = await unlessStopped(step(), signal, STEP_ENDS_WITHIN_MS);
        checks = STARTING;
        return done;
      } catch (error) {
        const mayPass = isStoreUnavailable(error) || isStoreUnavailable((error as Error).cause);
        if (!mayPass || isRejectedSignIn(error)) throw error;
        const store = error instanceof EventStoreUnavailable ? 'event_store' : 'database';
        checks = { [store]: { ok: false, detail: 'does not answer; the start waits for it' } };
        logger.warn({ err: error, store }, 'a store does not answer; the start waits for it');
      }
      await pause(pauseMs, signal);
    }
  }

  return {
    signal,
    async listen() {
      const tls = await readTls(config);
      meanwhile = await serveWhileStarting(config, tls, () => checks).catch((error) =>
        explainListening(error, config),
      );
    },
    attempt,
    report(current) {
      checks = current;
    },
    handOver(server) {
      meanwhile?.handOver(server);
    },
    async close() {
      await meanwhile?.close();
    },
  };
}

/**
 * Reads the certificate and the key of the API. Returns undefined for plain HTTP. Throws ConfigError
 * if they cannot be used.
 */
export async function readTls({
  tls,
}: Pick<Config, 'tls'>): Promise<{ cert: Buffer; key: Buffer } | undefined> {
  if (tls === null) return undefined;
  const read = (name: string, file: string) =>
    readFile(file).catch((error: Error) => {
      throw new ConfigError([`${name} names a file that cannot be read: ${error.message}`]);
    });
  const cert = await read('WAYBILL_TLS_CERT', tls.certFile);
  const key = await read('WAYBILL_TLS_KEY', tls.keyFile);
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    throw new ConfigError([
      'WAYBILL_TLS_CERT and WAYBILL_TLS_KEY are no certificate and its key, both in PEM and ' +
        `without a passphrase: ${(error as Error).message}`,
    ]);
  }
  return { cert, key };
}

/** Codes of `listen` for an address that this machine does not have. */
const NO_ADDRESS = ['ENOTFOUND', 'EAI_AGAIN', 'EADDRNOTAVAIL', 'EINVAL'];

/** Throws ConfigError if `listen` failed because of WAYBILL_HOST, else the error itself. */
function explainListening(error: NodeJS.ErrnoException, { host }: Pick<Config, 'host'>): never {
  if (!NO_ADDRESS.includes(error.code ?? '')) throw error;
  throw new ConfigError([
    `WAYBILL_HOST is "${host}", but this machine has no such address (${error.code}): name one of ` +
      'its addresses, or 0.0.0.0 for all',
  ]);
}
