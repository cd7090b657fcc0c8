import type { Logger } from 'pino';
import { followedLog, requireEngine } from './adapters/event-store/engine-of-log.ts';
import { openLog } from './adapters/event-store/log-id.ts';
import { openStore, requireSettings } from './adapters/event-store/open-store.ts';
import { ownLog, requireOwnLog } from './adapters/event-store/own-logs.ts';
import type { EventStore } from './adapters/event-store/port.ts';
import { loadMasterKeys, type MasterKeys } from './adapters/master-key.ts';
import type { Sql, Transaction } from './adapters/postgres/connect.ts';
import { startEmbeddedPostgres } from './adapters/postgres/embedded/embedded.ts';
import { exclusively } from './adapters/postgres/exclusively.ts';
import { requireCluster, requireTables } from './adapters/postgres/existing-installation.ts';
import { createLocks, hasLockHolders, type Locks } from './adapters/postgres/locks.ts';
import { MigrationError, migrate, requireRestored } from './adapters/postgres/migrate.ts';
import { requireOwnSessions } from './adapters/postgres/own-sessions.ts';
import { closePools, createPools, type Pools } from './adapters/postgres/pools.ts';
import {
  createVault,
  forgetLostMasterKey,
  hasHadMasterKey,
  type Vault,
  verifyMasterKey,
} from './adapters/vault.ts';
import { objectionToWebhookUrl } from './adapters/webhooks/url.ts';
import type { CommandDeps } from './commands/deps.ts';
import type { Config } from './config.ts';
import { DomainError } from './domain/errors.ts';
import { LogChanged } from './domain/proof/log-changed.ts';
import { forgetShown } from './http/idempotency/table.ts';
import { dispatchConsumer } from './processes/dispatch/consumer.ts';
import { progressOf } from './processes/dispatch/job-table/figures.ts';
import { openTransfersOf } from './processes/dispatch/job-table/jobs.ts';
import { createQueue, type Queue } from './processes/dispatch/queue-estimate.ts';
import { type Membership, whileJoined } from './processes/log-copy/running-services.ts';
import { batchesUsing } from './projections/batches/batches-using.ts';
import { countWebhooks, listEndpoints } from './projections/catalog/queries.ts';
import { furthestLog } from './projections/checkpoint.ts';
import type { ConsumerDeps } from './projections/consumer.ts';
import { activeFlows, countFlows, shownFlow } from './projections/flows/queries.ts';
import { type OtherVersions, prepareReadModels } from './projections/read-models.ts';
import { catchUp } from './projections/until-caught-up.ts';
import { createProjectionWaiter, type ProjectionWaiter } from './projections/wait-for.ts';

/** The id of a log that was changed, if nothing tells its true one. */
const UNKNOWN_LOG = 'unknown';

/** How long the removal of an endpoint waits until the movers have read the log. */
const JOBS_WITHIN_MS = 5_000;

/** What closes the parts of an installation, in the order in which they were opened. */
type Closers = (() => Promise<unknown>)[];

/** An open installation, which the service and the operator's commands share. */
export interface Installation extends Pools {
  config: Config;
  logger: Logger;
  store: EventStore;
  /** Identifies this log among all logs. */
  logId: string;
  /** Why nothing else opens this log, for a reader with `opensChangedLog`. Null for a sound one. */
  changed: string | null;
  locks: Locks;
  membership: Membership;
  vault: Vault;
  /** What a new transfer would wait for. */
  queue: Queue;
  commands: CommandDeps;
  waiter: ProjectionWaiter;
  otherVersions: OtherVersions;
  /** Removes the positions of this log that tables of the API hold, when another one follows. */
  forgetPositions(tx: Transaction): Promise<void>;
  close(): Promise<void>;
}

export interface OpenOptions {
  /**
   * True for a reader that finds out what was changed. It also opens a log without its first event
   * or without the triggers that protect it, and must write nothing into one. It begins no log: a
   * new one would be consistent, and an interrupted restore could not be repeated. It reads an
   * EventStoreDB from any Postgres, also from an empty one.
   */
  opensChangedLog?: boolean;
  /**
   * False for a command that works on an installation which is there. It creates none: the user may
   * have meant one in another folder, or another database.
   */
  begins?: boolean;
  /** True for the command that takes over the log of another database. */
  adoptsLog?: boolean;
  /** True if the master key was lost: what it sealed is forgotten. */
  masterKeyIsLost?: boolean;
  /** Called with the URL of Postgres before the first statement. */
  onPostgres?(url: string): void;
}

/**
 * Starts or joins the embedded Postgres, or connects to the configured one. Migrates it, and opens
 * the vault and the log. Throws EmbeddedPostgresError, DatabaseUrlError, MigrationError,
 * MasterKeyError, EventStoreUnavailable, EventStoreUnusable, EventStoreSettingsError for a log of
 * another database too, LogChanged, `not_found` if it would have to begin an installation or a log
 * and must not, or the driver's error if Postgres is unreachable.
 */
export async function openInstallation(
  config: Config,
  logger: Logger,
  options: OpenOptions = {},
): Promise<Installation> {
  const closers: Closers = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  let changed: string | null = null;
  const noteChange = (error: unknown) => {
    const isChange = error instanceof LogChanged || error instanceof MigrationError;
    if (!options.opensChangedLog || !isChange) throw error;
    changed ??= error.message;
  };
  try {
    // Before anything starts: these settings name a file.
    await requireSettings(config);
    const { url, ...pools } = await openPostgres(config, logger, options, closers);
    const { sql, derived, patient } = pools;
    await requireRestored(sql).catch(noteChange);
    const vault = await openVault(config, sql, options);
    const membership: Membership = { lock: null };
    const store = await openJoined(config, sql, membership, closers);
    const logId = await findLog(store, sql, options, noteChange);
    const locks = createLocks(url);
    closers.push(() => locks.close());
    const otherVersions = await prepareReadModels(patient, logId);
    const following = { store, sql: derived, locks, logId, logger };
    const waiter = createProjectionWaiter(following);
    closers.push(() => waiter.close());
    const queue = createQueue(derived, store);
    const commands = commandDeps(config, { sql, vault, queue, waiter, following });
    return {
      config,
      logger,
      ...pools,
      store,
      logId,
      changed,
      locks,
      membership,
      vault,
      queue,
      commands,
      waiter,
      otherVersions,
      forgetPositions: forgetShown,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Opens the pools of the configured Postgres, or of the embedded one, and migrates it. */
async function openPostgres(
  config: Config,
  logger: Logger,
  { opensChangedLog = false, begins = !opensChangedLog, onPostgres }: OpenOptions,
  closers: Closers,
): Promise<Pools & { url: string }> {
  if (!begins) requireCluster(config);
  const url = config.databaseUrl ?? (await embedded(config, logger, closers));
  onPostgres?.(url);
  const pools = createPools(url);
  closers.push(() => closePools(pools));
  const { sql, patient } = pools;
  if (config.databaseUrl !== null) await requireOwnSessions(Object.values(pools));
  const needsTables = !opensChangedLog || config.eventStore === null;
  if (!begins && needsTables) await requireTables(config, sql);
  await migrate(patient);
  return { url, ...pools };
}

/** Opens the vault with the keys of the settings, or with those that replace a lost one. */
async function openVault(
  config: Config,
  sql: Sql,
  { masterKeyIsLost = false }: OpenOptions,
): Promise<Vault> {
  const keys = masterKeyIsLost
    ? await replaceLostKey(config, sql)
    : await masterKeysOf(config, () => hasHadMasterKey(sql));
  await verifyMasterKey({ sql, keys });
  return createVault({ sql, keys });
}

/** Opens the log. A service appends to one in an EventStoreDB only while it holds its lock. */
async function openJoined(
  config: Config,
  sql: Sql,
  membership: Membership,
  closers: Closers,
): Promise<EventStore> {
  const opened = await openStore(config, sql);
  const store = opened.engine === 'postgres' ? opened : whileJoined(opened, membership);
  closers.push(() => store.close());
  return store;
}

/**
 * Returns the id of the log, which it begins if there is none. Throws if it is not the log of this
 * database. `noteChange` throws the error of a log that was changed, unless a reader opens it.
 */
async function findLog(
  store: EventStore,
  sql: Sql,
  { opensChangedLog = false, begins = !opensChangedLog, adoptsLog = false }: OpenOptions,
  noteChange: (error: unknown) => void,
): Promise<string> {
  const followed = async () => followedLog(sql, await furthestLog(sql));
  // A log that is to be adopted exists. One that does not has another prefix, or is elsewhere.
  const mayBegin = begins && !(adoptsLog && store.engine !== 'postgres');
  const logId = await openLog(store, followed, {
    begins: mayBegin,
    beforeBegin: (id) => ownLog(sql, id),
  }).catch(async (error) => {
    noteChange(error);
    return (await followed())?.logId ?? UNKNOWN_LOG;
  });
  const mayBeAnothers = store.engine !== 'postgres' && !opensChangedLog;
  if (mayBeAnothers && !adoptsLog) await requireOwnLog(sql, logId);
  if (logId !== UNKNOWN_LOG) await requireEngine(sql, logId, store.engine);
  return logId;
}

/** Returns what commands need of the installation. */
function commandDeps(
  config: Config,
  parts: Pick<Installation, 'sql' | 'vault' | 'queue' | 'waiter'> & { following: ConsumerDeps },
): CommandDeps {
  const { sql, vault, queue, waiter, following } = parts;
  const { store, locks } = following;
  return {
    store,
    vault,
    endpoints: () => listEndpoints(sql),
    async openTransfersOf(endpointId) {
      // A client may have the answer to its creation before a mover has read that.
      if (!(await catchUp(following, dispatchConsumer, AbortSignal.timeout(JOBS_WITHIN_MS))))
        throw new DomainError(
          'unavailable',
          'The movers have not read the newest transfers yet, which may use the endpoint: repeat ' +
            'the request',
        );
      return openTransfersOf(sql, endpointId);
    },
    progressOf: (transferId) => progressOf(sql, transferId),
    queueEstimate: queue.estimate,
    countWebhooks: (accountId) => countWebhooks(sql, accountId),
    countFlows: (accountId) => countFlows(sql, accountId),
    activeFlows: () => activeFlows(sql),
    batchesUsing: async (endpointId) => batchesUsing(sql, endpointId, await listEndpoints(sql)),
    shownFlow: (flowId) => shownFlow(sql, flowId),
    objectionToWebhookUrl: (url) => objectionToWebhookUrl(url, config.webhookAllowCidrs),
    waitFor: waiter.waitFor,
    waitToRead: waiter.waitToRead,
    catchUp: waiter.catchUp,
    exclusively: (name, work) => exclusively(locks, name, work),
    maxOpenTransfers: config.maxOpenTransfers,
  };
}

async function embedded(config: Config, logger: Logger, closers: Closers): Promise<string> {
  const postgres = await startEmbeddedPostgres({ dataDir: config.dataDir, logger });
  closers.push(() => postgres.release());
  return postgres.url;
}

function masterKeysOf(
  { masterKey, databaseUrl, dataDir }: Config,
  hasHadOne: () => Promise<boolean>,
): Promise<MasterKeys> {
  return loadMasterKeys({
    setting: masterKey,
    dataDir: databaseUrl === null ? dataDir : null,
    hasHadOne,
  });
}

/** Returns the keys that replace a lost master key. Forgets what that key sealed. */
async function replaceLostKey(config: Config, sql: Sql): Promise<MasterKeys> {
  // A process that runs may have the key.
  if (await hasLockHolders(sql))
    throw new DomainError('unavailable', 'Stop every process of Waybill, then run this again');
  const keys = await masterKeysOf(config, async () => false);
  await forgetLostMasterKey({ sql, keys });
  return keys;
}
