import type { EventStore } from './adapters/event-store/port.ts';
import type { Sql } from './adapters/postgres/connect.ts';
import type { ConsumerStatus } from './projections/consumer.ts';
import type { ProjectionWaiter } from './projections/wait-for.ts';
import { within } from './within.ts';

const ANSWER_WITHIN_MS = 2_000;
/** A read model that kept a caller waiting in vain is held against us for so long, or until it has caught up. */
const LATE_FOR_MS = 30_000;

export interface Check {
  ok: boolean;
  detail: string;
}

export interface Health {
  ready(): Promise<{ ready: boolean; checks: Record<string, Check> }>;
  /** What a consumer of the log in this process says of itself. */
  report(consumer: string): (status: ConsumerStatus) => void;
}

/** Knows whether this process can do its work. Its words hold no address and no secret. */
export function createHealth({ sql, store, waiter }: { sql: Sql; store: EventStore; waiter: ProjectionWaiter }): Health {
  const consumers = new Map<string, ConsumerStatus>();

  async function ready() {
    const checks: Record<string, Check> = {
      database: await answers(sql`select 1`),
      event_store: await answers(store.head()),
      read_models: readModels(waiter.lateSince()),
    };
    for (const [name, status] of consumers) checks[name] = ofConsumer(status);
    return { ready: Object.values(checks).every(({ ok }) => ok), checks };
  }

  return {
    ready,
    report: (consumer) => (status) => {
      consumers.set(consumer, status);
    },
  };
}

function ofConsumer(status: ConsumerStatus): Check {
  switch (status.state) {
    case 'stand_by':
      return { ok: true, detail: 'standing by for another process' };
    case 'active':
      return { ok: true, detail: `active at position ${status.position}` };
    case 'failed':
      return { ok: false, detail: status.error };
  }
}

function readModels(lateSince: number | null): Check {
  const late = lateSince !== null && Date.now() - lateSince < LATE_FOR_MS;
  return late ? { ok: false, detail: 'the read models lag behind what was written' } : { ok: true, detail: 'up to date' };
}

async function answers(question: PromiseLike<unknown>): Promise<Check> {
  try {
    await within(ANSWER_WITHIN_MS, question, Error);
    return { ok: true, detail: 'answers' };
  } catch {
    return { ok: false, detail: 'does not answer' };
  }
}
