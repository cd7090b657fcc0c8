import type { EventStore } from './adapters/event-store/port.ts';
import type { Sql } from './adapters/postgres/connect.ts';
import { tryToWrite } from './adapters/postgres/sql-functions.ts';
import { isReadOnlySession } from './adapters/postgres/unavailable.ts';
import { withTimeout } from './concurrency/with-timeout.ts';
import type { SignerStatus } from './processes/proof/signer.ts';
import type { SinkStatus } from './processes/proof/sinks.ts';
import type { ConsumerStatus } from './projections/consumer.ts';
import type { ProjectionWaiter } from './projections/wait-for.ts';

const ANSWER_WITHIN_MS = 2_000;
/**
 * After a `waitFor` times out, readiness stays red for this long or until the read model catches
 * up. After an append finds no room, for this long or until one succeeds: without requests, nothing
 * else would find out that there is room.
 */
const RED_FOR_MS = 30_000;

export interface Check {
  ok: boolean;
  detail: string;
}

export interface Health {
  ready(): Promise<{ ready: boolean; checks: Record<string, Check> }>;
  /** Returns the function by which a consumer of the log in this process reports its status. */
  report(consumer: string): (status: ConsumerStatus | SignerStatus | SinkStatus) => void;
}

/** Creates the readiness checks of this process. Their texts contain no address and no secret. */
export function createHealth({
  sql,
  store,
  waiter,
  lacking = () => null,
}: {
  sql: Sql;
  store: EventStore;
  waiter: ProjectionWaiter;
  /** Returns what this process lacks to open files and connections; null for nothing. */
  lacking?: () => string | null;
}): Health {
  const consumers = new Map<string, ConsumerStatus | SignerStatus | SinkStatus>();

  /** The checks under way. No key is needed to ask, so a flood of requests must share them. */
  let checking: ReturnType<typeof check> | null = null;

  async function check() {
    const detail = lacking();
    const checks: Record<string, Check> = {
      ...(detail !== null && { open_files: { ok: false, detail } }),
      database: await takesWrites(sql),
      event_store: isRecent(store.fullSince?.() ?? null)
        ? { ok: false, detail: 'has no room on its disk; nothing can be appended' }
        : await answers(store.head()),
      read_models: readModels(waiter.lateSince()),
    };
    for (const [name, status] of consumers) checks[name] = ofConsumer(status);
    return { ready: Object.values(checks).every(({ ok }) => ok), checks };
  }

  return {
    ready() {
      checking ??= check().finally(() => {
        checking = null;
      });
      return checking;
    },
    report: (consumer) => (status) => {
      consumers.set(consumer, status);
    },
  };
}

function ofConsumer(status: ConsumerStatus | SignerStatus | SinkStatus): Check {
  switch (status.state) {
    case 'stand_by':
      return { ok: true, detail: 'standing by for another process' };
    case 'active':
      return { ok: true, detail: `active at position ${status.position}` };
    case 'rebuilding':
      return { ok: true, detail: rebuilding(status.share) };
    case 'left_to_newer':
      return { ok: true, detail: "a newer version's tables; that version follows the log" };
    case 'signing':
      return { ok: true, detail: signed(status.size) };
    case 'keeping':
      return { ok: true, detail: kept(status) };
    case 'failed':
      return { ok: false, detail: status.error };
  }
}

function signed(size: number | null): string {
  return size === null ? 'no checkpoint yet' : `the last checkpoint covers ${size} events`;
}

/**
 * A sink never turns readiness red: no request needs it. The log of the service says what fails.
 */
function kept({ size, failing }: SinkStatus): string {
  const has = size === null ? 'no checkpoint kept yet' : `keeps the checkpoint over ${size} events`;
  if (failing === 'refuses')
    return (
      `${has}; it has one that this log does not have: an older copy of the log was restored, or ` +
      'the log was changed. See "A restored older log" in docs/operators.md'
    );
  return failing === 'no' ? has : `${has}; it does not take the last one, and is asked again`;
}

function rebuilding(share: number | null): string {
  const what = "an older version's tables are being rebuilt";
  return share === null
    ? `${what} by another process`
    : `${what}: ${Math.floor(share * 100)} % of the log is read`;
}

function readModels(lateSince: number | null): Check {
  return isRecent(lateSince)
    ? { ok: false, detail: 'the read models lag behind the log' }
    : { ok: true, detail: 'up to date' };
}

function isRecent(at: number | null): boolean {
  return at !== null && performance.now() - at < RED_FOR_MS;
}

/**
 * A standby answers too, and so does a server that an administrator lets no one write to. The
 * statement writes nothing. In place of a session that may not write, the next look gets a new one.
 */
async function takesWrites(sql: Sql): Promise<Check> {
  let isReadOnly = false;
  const tried = tryToWrite(sql).catch((error: unknown) => {
    isReadOnly = isReadOnlySession(error);
    throw error;
  });
  const answered = await answers(tried);
  return isReadOnly ? { ok: false, detail: 'is read-only; nothing can be written' } : answered;
}

async function answers(question: PromiseLike<unknown>): Promise<Check> {
  try {
    await withTimeout(ANSWER_WITHIN_MS, question, Error);
    return { ok: true, detail: 'answers' };
  } catch {
    return { ok: false, detail: 'does not answer' };
  }
}
