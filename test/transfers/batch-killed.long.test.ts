import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { cancelBatch } from '../../src/commands/batches.ts';
import {
  createBatch,
  createFolderBatch,
  createRetryBatch,
  reserveBatch,
} from '../../src/commands/create-batch.ts';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import type { BatchCompleted, BatchListed } from '../../src/domain/batches/batch.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { CAUSE } from '../support/service/installation.ts';
import { type SpawnedService, spawnService, startDispatch } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import {
  describeTransfers,
  expireLeases,
  filesBelow,
  until,
  untilCleanedUp,
} from '../support/service/transfers.ts';

const FOLDERS = 20;
const FILES = 1_000;
const SECONDS = 600;

await describeTransfers(`a batch of ${FILES} whose processes are killed`, () => {
  const pair = useSftpPair({}, startDispatch);
  let services: SpawnedService[] = [];

  beforeAll(() => {
    for (let i = 0; i < FILES; i++) {
      const folder = join(pair.alpha.root, 'tree', String(i % FOLDERS));
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, `${i}.csv`), `file ${i}\n`);
    }
  });
  afterEach(kill);

  async function start(processes = 1): Promise<void> {
    const environment = { ...pair.installation.environment, WAYBILL_LOG_LEVEL: 'info' };
    services = await Promise.all(
      Array.from({ length: processes }, () => spawnService(environment)),
    );
  }
  async function kill(): Promise<void> {
    await Promise.all(services.map((service) => service.kill()));
    services = [];
    await expireLeases(pair.installation);
  }
  /** Runs a process until a condition holds, and kills it. */
  async function killWhen(what: string, condition: () => Promise<boolean>): Promise<void> {
    await start();
    await until(what, condition, SECONDS);
    await kill();
  }

  const eventsOf = (id: string) => pair.installation.store.read(streamName('batch', id));
  const hasEvent = async (id: string, type: string) =>
    (await eventsOf(id)).some((event) => event.type === type);
  async function created(id: string): Promise<number> {
    const [row] = await pair.installation.sql<[{ created: number }]>`
      select count(*)::integer as created from log.events
       where type = 'transfer.created' and data::json ->> 'batch_id' = ${id}`;
    return row.created;
  }
  async function count(id: string, ...statuses: string[]): Promise<number> {
    const [row] = await pair.installation.sql<[{ transfers: number }]>`
      select coalesce(sum(transfers), 0)::integer as transfers from read.batch_counts
       where batch_id = ${id} and status = any(${statuses})`;
    return row.transfers;
  }
  /** Counts the cancelled transfers of a batch that a mover had begun. */
  async function begunByLostMovers(id: string): Promise<number> {
    const [row] = await pair.installation.sql<[{ begun: number }]>`
      select count(*)::integer as begun
        from log.events created
        join log.events cancelled using (stream)
       where created.type = 'transfer.created' and created.data::json ->> 'batch_id' = ${id}
         and cancelled.type = 'transfer.cancelled'
         and exists (
           select from log.events lost
            where lost.stream = created.stream and lost.type = 'transfer.queued'
              and lost.data::json ->> 'reason' = 'mover_lost')`;
    return row.begun;
  }
  const ended = (id: string) => count(id, 'completed', 'failed', 'cancelled');

  async function ofFolder(destination: string): Promise<string> {
    const request = batchRequest.parse({
      source_uri: 'sftp://alpha/tree/',
      destination_uri: `sftp://beta/${destination}/`,
      recursive: true,
    });
    const { commands } = pair.installation;
    const reserved = reserveBatch();
    await createFolderBatch(commands, 'acc_default', request, CAUSE, reserved);
    return reserved.batchId;
  }

  /** Waits for the end. Expects that no item is lost or doubled. */
  async function endOf(id: string): Promise<BatchCompleted> {
    await until('the batch ends', () => hasEvent(id, 'batch.completed'), SECONDS);
    const events = await eventsOf(id);
    for (const type of ['batch.created', 'batch.completed'])
      expect(events.filter((event) => event.type === type)).toHaveLength(1);
    const sources = events
      .filter(({ type }) => type === 'batch.listed')
      .flatMap(({ data }) => (data as BatchListed).items.map(({ source_uri }) => source_uri));
    expect(new Set(sources).size).toBe(sources.length);
    expect(await created(id)).toBe(sources.length);
    await until('the read model shows all', async () => (await ended(id)) === sources.length);
    await untilCleanedUp(pair.installation);
    return events.at(-1)?.data as BatchCompleted;
  }

  test('while it is listed, created, moved and finished: moves each file once', async () => {
    const id = await ofFolder('moved');
    pair.source.delay(100);
    await killWhen('a page is recorded', () => hasEvent(id, 'batch.listed'));
    expect(await hasEvent(id, 'batch.opened')).toBe(false);
    pair.source.delay(0);
    await killWhen('some transfers are created', async () => (await created(id)) > 50);
    await killWhen('it is open', () => hasEvent(id, 'batch.opened'));
    await killWhen('a part is moved', async () => (await ended(id)) > FILES / 3);
    await killWhen('most is moved', async () => (await ended(id)) > FILES - 20);
    await start(2);
    expect(await endOf(id)).toMatchObject({
      status: 'completed',
      counts: { items: FILES, completed: FILES, failed: 0, cancelled: 0 },
    });
    expect(await filesBelow(join(pair.beta.root, 'moved'))).toHaveLength(FILES);
  });

  test('while it is cancelled: each item has ended, and what arrived is counted', async () => {
    const id = await ofFolder('cancelled');
    await killWhen('a part is moved', async () => (await ended(id)) > 50);
    await cancelBatch(pair.installation.commands, 'acc_default', id, CAUSE);
    await killWhen('some are cancelled', async () => (await count(id, 'cancelled')) > 0);
    await start(2);
    const { status, counts } = await endOf(id);
    expect(status).toBe('cancelled');
    expect(counts.completed + counts.cancelled).toBe(counts.items);
    const files = await filesBelow(join(pair.beta.root, 'cancelled'));
    // A mover may have been killed after it had published a file and before the log had its end.
    const begun = await begunByLostMovers(id);
    expect(files.length).toBeGreaterThanOrEqual(counts.completed);
    expect(files.length).toBeLessThanOrEqual(counts.completed + begun);
  });

  test('while its failed transfers are retried: each is retried once', async () => {
    const { commands } = pair.installation;
    const request = batchRequest.parse({
      items: Array.from({ length: FILES }, (_, i) => ({
        source_uri: `sftp://alpha/late/${i}.csv`,
        destination_uri: 'sftp://beta/late/',
      })),
    });
    const reserved = reserveBatch();
    await createBatch(commands, 'acc_default', request, CAUSE, reserved, false);
    await start();
    const { counts } = await endOf(reserved.batchId);
    expect(counts).toMatchObject({ failed: FILES });
    await kill();

    mkdirSync(join(pair.alpha.root, 'late'));
    for (let i = 0; i < FILES; i++)
      writeFileSync(join(pair.alpha.root, 'late', `${i}.csv`), `late ${i}\n`);
    const retry = reserveBatch();
    await createRetryBatch(commands, 'acc_default', reserved.batchId, CAUSE, retry);
    const id = retry.batchId;
    await killWhen('a page is recorded', () => hasEvent(id, 'batch.listed'));
    await killWhen('some transfers are created', async () => (await created(id)) > 50);
    await killWhen('a part is moved', async () => (await ended(id)) > FILES / 3);
    await start(2);
    expect(await endOf(id)).toMatchObject({
      status: 'completed',
      counts: { items: FILES, completed: FILES, failed: 0, cancelled: 0 },
    });
    expect(await filesBelow(join(pair.beta.root, 'late'))).toHaveLength(FILES);
  });
});
