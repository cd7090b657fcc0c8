import type { Logger } from 'pino';
import { openLog } from './adapters/event-store/log-id.ts';
import type { EventStore } from './adapters/event-store/port.ts';
import { createPostgresLog } from './adapters/event-store/postgres-log.ts';
import { loadMasterKeys } from './adapters/master-key.ts';
import { connect, type Sql } from './adapters/postgres/connect.ts';
import { startEmbeddedPostgres } from './adapters/postgres/embedded.ts';
import { createLocks, type Locks } from './adapters/postgres/locks.ts';
import { migrate } from './adapters/postgres/migrate.ts';
import { createVault, type Vault, verifyMasterKey } from './adapters/vault.ts';
import { objectionTo } from './adapters/webhooks/url.ts';
import type { CommandDeps, ProjectionName } from './commands/deps.ts';
import type { Config } from './config.ts';
import { DomainError } from './domain/errors.ts';
import { dispatchConsumer, openTransfersOf } from './processes/jobs.ts';
import { createOutlook } from './processes/outlook.ts';
import { countWebhooks, listEndpoints } from './projections/catalog-queries.ts';
import { catchUpIfIdle } from './projections/consumer.ts';
import { prepareReadModels } from './projections/read-models.ts';
import { createProjectionWaiter, type ProjectionWaiter } from './projections/wait-for.ts';

/**
 * Tables begin empty, and the best plan for an empty one is to read all of it: kept by a prepared statement it gets
 * slower with every row. Postgres before 18 takes what has no index then for so dear that it would compile it.
 */
const INDEXED = { enable_seqscan: 'off', jit: 'off' };
/** Commits are on disk a moment later. What is sent again and again is planned once, for however many rows. */
const DERIVED = { ...INDEXED, synchronous_commit: 'off', plan_cache_mode: 'force_generic_plan' };

const LOCK_WITHIN_MS = 10_000;

/** One installation, opened: what the service and the operator's commands share. */
export interface Installation {
  config: Config;
  logger: Logger;
  /** Every commit is on disk before it is answered. */
  sql: Sql;
  /** Commits are on disk a moment later: for tables that follow the log, together with how far they have come. */
  derived: Sql;
  store: EventStore;
  /** Tells this log from every other one. */
  logId: string;
  locks: Locks;
  vault: Vault;
  commands: CommandDeps;
  waiter: ProjectionWaiter;
  /** Projections whose tables an older version has made. */
  outdated: ProjectionName[];
  close(): Promise<void>;
}

/**
 * Starts or joins the embedded Postgres (or dials the one that is configured), migrates it, and opens
 * vault and log. Throws EmbeddedPostgresError, MigrationError, MasterKeyError, EventStoreUnavailable,
 * or the driver's error where Postgres can't be reached.
 */
export async function openInstallation(config: Config, logger: Logger): Promise<Installation> {
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const url = config.databaseUrl ?? (await embedded(config, logger, closers));
    const sql = connect(url, { max: 20, settings: INDEXED });
    closers.push(() => sql.end({ timeout: 5 }));
    const derived = connect(url, { max: 20, settings: DERIVED });
    closers.push(() => derived.end({ timeout: 5 }));
    await migrate(sql);
    const keys = await loadMasterKeys({ setting: config.masterKey, dataDir: config.databaseUrl === null ? config.dataDir : null });
    await verifyMasterKey({ sql, keys });
    const vault = createVault({ sql, keys });

    const store = await openStore(config, sql);
    closers.push(() => store.close());
    const logId = await openLog(store);
    const locks = createLocks(url);
    closers.push(() => locks.close());
    const outdated = await prepareReadModels(sql, logId);
    const following = { store, sql: derived, locks, logId, logger };
    const waiter = createProjectionWaiter(following);
    closers.push(() => waiter.close());

    const commands: CommandDeps = {
      store,
      vault,
      endpoints: () => listEndpoints(sql),
      async openTransfersOf(endpointId) {
        // Where no mover runs, nobody else has brought the to-do rows up to date.
        await catchUpIfIdle(following, dispatchConsumer);
        return openTransfersOf(sql, endpointId);
      },
      outlook: createOutlook(derived),
      countWebhooks: (accountId) => countWebhooks(sql, accountId),
      objectionToWebhookUrl: (url) => objectionTo(url, config.webhookAllowCidrs),
      waitFor: waiter.waitFor,
      exclusively: (name, work) => exclusively(locks, name, work),
      maxOpenTransfers: config.maxOpenTransfers,
    };
    return { config, logger, sql, derived, store, logId, locks, vault, commands, waiter, outdated, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function embedded(config: Config, logger: Logger, closers: (() => Promise<unknown>)[]): Promise<string> {
  const postgres = await startEmbeddedPostgres({ dataDir: config.dataDir, logger });
  closers.push(() => postgres.release());
  return postgres.url;
}

async function openStore(config: Config, sql: Sql): Promise<EventStore> {
  const prefix = config.streamPrefix;
  if (config.eventStoreUrl === null) return createPostgresLog({ sql, prefix });
  // Loaded only where it is used: it takes a tenth of a second of every command.
  const { createEventStoreDb } = await import('./adapters/event-store/eventstoredb.ts');
  return createEventStoreDb({ url: config.eventStoreUrl, prefix });
}

async function exclusively<T>(locks: Locks, name: string, work: () => Promise<T>): Promise<T> {
  const held = await locks.acquire(name, AbortSignal.timeout(LOCK_WITHIN_MS)).catch((error: unknown) => {
    throw new DomainError('unavailable', 'Somebody else is changing the same thing; try again in a moment', {}, { cause: error });
  });
  try {
    return await work();
  } finally {
    await held.release();
  }
}
