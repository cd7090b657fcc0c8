import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { EventStore } from './adapters/event-store/port.ts';
import type { Sql } from './adapters/postgres/connect.ts';
import type { AttemptEnd } from './processes/mover/attempt.ts';
import type { MoverMetrics } from './processes/mover/mover.ts';
import type { DelivererMetrics } from './processes/webhooks/deliverer.ts';
import { listCheckpoints } from './projections/checkpoint.ts';

const ATTEMPT_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400];
const DELIVERY_SECONDS = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const QUEUE_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600];

export interface Metrics {
  registry: Registry;
  mover: MoverMetrics;
  deliverer: DelivererMetrics;
}

/** What Prometheus is told: of this process what it did, of the installation how it stands when it is asked. */
export function createMetrics({ sql, store }: { sql: Sql; store: EventStore }): Metrics {
  const registry = new Registry();
  const registers = [registry];

  new Gauge({
    name: 'waybill_transfers',
    help: 'Transfers of the installation, by status',
    labelNames: ['status'],
    registers,
    async collect() {
      const rows = await sql<{ status: string; transfers: bigint }[]>`select status, transfers from read.transfer_totals`;
      for (const { status, transfers } of rows) this.set({ status }, Number(transfers));
    },
  });
  new Gauge({
    name: 'waybill_queue_depth',
    help: 'Transfers that are due and wait for a mover',
    registers,
    async collect() {
      const [row] = await sql<{ waiting: number }[]>`
        select count(*)::integer as waiting from work.transfer_jobs where claim_id is null and due_at <= now()`;
      this.set(row?.waiting ?? 0);
    },
  });
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

  const bytes = new Counter({ name: 'waybill_moved_bytes_total', help: 'Bytes that destinations have acknowledged', registers });
  const attempts = new Histogram({
    name: 'waybill_attempt_duration_seconds',
    help: 'How long attempts took, by how they ended',
    labelNames: ['end'],
    buckets: ATTEMPT_SECONDS,
    registers,
  });
  const queued = new Histogram({
    name: 'waybill_queue_duration_seconds',
    help: 'How long transfers waited for a mover after they were due',
    buckets: QUEUE_SECONDS,
    registers,
  });
  const lost = new Counter({ name: 'waybill_leases_lost_total', help: 'Claims that this process has lost to another', registers });

  new Gauge({
    name: 'waybill_webhook_backlog',
    help: 'Deliveries that are due and have not arrived, without those of disabled webhooks',
    registers,
    async collect() {
      const [row] = await sql<{ waiting: number }[]>`
        select count(*)::integer as waiting from work.deliveries d join work.outbox_webhooks w using (webhook_id)
         where d.status = 'pending' and d.due_at <= now() and w.live`;
      this.set(row?.waiting ?? 0);
    },
  });
  const deliveries = new Counter({
    name: 'waybill_webhook_deliveries_total',
    help: 'Deliveries that this process has brought to an end, by how',
    labelNames: ['end'],
    registers,
  });
  const sent = new Histogram({
    name: 'waybill_webhook_attempt_duration_seconds',
    help: 'How long receivers of webhooks took to answer, by how it ended',
    labelNames: ['end'],
    buckets: DELIVERY_SECONDS,
    registers,
  });

  return {
    registry,
    deliverer: {
      attempted: (end, seconds) => sent.observe({ end }, seconds),
      ended: (end) => deliveries.inc({ end }),
    },
    mover: {
      moved: (count) => bytes.inc(count),
      claimed: (waitedSeconds) => queued.observe(waitedSeconds),
      ended(end: AttemptEnd, seconds) {
        attempts.observe({ end }, seconds);
        if (end === 'lease_lost') lost.inc();
      },
      watchConnections(count) {
        new Gauge({
          name: 'waybill_open_connections',
          help: 'Connections to endpoints that this process has open',
          labelNames: ['endpoint', 'side'],
          registers,
          async collect() {
            this.reset();
            for (const { endpoint, side, open } of await count()) this.set({ endpoint, side }, open);
          },
        });
      },
    },
  };
}
