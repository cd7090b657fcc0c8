import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { EventStore } from './adapters/event-store/port.ts';
import type { Sql } from './adapters/postgres/connect.ts';
import { hasHostKey, newHostKeysOf } from './domain/endpoints/endpoint.ts';
import { hostKeysOf } from './domain/protocols/host-keys.ts';
import { TRANSFER_STATUSES } from './domain/transfers/transfer.ts';
import { countDueJobs } from './processes/dispatch/job-table/figures.ts';
import { flowDelays } from './processes/flows/show-flows.ts';
import { type FlowFigures, flowFigures } from './processes/flows/table.ts';
import { ATTEMPT_ENDS, type AttemptEnd } from './processes/mover/attempt.ts';
import type { MoverMetrics } from './processes/mover/mover.ts';
import type { DelivererMetrics } from './processes/webhooks/deliverer/deliverer.ts';
import { countDueDeliveries } from './processes/webhooks/delivery-table/read.ts';
import { listEndpoints } from './projections/catalog/queries.ts';
import { listCheckpoints } from './projections/checkpoint.ts';

const ATTEMPT_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400];
const DELIVERY_SECONDS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const QUEUE_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600];

export interface Metrics {
  registry: Registry;
  mover: MoverMetrics;
  deliverer: DelivererMetrics;
}

const DELIVERY_ENDS = ['delivered', 'failed'] as const;
const DELIVERY_OUTCOMES = ['delivered', 'refused', 'error'] as const;

/**
 * Creates the metrics for Prometheus: what this process did, and the state of the installation at
 * each scrape. Series with known labels start at 0: `rate()` does not see the first failure of a
 * series that starts at 1.
 */
export function createMetrics({ sql, store }: { sql: Sql; store: EventStore }): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  watchTransfers(sql, registers);
  watchConsumers(sql, store, registers);
  watchFlows(sql, registers);
  watchHostKeys(sql, registers);
  const mover = createMoverMetrics(registers);
  watchBacklog(sql, registers);
  return { registry, mover, deliverer: createDelivererMetrics(registers) };
}

/** Counts transfers by status, and those that wait for a mover. */
function watchTransfers(sql: Sql, registers: Registry[]): void {
  new Gauge({
    name: 'waybill_transfers',
    help: 'Transfers of the installation, by status',
    labelNames: ['status'],
    registers,
    async collect() {
      const rows = await sql<
        { status: string; transfers: bigint }[]
      >`select status, transfers from read.transfer_totals`;
      for (const status of TRANSFER_STATUSES) this.set({ status }, 0);
      for (const { status, transfers } of rows) this.set({ status }, Number(transfers));
    },
  });
  new Gauge({
    name: 'waybill_queue_depth',
    help: 'Transfers that are due and wait for a mover',
    registers,
    async collect() {
      this.set(await countDueJobs(sql));
    },
  });
}

/** Shows how far each consumer is behind the end of the log. */
function watchConsumers(sql: Sql, store: EventStore, registers: Registry[]): void {
  new Gauge({
    name: 'waybill_consumer_lag_positions',
    help: 'How far a projection or process manager is behind the end of the log, in its positions',
    labelNames: ['consumer'],
    registers,
    async collect() {
      const [head, checkpoints] = await Promise.all([store.head(), listCheckpoints(sql)]);
      for (const { name, position } of checkpoints) {
        const lag = (head ?? 0n) - position;
        this.set({ consumer: name }, lag > 0n ? Number(lag) : 0);
      }
    },
  });
}

/** Counts the webhook deliveries that are due. */
function watchBacklog(sql: Sql, registers: Registry[]): void {
  new Gauge({
    name: 'waybill_webhook_backlog',
    help: 'Deliveries that are due, counted to 100,000, without those of disabled webhooks',
    registers,
    async collect() {
      this.set(await countDueDeliveries(sql));
    },
  });
}

function createMoverMetrics(registers: Registry[]): MoverMetrics {
  const bytes = new Counter({
    name: 'waybill_moved_bytes_total',
    help: 'Bytes that destinations have acknowledged',
    registers,
  });
  const attempts = new Histogram({
    name: 'waybill_attempt_duration_seconds',
    help: 'Duration of attempts, by how they ended',
    labelNames: ['end'],
    buckets: ATTEMPT_SECONDS,
    registers,
  });
  for (const end of ATTEMPT_ENDS) attempts.zero({ end });
  const queued = new Histogram({
    name: 'waybill_queue_duration_seconds',
    help: 'Time that transfers waited for a mover after they were due',
    buckets: QUEUE_SECONDS,
    registers,
  });
  const lost = new Counter({
    name: 'waybill_leases_lost_total',
    help: 'Claims that this process lost to another',
    registers,
  });

  return {
    moved: (count) => bytes.inc(count),
    claimed: (waitedSeconds) => queued.observe(waitedSeconds),
    ended(end: AttemptEnd, seconds) {
      attempts.observe({ end }, seconds);
      if (end === 'lease_lost') lost.inc();
    },
    watchBandwidth(rates) {
      new Gauge({
        name: 'waybill_bandwidth_limit_bytes_per_second',
        help: 'What the bandwidth limits of endpoints leave to this process',
        labelNames: ['endpoint', 'side'],
        registers,
        collect() {
          this.reset();
          for (const { endpoint, side, rate } of rates()) this.set({ endpoint, side }, rate);
        },
      });
    },
    watchConnections(count) {
      new Gauge({
        name: 'waybill_open_connections',
        help: 'Open connections of this process to endpoints',
        labelNames: ['endpoint', 'side'],
        registers,
        async collect() {
          this.reset();
          for (const { endpoint, side, open } of await count()) this.set({ endpoint, side }, open);
        },
      });
    },
  };
}

function createDelivererMetrics(registers: Registry[]): DelivererMetrics {
  const deliveries = new Counter({
    name: 'waybill_webhook_deliveries_total',
    help: 'Deliveries that this process ended, by outcome',
    labelNames: ['end'],
    registers,
  });
  for (const end of DELIVERY_ENDS) deliveries.inc({ end }, 0);
  const sent = new Histogram({
    name: 'waybill_webhook_attempt_duration_seconds',
    help: 'Time that receivers of webhooks took to answer, by outcome',
    labelNames: ['end'],
    buckets: DELIVERY_SECONDS,
    registers,
  });
  for (const end of DELIVERY_OUTCOMES) sent.zero({ end });

  return {
    attempted: (end, seconds) => sent.observe({ end }, seconds),
    ended: (end) => deliveries.inc({ end }),
  };
}

/** Adds the figures of flows. A flow that was never listed has no times. */
function watchFlows(sql: Sql, registers: Registry[]): void {
  let asked: Promise<FlowFigures[]> | null = null;
  /** A scrape collects the gauges side by side. They share one query. */
  function figures(): Promise<FlowFigures[]> {
    asked ??= flowFigures(sql).finally(() => {
      asked = null;
    });
    return asked;
  }
  function watch(name: string, help: string, read: (flow: FlowFigures) => number | null) {
    new Gauge({
      name,
      help,
      labelNames: ['flow', 'name'],
      registers,
      async collect() {
        const flows = await figures();
        this.reset();
        for (const flow of flows) {
          const value = read(flow);
          if (value !== null) this.set({ flow: flow.flow_id, name: flow.name }, value);
        }
      },
    });
  }

  new Gauge({
    name: 'waybill_flow_overdue_seconds',
    help: 'How long a run of a flow has been overdue',
    labelNames: ['flow', 'name'],
    registers,
    async collect() {
      const delays = await flowDelays(sql);
      this.reset();
      for (const { flow_id, name, seconds } of delays) this.set({ flow: flow_id, name }, seconds);
    },
  });
  watch(
    'waybill_flow_last_run_timestamp_seconds',
    'When the folder of a flow was last listed',
    (flow) => flow.last_run,
  );
  watch(
    'waybill_flow_last_success_timestamp_seconds',
    'When the folder of a flow was last listed without an error',
    (flow) => flow.last_success,
  );
  watch(
    'waybill_flow_waiting_files',
    'Files of a flow that were not ready when its folder was last listed',
    (flow) => flow.waiting,
  );
}

/** Adds when accepted host keys expire, and how many announced keys are not accepted. */
function watchHostKeys(sql: Sql, registers: Registry[]): void {
  new Gauge({
    name: 'waybill_host_key_expiry_timestamp_seconds',
    help: 'When an accepted host key of an endpoint expires',
    labelNames: ['endpoint', 'host_key'],
    registers,
    async collect() {
      this.reset();
      for (const { name: endpoint, settings } of await listEndpoints(sql)) {
        for (const { sha256, expires_at } of hasHostKey(settings) ? hostKeysOf(settings) : [])
          if (expires_at !== null)
            this.set({ endpoint, host_key: sha256 }, Date.parse(expires_at) / 1_000);
      }
    },
  });
  new Gauge({
    name: 'waybill_new_host_keys',
    help: 'Host keys that verified servers have announced and that are not accepted',
    registers,
    async collect() {
      const endpoints = await listEndpoints(sql);
      this.set(endpoints.reduce((sum, endpoint) => sum + newHostKeysOf(endpoint).length, 0));
    },
  });
}
