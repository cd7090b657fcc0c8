import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { changeBatch, createTransfers } from '../../src/commands/batches.ts';
import { createBatch, createRetryBatch, reserveBatch } from '../../src/commands/create-batch.ts';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import type { Batch } from '../../src/domain/batches/batch.ts';
import { createPager } from '../../src/domain/batches/items.ts';
import type { Event } from '../../src/domain/events/event.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE } from '../support/service/installation.ts';
import { type SpawnedService, spawnMover, startDispatch } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import {
  describeTransfers,
  expireLeases,
  sha256Of,
  until,
  untilCleanedUp,
} from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const FILES = 40;

await describeTransfers('a batch', () => {
  const pair = useSftpPair({}, startDispatch);
  let services: SpawnedService[] = [];

  beforeAll(() => {
    for (let i = 0; i < FILES; i++) pair.create(`${i}.bin`, 1_000 + i);
  });
  afterEach(async () => {
    await Promise.all(services.map((service) => service.kill()));
    services = [];
  });

  async function start(): Promise<SpawnedService> {
    const service = await spawnMover(pair.installation.environment);
    services.push(service);
    return service;
  }

  /** A request for all files, and for one that does not exist. */
  const requestFor = (folder: string) =>
    batchRequest.parse({
      items: Array.from({ length: FILES + 1 }, (_, i) => ({
        source_uri: `sftp://alpha/${i}.bin`,
        destination_uri: `sftp://beta/${folder}/`,
      })),
    });

  const eventsOf = (id: string) => pair.installation.store.read(streamName('batch', id));
  const typesOf = async (id: string) => (await eventsOf(id)).map(({ type }) => type);

  async function untilCompleted(id: string): Promise<Event> {
    await until('the batch completes', async () => (await typesOf(id)).includes('batch.completed'));
    return (await eventsOf(id)).at(-1) as Event;
  }

  async function expectAll(id: string, folder: string): Promise<void> {
    expect(await untilCompleted(id)).toMatchObject({
      type: 'batch.completed',
      data: {
        status: 'completed_with_failures',
        counts: { items: FILES + 1, completed: FILES, failed: 1, cancelled: 0 },
        bytes: FILES * 1_000 + (FILES * (FILES - 1)) / 2,
      },
    });
    const types = await typesOf(id);
    for (const once of ['batch.created', 'batch.opened', 'batch.completed'])
      expect(types.filter((type) => type === once)).toHaveLength(1);
    const [row] = await pair.installation.sql<[{ transfers: number; created: number }]>`
      select count(*)::integer as transfers,
             (select count(*)::integer from log.events
               where type = 'transfer.created' and data::json ->> 'batch_id' = ${id}) as created
        from read.transfers where state -> 'facts' ->> 'batch_id' = ${id}`;
    expect(row).toEqual({ transfers: FILES + 1, created: FILES + 1 });
    await untilCleanedUp(pair.installation);
    expect(readdirSync(join(pair.beta.root, folder))).toHaveLength(FILES);
    for (const i of [0, FILES - 1])
      expect(await sha256Of(join(pair.beta.root, folder, `${i}.bin`))).toBe(
        await sha256Of(join(pair.alpha.root, `${i}.bin`)),
      );
  }

  test('moves all of its files, also if the mover is killed in between', async () => {
    const { commands } = pair.installation;
    pair.destination.delay(20);
    const first = await start();
    const asked = requestFor('open');
    // Only the file that is missing is to get a time of its own.
    const items = asked.items?.with(FILES, { ...asked.items[FILES]!, preserve_mtime: false });
    const request = { ...asked, items, preserve_mtime: true };
    const { batch } = await createBatch(
      commands,
      'acc_default',
      request,
      CAUSE,
      reserveBatch(),
      false,
    );
    const id = batch.state.batch_id;
    expect(batch.state.status).toBe('open');
    const folder = join(pair.beta.root, 'open');
    await until('files arrive', () => existsSync(folder) && readdirSync(folder).length > 2);
    await first.kill();
    await expireLeases(pair.installation);
    pair.destination.delay(0);
    await start();
    await expectAll(id, 'open');

    // The file that was missing is there now.
    pair.create(`${FILES}.bin`, 10);
    const retry = await createRetryBatch(commands, 'acc_default', id, CAUSE, reserveBatch());
    expect(await untilCompleted(retry.state.batch_id)).toMatchObject({
      data: { status: 'completed', counts: { items: 1, completed: 1 }, bytes: 10 },
    });
    const page = (await eventsOf(retry.state.batch_id)).find(({ type }) => type === 'batch.listed');
    expect(page?.data).toMatchObject({ items: [{ preserve_mtime: false }] });
    rmSync(join(pair.alpha.root, `${FILES}.bin`));
  });

  test(
    'is finished by the process manager if the request was lost, also after its own loss',
    LONG,
    async () => {
      const { installation } = pair;
      const { commands } = installation;
      const request = requestFor('creating');
      // What a request leaves behind that is killed after it has created a few transfers.
      const reserved = { ...reserveBatch(), now: new Date(Date.now() - 60_000).toISOString() };
      const [source, destination] = ['alpha', 'beta'].map(
        async (name) => (await commands.endpoints()).find((one) => one.name === name)?.endpoint_id,
      );
      const route = {
        source_endpoint_id: (await source) as string,
        destination_endpoint_id: (await destination) as string,
      };
      const times = { listed_at: reserved.now, estimated_start: reserved.now };
      const pager = createPager(0, () => times);
      for (const { source_uri, destination_uri } of request.items ?? [])
        pager.add({ source_uri, destination_uri, route }, null);
      const page = pager.end();
      const data = {
        batch_id: reserved.batchId,
        account_id: 'acc_default',
        source: { type: 'items' },
        priority: 'normal',
        metadata: {},
        notify_on_complete: false,
        created_at: reserved.now,
      } as const;
      const { state } = await changeBatch(
        commands,
        reserved.batchId,
        { type: 'create', data, pages: [page] },
        CAUSE,
        { reserved },
      );
      const some = { ...page, items: page.items.slice(0, 5) };
      await createTransfers(commands, state as Batch, [some], CAUSE);

      const first = await start();
      const created = async () => {
        const [row] = await installation.sql<[{ transfers: number }]>`
        select count(*)::integer as transfers from log.events
         where type = 'transfer.created' and data::json ->> 'batch_id' = ${reserved.batchId}`;
        return row.transfers;
      };
      await until('the process manager creates transfers', async () => (await created()) > 5);
      await first.kill();
      await expireLeases(pair.installation);
      await start();
      await expectAll(reserved.batchId, 'creating');
    },
  );
});
