import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { changeBatch } from '../../../src/commands/batches.ts';
import {
  createBatch,
  createRetryBatch,
  type ReservedBatch,
  reserveBatch,
} from '../../../src/commands/create-batch.ts';
import type { CommandDeps } from '../../../src/commands/deps.ts';
import {
  cancelTransfer,
  endAttempt,
  type Outcome,
  startTransfer,
} from '../../../src/commands/transfers.ts';
import { batchRequest } from '../../../src/contract/batches/requests.ts';
import type { BatchItem, BatchListed } from '../../../src/domain/batches/batch.ts';
import { transferIdOf } from '../../../src/domain/batches/items.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import { newId } from '../../../src/domain/ids.ts';
import { runBatches } from '../../../src/processes/batches/manager.ts';
import { runRetention } from '../../../src/processes/retention/run-retention.ts';
import {
  forgetReadModels,
  PROJECTIONS,
  prepareReadModels,
  projectionConsumer,
} from '../../../src/projections/read-models.ts';
import { createRemovedLeaves } from '../../../src/projections/retention/removed-leaves.ts';
import { runConsumer } from '../../../src/projections/run-consumer.ts';
import { prepareBatch } from '../../../src/projections/save-batch.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';

vi.setConfig({ testTimeout: 60_000 });

describeWithPostgres('the process manager of batches', () => {
  let installation: TestInstallation;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-batches-'));
    installation = await openTestInstallation();
    await configureEndpoint(installation, {
      name: 'files',
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'me',
      password: 'secret-1',
    });
  });
  afterAll(async () => {
    await installation?.close();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  const eventsOf = ({ batchId }: ReservedBatch) =>
    installation.store.read(streamName('batch', batchId));

  const isListed = ({ type }: StoredEvent) => type === 'batch.listed';

  /** Creates a batch of files, whose request was a minute ago. */
  async function create(
    commands: CommandDeps,
    names = ['a'],
    accountId = 'acc_default',
  ): Promise<ReservedBatch> {
    const reserved = { ...reserveBatch(), now: new Date(Date.now() - 60_000).toISOString() };
    const request = batchRequest.parse({
      items: names.map((name) => ({
        source_uri: `sftp://files/${name}`,
        destination_uri: 'sftp://files/b/',
      })),
    });
    await createBatch(commands, accountId, request, CAUSE, reserved, false).catch(
      (error: unknown) => {
        if (!(error instanceof EventStoreUnavailable)) throw error;
      },
    );
    return reserved;
  }

  /** The request for the batch ends before it creates a transfer. */
  function createInterrupted(accountId: string): Promise<ReservedBatch> {
    const { commands, store } = installation;
    const append: EventStore['append'] = async (stream, ...given) => {
      if (stream.startsWith('transfer-')) throw new EventStoreUnavailable('gone');
      return store.append(stream, ...given);
    };
    return create({ ...commands, store: { ...store, append } }, ['a'], accountId);
  }

  test('creates no transfer again that left the log, while the read models are filled', async () => {
    const { commands, store, sql, logId } = installation;
    const other = await createInterrupted('acc_default');
    const old = await create(commands);
    const transferId = transferIdOf(old.batchId, 0);
    await cancelTransfer(commands, transferId, CAUSE);
    const ended = { completed: 0, failed: 0, cancelled: 1 };
    const now = new Date().toISOString();
    await changeBatch(commands, old.batchId, { type: 'complete', ended, bytes: 0, now }, CAUSE);
    const choice = { endedBefore: new Date(Date.now() + 60_000), accountId: null, folder };
    const onExport = async () => undefined;
    expect(await runRetention(installation, { ...choice, onExport }, CAUSE)).toMatchObject({
      transfers: 1,
      completed: true,
    });

    await forgetReadModels(sql);
    await prepareReadModels(sql, logId);
    await commands.catchUp('catalog');
    // The consumer of the new tables has come as far as the list of the old batch.
    const events = [...(await eventsOf(other)), ...(await eventsOf(old)).slice(0, 2)];
    const { position } = events.at(-1) as StoredEvent;
    const consumer = projectionConsumer(PROJECTIONS.batches);
    await (
      await prepareBatch(sql, consumer, events, createRemovedLeaves(store, null), {
        from: 0n,
        to: position,
      })
    ).save();

    const stopping = new AbortController();
    const running = runBatches(installation, stopping.signal);
    await until('the other batch is open', async () =>
      (await eventsOf(other)).some(({ type }) => type === 'batch.opened'),
    );
    stopping.abort();
    await running;
    expect(await store.read(streamName('transfer', transferId))).toEqual([]);
  });

  test('rejects no item for an endpoint that the catalog does not show yet', async () => {
    const { commands, sql, logId } = installation;
    await commands.catchUp('catalog');
    const { batchId } = await create(commands, ['one', 'two']);
    const failed = [0, 1].map((place) => transferIdOf(batchId, place));
    for (const transferId of failed) await fail(transferId);
    const retry = reserveBatch();
    await createRetryBatch(commands, 'acc_default', batchId, CAUSE, retry);
    await forgetReadModels(sql);
    await prepareReadModels(sql, logId);
    await commands.catchUp('transfers');
    await commands.catchUp('batches');

    const stopping = new AbortController();
    const log = vi.spyOn(installation.logger, 'info');
    const running = [runBatches(installation, stopping.signal)];
    const isListed = async () => (await eventsOf(retry)).length > 1;
    await until('it waits', async () => log.mock.calls.length > 0 || (await isListed()));
    const catalog = projectionConsumer(PROJECTIONS.catalog);
    running.push(runConsumer(installation, catalog, stopping.signal, () => undefined));
    const page = await until('the new batch is listed', async () =>
      (await eventsOf(retry)).find(({ type }) => type === 'batch.listed'),
    );
    stopping.abort();
    await Promise.all(running);
    const { items } = page.data as BatchListed;
    expect(items.map((item) => 'retry_of' in item && item.retry_of)).toEqual(failed);
  });

  describe('continues a retry that was interrupted', () => {
    const accountId = 'acc_retry';
    let batch: ReservedBatch;
    let failed: string[];
    let retry: ReservedBatch;
    /** When the first transfer had failed, and no other. */
    let between: Date;
    beforeEach(async () => {
      const { commands } = installation;
      batch = await create(commands, ['one', 'two', 'three'], accountId);
      failed = [0, 1, 2].map((place) => transferIdOf(batch.batchId, place));
      const [first, ...others] = failed as [string, ...string[]];
      await fail(first);
      await sleep(5);
      between = new Date();
      for (const other of others) await fail(other);
      retry = reserveBatch();
      await createRetryBatch(commands, accountId, batch.batchId, CAUSE, retry);
      // What the interrupted listing has recorded.
      const { data } = (await eventsOf(batch)).find(isListed) as StoredEvent;
      const [item] = (data as BatchListed).items as [BatchItem];
      const items = [{ ...item, retry_of: first }];
      const page = { ...(data as BatchListed), items, through: first, last: false };
      await changeBatch(commands, retry.batchId, { type: 'list', page }, CAUSE);
    });

    /** Runs the manager until the retry is open. Returns the transfers that it repeats. */
    async function retried(): Promise<unknown[]> {
      const { commands } = installation;
      for (const name of ['catalog', 'transfers', 'batches'] as const) await commands.catchUp(name);
      const stopping = new AbortController();
      const running = runBatches(installation, stopping.signal);
      await until('the retry is open', async () =>
        (await eventsOf(retry)).some(({ type }) => type === 'batch.opened'),
      );
      stopping.abort();
      await running;
      const pages = (await eventsOf(retry)).filter(isListed).map(({ data }) => data as BatchListed);
      return pages.flatMap(({ items }) => items.map((item) => 'retry_of' in item && item.retry_of));
    }

    test('after a transfer that has left the log', async () => {
      const { commands } = installation;
      const ended = { completed: 0, failed: 3, cancelled: 0 };
      const now = new Date().toISOString();
      await changeBatch(commands, batch.batchId, { type: 'complete', ended, bytes: 0, now }, CAUSE);
      const onExport = async () => undefined;
      const choice = { endedBefore: between, accountId, folder, onExport };
      expect(await runRetention(installation, choice, CAUSE)).toMatchObject({
        transfers: 1,
        completed: true,
      });
      expect(await retried()).toEqual(failed);
    });

    test('if the clock stepped back while the transfers were created', async () => {
      await installation.commands.catchUp('transfers');
      await installation.sql`
        update read.transfers set created_at = created_at - interval '1 hour'
         where transfer_id = ${failed[2] as string}`;
      expect(await retried()).toEqual(failed);
    });
  });

  test('an account without room holds up no other, and no cancelled batch', async () => {
    const { commands } = installation;
    const { batchId } = await create(commands, ['failed', 'open'], 'acc_full');
    await fail(transferIdOf(batchId, 0));
    // As many as are created at a time.
    for (let batch = 0; batch < 8; batch++)
      await createRetryBatch(commands, 'acc_full', batchId, CAUSE, reserveBatch());
    const other = await createInterrupted('acc_other');
    const cancelled = await createInterrupted('acc_full');
    await changeBatch(
      commands,
      cancelled.batchId,
      { type: 'cancel', now: new Date().toISOString() },
      CAUSE,
    );
    await commands.catchUp('transfers');
    await commands.catchUp('batches');

    const stopping = new AbortController();
    const deps = { ...installation, commands: { ...commands, maxOpenTransfers: 1 } };
    const running = runBatches(deps, stopping.signal);
    await until(
      'the batch of the other account is open',
      async () => (await eventsOf(other)).some(({ type }) => type === 'batch.opened'),
      20,
    );
    const transfer = streamName('transfer', transferIdOf(cancelled.batchId, 0));
    await until(
      'the transfer of the cancelled batch is cancelled',
      async () => (await installation.store.read(transfer)).at(-1)?.type === 'transfer.cancelled',
      20,
    );
    stopping.abort();
    await running;
  });

  test('two accounts with many batches hold up no other', async () => {
    const { commands, store } = installation;
    const many = ['acc_many', 'acc_more'];
    for (const account of many)
      for (let batch = 0; batch < 8; batch++) await createInterrupted(account);
    const other = await createInterrupted('acc_late');
    await commands.catchUp('transfers');
    await commands.catchUp('batches');

    const stopping = new AbortController();
    const stopped = new Promise((resolve) => stopping.signal.addEventListener('abort', resolve));
    // Their transfers take as long as the test.
    const append: EventStore['append'] = async (stream, expected, events) => {
      const account = events[0]?.metadata.account_id ?? '';
      if (stream.startsWith('transfer-') && many.includes(account)) await stopped;
      return store.append(stream, expected, events);
    };
    const slow = { ...commands, store: { ...store, append }, maxOpenTransfers: 1 };
    const running = runBatches({ ...installation, commands: slow }, stopping.signal);
    await until(
      'the batch of the other account is open',
      async () => (await eventsOf(other)).some(({ type }) => type === 'batch.opened'),
      20,
    );
    stopping.abort();
    await running;
  });

  async function fail(transferId: string): Promise<void> {
    const { commands } = installation;
    const claimId = newId('clm');
    await startTransfer(commands, transferId, { claimId, source: null, destination: null }, CAUSE);
    const failure = { code: 'permission_denied', message: 'no', phase: 'source_open' } as const;
    const figures = { transferred_bytes: 0, size_bytes: null, speed_bps: null };
    const outcome: Outcome = { type: 'failed', failure, figures, retryDelays: [] };
    await endAttempt(commands, transferId, claimId, outcome, CAUSE);
  }
});
