/*
 * What each role of a process runs.
 */

import type { Health } from './health.ts';
import { API_PURGES, API_RECORDS } from './http/purges.ts';
import type { Installation } from './installation.ts';
import type { Metrics } from './metrics.ts';
import type { ProcessRole } from './process-roles.ts';
import { runBatches } from './processes/batches/manager.ts';
import { runAdmission } from './processes/dispatch/admission.ts';
import { createJobRecorder, dispatchConsumer } from './processes/dispatch/consumer.ts';
import { createConnectivity } from './processes/endpoints/connectivity.ts';
import { runProbes } from './processes/endpoints/probes.ts';
import { runFlows } from './processes/flows/manager.ts';
import { runHousekeeping } from './processes/housekeeping/housekeeping.ts';
import { runMover } from './processes/mover/mover.ts';
import { runProjectionTasks } from './processes/projections/tasks.ts';
import { openSinks } from './processes/proof/open-sink.ts';
import { runSigner } from './processes/proof/signer.ts';
import { runSinks } from './processes/proof/sinks.ts';
import { createDeliverer } from './processes/webhooks/deliverer/deliverer.ts';
import { createOutboxConsumer } from './processes/webhooks/outbox.ts';
import { runReplays } from './processes/webhooks/replays.ts';
import type { Consumer } from './projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from './projections/read-models.ts';
import { rebuildOutdated } from './projections/rebuild/rebuild-outdated.ts';
import { leaveToNewer, runConsumer } from './projections/run-consumer.ts';

export interface RolesDeps {
  installation: Installation;
  health: Health;
  metrics: Metrics;
  /** How long running attempts may go on after the signal, in milliseconds. */
  graceMs: number;
  signal: AbortSignal;
  /** Takes work that lasts until the signal aborts. The service fails if it throws. */
  run(work: Promise<void>): void;
}

interface Context extends RolesDeps {
  /** The installation as what follows the log uses it. */
  following: Installation & { pause: Installation['waiter']['pause'] };
  /** Runs a consumer of the log, which reports its status. */
  consume(consumer: Consumer): void;
}

/** Runs the roles. That of the API has nothing to run here: the service starts its server. */
export async function runRoles(roles: readonly ProcessRole[], deps: RolesDeps): Promise<void> {
  // Only a process with this role loads it: webhooks and the API load as long as all the rest.
  const sending = roles.includes('webhooks') ? await import('./adapters/webhooks/send.ts') : null;
  const { installation, health, signal, run } = deps;
  const { derived, waiter } = installation;
  // A crash of Postgres may lose the last rows of derived tables, and loses their checkpoints with
  // them.
  const following = { ...installation, sql: derived, pause: waiter.pause };
  const consume = (consumer: Consumer) => {
    const report = health.report(consumer.name);
    const work = runConsumer(following, consumer, signal, (status) => {
      report(status);
      if (status.state === 'active') waiter.advance(consumer.name, status.position);
    });
    run(work);
  };
  const context = { ...deps, following, consume };
  if (roles.includes('projector')) runProjector(context);
  if (roles.includes('mover')) runMovers(context);
  if (sending) runWebhooks(context, sending);
  if (roles.includes('monitor')) runMonitor(context);
}

function runProjector({ installation, health, signal, run, consume }: Context): void {
  const rebuilding = { ...installation, sql: installation.patient };
  for (const projection of Object.values(PROJECTIONS)) {
    const { name } = projection;
    const consumer = projectionConsumer(projection);
    const report = health.report(name);
    const madeBy = installation.otherVersions.get(name);
    if (madeBy === 'newer') leaveToNewer(installation, consumer, report);
    else if (madeBy === undefined) consume(consumer);
    else run(rebuildOutdated(rebuilding, name, signal, report).then(() => consume(consumer)));
  }
  run(runProjectionTasks(rebuilding, signal));
  run(runSigner(installation, signal, health.report('signer')));
  const { vault, commands, config } = installation;
  const sinks = openSinks({ vault, endpoints: commands.endpoints }, config.checkpointSinks);
  const reports = sinks.map((_, i) => health.report(`checkpoint_sink_${i + 1}`));
  run(runSinks(installation, sinks, signal, (i, status) => reports[i]?.(status)));
}

/** Runs what moves files, and the process managers that give it work. */
function runMovers({
  installation,
  metrics,
  graceMs,
  signal,
  run,
  following,
  consume,
}: Context): void {
  const { movers, transferRetryDelays } = installation.config;
  const record = createJobRecorder(following.sql);
  consume(dispatchConsumer);
  run(runAdmission({ ...following, record }, signal));
  run(runBatches(following, signal));
  const mover = {
    ...following,
    durable: installation.sql,
    record,
    connectivity: createConnectivity(following, signal),
    metrics: metrics.mover,
    slots: movers,
    retryDelays: [...transferRetryDelays],
    graceMs,
  };
  run(runMover(mover, signal));
}

function runWebhooks(
  { installation, metrics, graceMs, signal, run, following, consume }: Context,
  { createWebhookSender }: typeof import('./adapters/webhooks/send.ts'),
): void {
  const { webhookAllowCidrs, webhookRetryDelays } = installation.config;
  const sender = createWebhookSender({
    allowedCidrs: webhookAllowCidrs,
    onRefused: (refused) =>
      following.logger.warn(
        refused,
        'a webhook leads to an address that WAYBILL_WEBHOOK_ALLOW_CIDRS does not allow',
      ),
  });
  const deliverer = createDeliverer(
    {
      ...following,
      sender,
      metrics: metrics.deliverer,
      retryDelays: webhookRetryDelays,
      graceMs,
    },
    signal,
  );
  consume(createOutboxConsumer(installation.store, deliverer.attemptFirst));
  run(runReplays(following, signal));
  run(deliverer.run());
}

function runMonitor({ installation, signal, run, following }: Context): void {
  run(runHousekeeping({ ...installation, purges: API_PURGES, recordsOfApi: API_RECORDS }, signal));
  run(runProbes(following, signal));
  run(runFlows(following, signal));
}
