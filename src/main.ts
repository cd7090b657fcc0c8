import { readFile } from 'node:fs/promises';
import { createWebhookSender } from './adapters/webhooks/send.ts';
import { createHealth, type Health } from './health.ts';
import { createHttpServer } from './http/app.ts';
import type { Installation } from './installation.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { runAdmission } from './processes/admission.ts';
import { runHousekeeping } from './processes/housekeeping.ts';
import { createJobRecorder, dispatchConsumer } from './processes/jobs.ts';
import { runMover } from './processes/mover/mover.ts';
import { runProbes } from './processes/probes.ts';
import { runProjectionTasks } from './processes/projection-tasks.ts';
import { createReachability } from './processes/reachability.ts';
import { runDeliverer } from './processes/webhooks/deliverer.ts';
import { createOutboxConsumer } from './processes/webhooks/outbox.ts';
import { runReplays } from './processes/webhooks/replays.ts';
import { loadCheckpoint, verifyCheckpoint } from './projections/checkpoint.ts';
import { type Consumer, runConsumer } from './projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from './projections/read-models.ts';
import { rebuildProjection } from './projections/rebuild.ts';

export const ROLES = ['api', 'projector', 'mover', 'webhooks', 'monitor'] as const;
export type Role = (typeof ROLES)[number];

/** How long a shutdown waits for files that move to arrive, and for requests to end, in milliseconds. */
const GRACE_MS = 5_000;

export interface Service {
  /** Base URL of the API; null where this process does not serve it. */
  url: string | null;
  /** Settles when the service can't go on: then the process should end. Never resolves. */
  failed: Promise<never>;
  /** Stops taking work, gives what moves its grace time, saves and closes. The installation stays open. */
  stop(): Promise<void>;
}

/** Starts the given roles in this process. Throws WrongLog where the database belongs to another log. */
export async function startService(installation: Installation, roles: readonly Role[]): Promise<Service> {
  const { logger } = installation;
  await refuseWrongLog(installation);
  const health = createHealth(installation);
  const metrics = createMetrics(installation);
  const stopping = new AbortController();
  const { signal } = stopping;
  const running: Promise<void>[] = [];
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  failed.catch(() => undefined);

  const run = (work: Promise<void>) => running.push(work.catch(fail));
  // A crash of Postgres may take the last moments of derived tables, and takes their checkpoints with them.
  const following = { ...installation, sql: installation.derived };
  const consume = (consumer: Consumer) => {
    const report = health.report(consumer.name);
    const work = runConsumer(following, consumer, signal, (status) => {
      report(status);
      if (status.state === 'active') installation.waiter.advance(consumer.name, status.position);
    });
    run(work);
  };

  if (roles.includes('projector')) {
    for (const name of installation.outdated) {
      logger.warn({ projection: name }, 'an older version made the tables of this projection: making them anew');
      await rebuildProjection(installation, name, () => undefined);
    }
    for (const projection of Object.values(PROJECTIONS)) consume(projectionConsumer(projection));
    run(runProjectionTasks(installation, signal));
  }
  if (roles.includes('mover')) {
    const { movers, transferRetryDelays } = installation.config;
    const record = createJobRecorder(following.sql);
    consume(dispatchConsumer);
    run(runAdmission({ ...following, record }, signal));
    run(
      runMover(
        {
          ...following,
          durable: installation.sql,
          record,
          reachability: createReachability(following, signal),
          metrics: metrics.mover,
          slots: movers,
          retryDelays: [...transferRetryDelays],
          graceMs: GRACE_MS,
        },
        signal,
      ),
    );
  }
  if (roles.includes('webhooks')) {
    const { webhookAllowCidrs, webhookRetryDelays } = installation.config;
    const sender = createWebhookSender({ allowedCidrs: webhookAllowCidrs });
    consume(createOutboxConsumer(installation.store));
    run(runReplays(following, signal));
    run(runDeliverer({ ...following, sender, metrics: metrics.deliverer, retryDelays: webhookRetryDelays, graceMs: GRACE_MS }, signal));
  }
  if (roles.includes('monitor')) {
    run(runHousekeeping(installation, signal));
    run(runProbes(following, signal));
  }

  const listening = roles.includes('api') ? listen(installation, health, metrics) : Promise.resolve(null);
  const http = await listening.catch(async (error: unknown) => {
    stopping.abort();
    await Promise.all(running);
    throw error;
  });
  logger.info({ roles, url: http?.url, log_id: installation.logId }, 'waybill runs');

  return {
    url: http?.url ?? null,
    failed,
    async stop() {
      stopping.abort();
      await http?.close();
      await Promise.all(running);
    },
  };
}

async function listen(installation: Installation, health: Health, metrics: Metrics) {
  const { config } = installation;
  const tls = config.tls && { cert: await readFile(config.tls.certFile), key: await readFile(config.tls.keyFile) };
  const app = createHttpServer({
    ...installation,
    rateLimit: config.rateLimit,
    trustedProxies: [...config.trustedProxies],
    health,
    metrics: metrics.registry,
    ...(tls ? { tls } : {}),
  });
  const url = await app.listen({ host: config.host, port: config.port });
  return {
    url,
    async close() {
      // One that reads its answer slowly, or never, holds nobody up.
      const cut = setTimeout(() => app.server.closeAllConnections(), GRACE_MS);
      await app.close();
      clearTimeout(cut);
    },
  };
}

async function refuseWrongLog({ sql, store, logId }: Installation): Promise<void> {
  const projections = Object.values(PROJECTIONS).map((projection) => projectionConsumer(projection));
  const consumers = [...projections, dispatchConsumer, createOutboxConsumer(store)];
  for (const { name, table } of consumers) {
    const checkpoint = await loadCheckpoint(sql, table, name);
    if (checkpoint) await verifyCheckpoint(store, name, checkpoint, logId);
  }
}
