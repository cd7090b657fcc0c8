import { setTimeout as sleep } from 'node:timers/promises';
import { requireEngine } from './adapters/event-store/engine-of-log.ts';
import { cryptoInUse } from './adapters/files/sftp/crypto-in-use.ts';
import { createHealth, type Health } from './health.ts';
import type { Installation } from './installation.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { watchOpenFiles } from './open-files.ts';
import type { ProcessRole } from './process-roles.ts';
import { allConsumers } from './processes/consumers.ts';
import { joinServices, stayJoined } from './processes/log-copy/running-services.ts';
import {
  CheckpointMoved,
  loadCheckpoint,
  resumePosition,
  WrongLog,
} from './projections/checkpoint.ts';
import { PROJECTIONS, projectionConsumer } from './projections/read-models.ts';
import { untilCaughtUp } from './projections/until-caught-up.ts';
import { watchLog } from './projections/watch-log.ts';
import { runRoles } from './run-roles.ts';
import { createStartUp, readTls, type StartUp } from './start-up.ts';

/** How long a shutdown waits for running attempts and for requests, in milliseconds. */
const GRACE_MS = 5_000;
/**
 * How long a shutdown waits in all, in milliseconds. A silent store holds each of its calls up for
 * a minute.
 */
const STOP_WITHIN_MS = 15_000;

export interface Service {
  /** Base URL of the API. Null if this process does not serve it. */
  url: string | null;
  /** Rejects when the service cannot continue: the process should then end. Never resolves. */
  failed: Promise<never>;
  /**
   * Takes no more work, lets attempts run for the grace time, and closes. Keeps the installation
   * open. Returns after 15 s at the latest: closing the installation then ends what still waits for
   * a store.
   */
  stop(): Promise<void>;
}

/**
 * Starts the given roles in this process. `startUp` waits for stores that are unavailable, and
 * while the log moves to the other engine. Throws WrongLog if the database belongs to another log,
 * and EventStoreSettingsError if the log is in the other engine.
 */
export async function startService(
  installation: Installation,
  roles: readonly ProcessRole[],
  startUp: StartUp = createStartUp(
    installation.config,
    installation.logger,
    new AbortController().signal,
  ),
): Promise<Service> {
  const { logger } = installation;
  const joined = await joinServices(installation.locks, startUp.signal, (detail) => {
    logger.warn(detail);
    startUp.report({ log: { ok: false, detail } });
  });
  await startUp.attempt(() => refuseWrongLog(installation));
  // Only a process with this role loads it: webhooks and the API load as long as all the rest.
  const serving = roles.includes('api') ? await import('./http/app.ts') : null;
  const stopping = new AbortController();
  const { signal } = stopping;
  const lacking = watchOpenFiles(installation, signal);
  const health = createHealth({ ...installation, lacking });
  const metrics = createMetrics(installation);
  const running: Promise<void>[] = [];
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  failed.catch(() => undefined);

  const run = (work: Promise<void>) => void running.push(work.catch(fail));
  await runRoles(roles, { installation, health, metrics, graceMs: GRACE_MS, signal, run });
  run(stayJoined(installation, joined, signal));
  run(watchLog(installation, signal));

  async function withinLimit(ending: Promise<unknown>): Promise<void> {
    const limit = sleep(STOP_WITHIN_MS, 'late', { ref: false });
    if ((await Promise.race([ending, limit])) === 'late')
      logger.warn('Postgres or the event store does not answer; the process ends without it');
  }

  const listening = serving
    ? Promise.race([untilKeysAreKnown(installation, startUp, signal), failed]).then(() =>
        listen(serving, installation, startUp, health, metrics),
      )
    : Promise.resolve(null);
  const http = await listening.catch(async (error: unknown) => {
    stopping.abort();
    await withinLimit(Promise.all(running));
    throw error;
  });
  logger.info(
    {
      roles,
      url: http?.url,
      log_id: installation.logId,
      ...(roles.includes('mover') && { ssh_crypto: cryptoInUse() }),
    },
    'waybill runs',
  );

  async function close(): Promise<void> {
    await http?.close();
    await Promise.all(running);
  }

  return {
    url: http?.url ?? null,
    failed,
    async stop() {
      stopping.abort();
      await withinLimit(close());
    },
  };
}

/**
 * Waits until the catalog is filled. Before that it knows no key, so the API would reject every
 * request. Throws the signal's reason if the process must stop before.
 */
async function untilKeysAreKnown(
  installation: Installation,
  startUp: StartUp,
  stopping: AbortSignal,
): Promise<void> {
  // Tables of another version serve as they are: an older one's until the rebuild is done.
  if (installation.otherVersions.has('catalog')) return;
  const detail = 'the catalog does not show the whole log yet';
  startUp.report({ read_models: { ok: false, detail } });
  const signal = AbortSignal.any([stopping, startUp.signal]);
  const catalog = projectionConsumer(PROJECTIONS.catalog);
  await untilCaughtUp({ ...installation, sql: installation.derived }, catalog, signal, {
    orByOurselves: true,
  });
  signal.throwIfAborted();
}

async function listen(
  { createHttpServer }: typeof import('./http/app.ts'),
  installation: Installation,
  startUp: StartUp,
  health: Health,
  metrics: Metrics,
) {
  const { config } = installation;
  const tls = await readTls(config);
  const app = createHttpServer({
    ...installation,
    rateLimit: config.rateLimit,
    trustedProxies: [...config.trustedProxies],
    health,
    metrics: metrics.registry,
    ...(tls ? { tls } : {}),
  });
  // The server that answers until now goes on while this one loads its routes.
  await app.ready();
  startUp.handOver(app.server);
  const url = await app.listen({ host: config.host, port: config.port });
  return {
    url,
    async close() {
      // A client that reads its answer slowly, or never, must not delay the shutdown.
      const timer = setTimeout(() => app.server.closeAllConnections(), GRACE_MS);
      await app.close();
      clearTimeout(timer);
    },
  };
}

/**
 * Throws EventStoreSettingsError if the tables follow the other engine, and WrongLog, which names
 * every consumer whose tables do not follow this log.
 */
async function refuseWrongLog(installation: Installation): Promise<void> {
  const { sql, store, logId } = installation;
  await requireEngine(sql, logId, store.engine);
  const checks = allConsumers(store).map(async ({ name, table }) => {
    const checkpoint = await loadCheckpoint(sql, table, name);
    if (!checkpoint) return [];
    try {
      await resumePosition(installation, table, name, checkpoint);
    } catch (error) {
      if (error instanceof WrongLog) return [{ name, message: error.message }];
      // Another process has moved the checkpoint, and verified it first.
      if (!(error instanceof CheckpointMoved)) throw error;
    }
    return [];
  });
  const [first, ...others] = (await Promise.all(checks)).flat();
  if (!first) return;
  const sameFor = others.map(({ name }) => name).join(', ');
  throw new WrongLog(sameFor ? `${first.message}. The same for ${sameFor}` : first.message);
}
