import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { cancelBatch } from '../../src/commands/batches.ts';
import { createFolderBatch, reserveBatch } from '../../src/commands/create-batch.ts';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import type { BatchListed } from '../../src/domain/batches/batch.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE } from '../support/service/installation.ts';
import { type SpawnedService, spawnMover, startDispatch } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers, expireLeases, until } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const FOLDERS = 8;
const FILES_EACH = 30;

await describeTransfers('a batch of a folder', () => {
  const pair = useSftpPair({}, startDispatch);
  let services: SpawnedService[] = [];
  const paths: string[] = [];

  beforeAll(() => {
    for (let folder = 0; folder < FOLDERS; folder++) {
      mkdirSync(join(pair.alpha.root, 'tree', `folder ${folder}`), { recursive: true });
      for (let i = 0; i < FILES_EACH; i++) {
        // Long names fill pages.
        const path = `folder ${folder}/${i} ${'ä#%'.repeat(20)}.csv`;
        writeFileSync(join(pair.alpha.root, 'tree', path), path);
        paths.push(path);
      }
    }
    writeFileSync(join(pair.alpha.root, 'tree', 'a\nb.csv'), 'no URI can have this name');
    writeFileSync(join(pair.alpha.root, 'tree', 'taken.csv'), 'a folder has this name');
    writeFileSync(join(pair.alpha.root, 'tree', 'left-out.tmp'), '');
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

  async function create(destination: string): Promise<string> {
    mkdirSync(join(pair.beta.root, destination, 'taken.csv'), { recursive: true });
    const request = batchRequest.parse({
      source_uri: 'sftp://alpha/tree',
      destination_uri: `sftp://beta/${destination}/`,
      pattern: '*.csv',
      recursive: true,
    });
    const { commands } = pair.installation;
    const { state } = await createFolderBatch(
      commands,
      'acc_default',
      request,
      CAUSE,
      reserveBatch(),
    );
    return state.batch_id;
  }

  const eventsOf = (id: string) => pair.installation.store.read(streamName('batch', id));

  async function untilIt(id: string, type: string): Promise<StoredEvent> {
    let found: StoredEvent | undefined;
    await until(`${type} is in the log`, async () => {
      found = (await eventsOf(id)).find((event) => event.type === type);
      return found !== undefined;
    });
    return found as StoredEvent;
  }

  async function expectAll(id: string, destination: string): Promise<void> {
    expect((await untilIt(id, 'batch.completed')).data).toMatchObject({
      status: 'completed_with_failures',
      // The name without a URI is rejected, the taken one fails.
      counts: { items: paths.length + 2, completed: paths.length, failed: 2, cancelled: 0 },
    });
    const events = await eventsOf(id);
    const items = events
      .filter(({ type }) => type === 'batch.listed')
      .flatMap(({ data }) => (data as BatchListed).items);
    const sources = items.map(({ source_uri }) => source_uri);
    expect(new Set(sources).size).toBe(sources.length);
    expect(items.filter((item) => 'error' in item)).toEqual([
      {
        source_uri: 'sftp://alpha/tree/a%0Ab.csv',
        error: {
          code: 'validation_failed',
          message: expect.stringContaining('source_uri must not contain control characters'),
        },
      },
    ]);
    const [row] = await pair.installation.sql<[{ created: number; failed: string[] }]>`
      select (select count(*)::integer from log.events
               where type = 'transfer.created' and data::json ->> 'batch_id' = ${id}) as created,
             array(select destination from read.transfers
                    where state -> 'facts' ->> 'batch_id' = ${id} and status = 'failed') as failed`;
    expect(row).toEqual({
      created: paths.length + 1,
      failed: [`sftp://beta/${destination}/taken.csv`],
    });
    const arrived = readdirSync(join(pair.beta.root, destination), {
      recursive: true,
      withFileTypes: true,
    })
      .filter((entry) => entry.isFile() && entry.name.endsWith('.csv'))
      .map(({ parentPath, name }) => join(parentPath, name));
    expect(arrived.sort()).toEqual(
      paths.map((path) => join(pair.beta.root, destination, path)).sort(),
    );
  }

  test(
    'is listed once and moved, also if the processes are killed while they list and create',
    LONG,
    async () => {
      const id = await create('killed');
      // A listing takes seconds.
      pair.source.delay(200);
      const first = await start();
      await untilIt(id, 'batch.listed');
      await first.kill();
      expect((await eventsOf(id)).map(({ type }) => type)).not.toContain('batch.opened');
      pair.source.delay(0);
      const second = await start();
      await until('transfers are created', async () => {
        const rows = await pair.installation.sql`
        select from log.events where stream like '%transfer-%' limit 50`;
        return rows.length === 50;
      });
      await second.kill();
      await expireLeases(pair.installation);
      await start();
      await expectAll(id, 'killed');
    },
  );

  test(
    'that is cancelled while it is listed has one cancelled transfer for each item',
    LONG,
    async () => {
      const id = await create('cancelled');
      pair.source.delay(400);
      await start();
      await untilIt(id, 'batch.listed');
      const { commands, sql } = pair.installation;
      await cancelBatch(commands, 'acc_default', id, CAUSE);
      pair.source.delay(0);
      const { data } = await untilIt(id, 'batch.completed');
      const items = (await eventsOf(id))
        .filter(({ type }) => type === 'batch.listed')
        .flatMap(({ data: page }) => (page as BatchListed).items);
      const failed = items.filter((item) => 'error' in item).length;
      expect(data).toMatchObject({
        status: 'cancelled',
        counts: { items: items.length, completed: 0, failed, cancelled: items.length - failed },
      });
      expect(items.length).toBeLessThan(paths.length);
      const rows = await sql`
      select status, count(*)::integer as transfers from read.transfers
       where state -> 'facts' ->> 'batch_id' = ${id} group by status`;
      expect([...rows]).toEqual([{ status: 'cancelled', transfers: items.length - failed }]);
    },
  );

  test('ends with the reason if the folder cannot be listed', LONG, async () => {
    await start();
    const request = batchRequest.parse({
      source_uri: 'sftp://alpha/missing/',
      destination_uri: 'sftp://beta/missing/',
    });
    const { commands, sql } = pair.installation;
    const { state } = await createFolderBatch(
      commands,
      'acc_default',
      request,
      CAUSE,
      reserveBatch(),
    );
    const id = state.batch_id;
    expect((await untilIt(id, 'batch.completed')).data).toMatchObject({
      status: 'completed_with_failures',
      counts: { items: 1, failed: 1 },
    });
    expect(await sql`select source, code from read.rejected_items where batch_id = ${id}`).toEqual([
      { source: 'sftp://alpha/missing/', code: 'source_not_found' },
    ]);
  });
});
