import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { loadFlow, updateFlow } from '../../src/commands/flows.ts';
import type { BatchListed } from '../../src/domain/batches/batch.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { runFlow } from '../../src/processes/flows/run.ts';
import { startTcpProxy } from '../support/network/tcp-proxy.ts';
import { LONG } from '../support/run/long.ts';
import { flowsOf, unnameable } from '../support/service/flows.ts';
import { CAUSE } from '../support/service/installation.ts';
import { type SpawnedService, spawnService, startDispatch } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers, expireLeases, until } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 240_000 });

const FOLDERS = 6;
const FILES_EACH = 30;

await describeTransfers('a run of a flow whose processes are killed', () => {
  const pair = useSftpPair({}, startDispatch);
  const flows = flowsOf(pair);
  let services: SpawnedService[] = [];

  afterEach(async () => {
    await Promise.all(services.map((service) => service.kill()));
    services = [];
  });

  /** Starts a process that works on flows and moves files, or several that compete. */
  async function start(processes = 1, settings: Record<string, string> = {}): Promise<void> {
    const { environment: own } = pair.installation;
    const environment = { ...own, WAYBILL_LOG_LEVEL: 'info', ...settings };
    services = await Promise.all(
      Array.from({ length: processes }, () => spawnService(environment, ['mover', 'monitor'])),
    );
  }
  async function killAll(): Promise<void> {
    await Promise.all(services.map((service) => service.kill()));
    services = [];
    await expireLeases(pair.installation);
    await pair.installation.sql`update work.after_steps set lease_until = now()`;
  }
  const hasEvent = async (stream: string, type: string) =>
    (await pair.installation.store.read(stream)).some((event) => event.type === type);

  /** Looks at a flow as a process does whose appends to batches go through `append`. */
  async function look(id: string, append: EventStore['append'], stop = new AbortController()) {
    const { installation } = pair;
    const commands = { ...installation.commands, store: { ...installation.store, append } };
    await commands.catchUp('flows');
    const known = await loadFlow(commands, 'acc_default', id);
    await runFlow({ ...installation, commands }, known, stop.signal);
  }
  async function dieAfterOnePage(id: string): Promise<void> {
    const dying = new AbortController();
    const append: EventStore['append'] = async (stream, expected, events) => {
      const result = await pair.installation.store.append(stream, expected, events);
      if (events[0]?.type === 'batch.listed') dying.abort();
      return result;
    };
    await look(id, append, dying);
  }
  async function pagesOfRun(id: string): Promise<BatchListed[]> {
    const [run] = await flows.runs(id);
    return (await pair.installation.store.read(streamName('batch', run?.batch_id as string)))
      .filter(({ type }) => type === 'batch.listed')
      .map(({ data }) => data as BatchListed);
  }
  /** Writes files that fill more than a page. */
  function writeFiles(folder: string, count: number): void {
    mkdirSync(join(pair.alpha.root, folder));
    for (let i = 0; i < count; i++)
      writeFileSync(join(pair.alpha.root, folder, `${i} ${'ä#%'.repeat(20)}.csv`), '');
  }

  test(
    'while it is listed, created, moved and deletes its sources takes each file once',
    LONG,
    async () => {
      for (let folder = 0; folder < FOLDERS; folder++) {
        mkdirSync(join(pair.alpha.root, 'killed', `folder ${folder}`), { recursive: true });
        for (let i = 0; i < FILES_EACH; i++) {
          // Long names fill pages.
          const path = `folder ${folder}/${i} ${'ä#%'.repeat(20)}.csv`;
          writeFileSync(join(pair.alpha.root, 'killed', path), path);
        }
      }
      const id = await flows.create('killed', {
        enabled: false,
        after: { source: 'delete' },
      });
      const stream = streamName('flow', id);
      const runId = await flows.request(id);
      const batch = streamName('batch', runId.replace('run_', 'bat_'));

      const url = new URL(pair.installation.environment.DATABASE_URL as string);
      const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
      url.port = String(proxy.port);
      const afterOnePage = proxy.holdWhen(() => hasEvent(batch, 'batch.listed'), 'up');
      await start(1, { DATABASE_URL: url.href });
      await afterOnePage;
      proxy.stall(true);
      await killAll();
      await proxy.close();
      expect(await hasEvent(stream, 'flow.run_listed')).toBe(false);

      await start();
      await until('the run is listed', () => hasEvent(stream, 'flow.run_listed'));
      await killAll();

      await start();
      const filesIn = (root: string) =>
        readdirSync(root, { recursive: true, withFileTypes: true }).filter(
          (entry) => entry.isFile() && entry.name.endsWith('.csv'),
        );
      const arrivedBelow = () => filesIn(pair.beta.root);
      const count = FOLDERS * FILES_EACH;
      // Other files still move.
      await until('a source is deleted', () => filesIn(pair.alpha.root).length < count);
      await killAll();

      await start(2);
      expect(await flows.ended(id, runId)).toMatchObject({
        status: 'completed',
        counts: { files: count, completed: count },
      });
      const events = await flows.events(id);
      expect(events.map(({ type }) => type)).toEqual([
        'flow.created',
        'flow.run_requested',
        'flow.run_started',
        'flow.run_listed',
        'flow.run_completed',
      ]);
      const sources = (await pair.installation.store.read(batch))
        .filter(({ type }) => type === 'batch.listed')
        .flatMap(({ data }) => (data as BatchListed).items.map(({ source_uri }) => source_uri));
      expect(sources).toHaveLength(count);
      expect(new Set(sources).size).toBe(count);
      const arrived = arrivedBelow();
      expect(arrived).toHaveLength(count);
      for (const { parentPath, name } of arrived) {
        const path = join(parentPath, name);
        expect(path.endsWith(readFileSync(path, 'utf8'))).toBe(true);
      }
      await until('all sources are deleted', () => filesIn(pair.alpha.root).length === 0);
      // A source is gone before the log says so.
      const steps = async () => {
        const [row] = await pair.installation.sql`
        select count(*)::integer as events, count(distinct stream)::integer as transfers
          from log.events where type = 'transfer.source_deleted'`;
        return row;
      };
      await expect.poll(steps).toEqual({ events: count, transfers: count });
      // A further run finds that all is taken.
      expect(await flows.run(id)).toMatchObject({ status: 'empty' });
    },
  );

  test('takes each file once if another process continues it before its first page', async () => {
    const { store } = pair.installation;
    const count = 100;
    writeFiles('frozen', count);
    const id = await flows.create('frozen', { enabled: false });
    let isFrozen = true;
    await look(id, async (stream, expected, events) => {
      if (isFrozen && events[0]?.type === 'batch.created') {
        isFrozen = false;
        await dieAfterOnePage(id);
      }
      return store.append(stream, expected, events);
    });
    await look(id, store.append);

    const pages = await pagesOfRun(id);
    expect(pages.length).toBeGreaterThan(1);
    const sources = pages.flatMap(({ items }) => items.map(({ source_uri }) => source_uri));
    expect(sources).toHaveLength(count);
    expect(new Set(sources).size).toBe(count);
  });

  test('knows the destinations of the files before it when it continues', async () => {
    mkdirSync(join(pair.alpha.root, 'flat'));
    for (const folder of ['flat/a', 'flat/b']) writeFiles(folder, 100);
    const destination_uri = 'sftp://beta/flat/{name}';
    const id = await flows.create('flat', { enabled: false, destination_uri });
    await dieAfterOnePage(id);
    await look(id, pair.installation.store.append);
    const items = (await pagesOfRun(id)).flatMap((page) => page.items);
    expect(items).toHaveLength(200);
    const rejected = items.filter((item) => 'error' in item);
    expect(rejected).toHaveLength(100);
    for (const { source_uri } of rejected) expect(source_uri).toMatch(/^sftp:\/\/alpha\/flat\/b\//);
  });

  test('looks again at once for files that it has passed over when it continues', async () => {
    const { sql, store } = pair.installation;
    writeFiles('passed', 100);
    const id = await flows.create('passed', { enabled: false });
    await dieAfterOnePage(id);
    writeFileSync(join(pair.alpha.root, 'passed', '! first.csv'), '');
    await look(id, store.append);
    expect((await pagesOfRun(id)).flatMap(({ items }) => items)).toHaveLength(100);
    const isDue = async () => {
      const [row] = await sql`
        select look_again_at <= now() as due from work.flow_looks where flow_id = ${id}`;
      return row?.due;
    };
    expect(await isDue()).toBe(true);
    await look(id, store.append);
    expect((await pagesOfRun(id)).flatMap(({ items }) => items)).toMatchObject([
      { source_uri: 'sftp://alpha/passed/!%20first.csv' },
    ]);
    expect(await isDue()).toBeNull();
  });

  test('has not recovered when a part is listed without the folder that fails', async () => {
    const { store } = pair.installation;
    const folder = join(pair.alpha.root, 'failing');
    mkdirSync(folder);
    // It comes before the files.
    const failing = unnameable(folder);
    mkdirSync(failing);
    const id = await flows.create('failing', { enabled: false });
    await look(id, store.append);
    for (let i = 0; i < 100; i++)
      writeFileSync(join(folder, `\uFFFE${i} ${'ä#%'.repeat(20)}.csv`), '');
    await dieAfterOnePage(id);
    await look(id, store.append);
    const notes = async () => {
      const types = (await flows.events(id)).map(({ type }) => type);
      return types.filter((type) => /run_failed|recovered|run_listed/.test(type));
    };
    expect(await notes()).toEqual(['flow.run_failed', 'flow.run_listed']);
    rmdirSync(failing);
    await look(id, store.append);
    expect(await notes()).toEqual(['flow.run_failed', 'flow.run_listed', 'flow.recovered']);
  });

  test('continues with the settings with which the run began', async () => {
    const { commands, store } = pair.installation;
    for (const folder of ['before', 'after']) writeFiles(folder, 100);
    const id = await flows.create('before', { enabled: false });
    await dieAfterOnePage(id);
    const source = { uri: 'sftp://alpha/after/', pattern: '*', exclude: [], recursive: false };
    const changes = { source, destination_uri: 'sftp://beta/changed/' };
    await updateFlow(commands, 'acc_default', id, changes, CAUSE);
    await look(id, store.append);

    const pages = await pagesOfRun(id);
    expect(pages.length).toBeGreaterThan(1);
    const items = pages.flatMap((page) => page.items);
    expect(items).toHaveLength(100);
    for (const item of items)
      expect(item).toMatchObject({
        source_uri: expect.stringMatching(/^sftp:\/\/alpha\/before\//),
        destination_uri: expect.stringMatching(/^sftp:\/\/beta\/before\//),
      });
  });
});
