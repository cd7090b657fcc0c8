import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { access, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { EXIT } from '../../../src/cli/program/exit-codes.ts';
import { startFakeEventStoreDb } from '../../support/event-store/fake/server.ts';
import { freePort } from '../../support/network/free-port.ts';
import { createProxiedDatabase, type ProxiedDatabase } from '../../support/postgres/proxied.ts';
import { startRestartablePostgres } from '../../support/postgres/restartable.ts';
import { createTestDatabase, describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import { type CliResult, createCli, settingsFor } from '../../support/service/cli.ts';
import { type SpawnedService, spawnService } from '../../support/service/roles.ts';
import { until } from '../../support/service/transfers.ts';

vi.setConfig({ testTimeout: 120_000 });

describeWithPostgres('a service that starts while a store is down', () => {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });

  async function prepare(): Promise<{
    database: ProxiedDatabase;
    baseUrl: string;
    start(more?: Record<string, string>): Promise<SpawnedService>;
  }> {
    const database = await createProxiedDatabase();
    closers.push(() => database.drop());
    const port = await freePort();
    const environment = {
      DATABASE_URL: database.url,
      WAYBILL_MASTER_KEY: randomBytes(32).toString('base64'),
      WAYBILL_PORT: String(port),
    };
    return {
      database,
      baseUrl: `http://127.0.0.1:${port}`,
      async start(more = {}) {
        const service = await spawnService({ ...environment, ...more }, ['api', 'projector']);
        closers.push(() => service.stop());
        return service;
      },
    };
  }

  async function get(
    url: string,
  ): Promise<{ status: number; body: Record<string, unknown> } | null> {
    const response = await fetch(url).catch(() => null);
    return (
      response && {
        status: response.status,
        body: (await response.json()) as Record<string, unknown>,
      }
    );
  }

  async function expectItWaitsFor(store: string, baseUrl: string): Promise<void> {
    await until(
      `it reports that it waits for ${store}`,
      async () => {
        const health = await get(`${baseUrl}/health/ready`);
        expect(health?.status ?? 503).toBe(503);
        const checks = health?.body.checks as Record<string, { ok: boolean }> | undefined;
        return checks?.[store]?.ok === false;
      },
      60,
    );
    expect(await get(`${baseUrl}/health/live`)).toEqual({ status: 200, body: { status: 'live' } });
    expect(await get(`${baseUrl}/v1/transfers`)).toMatchObject({
      status: 503,
      body: { code: 'unavailable' },
    });
  }

  const untilReady = (baseUrl: string) =>
    until('it is ready', async () => (await get(`${baseUrl}/health/ready`))?.status === 200, 60);

  test('waits for Postgres, reports it, and then runs', LONG, async () => {
    const { database, baseUrl, start } = await prepare();
    await database.takeAway();
    const starting = start();
    await expectItWaitsFor('database', baseUrl);
    await database.giveBack();
    const service = await starting;
    await untilReady(baseUrl);
    expect(service.output()).toContain('a store does not answer; the start waits for it');
  });

  test('answers every request of clients that keep asking until it runs', LONG, async () => {
    const { database, baseUrl, start } = await prepare();
    await database.takeAway();
    const starting = start();
    await until('it answers', async () => (await get(`${baseUrl}/health/live`)) !== null);
    let running = false;
    const body = JSON.stringify({ source_uri: 'sftp://a/b', destination_uri: 'sftp://c/d' });
    const headers = { 'content-type': 'application/json' };
    const requests: [string, RequestInit][] = [
      ['/health/live', {}],
      ['/health/ready', {}],
      ['/v1/transfers', {}],
      ['/v1/transfers', { method: 'POST', headers, body }],
    ];
    const clients = requests.map(async ([path, request]) => {
      const answers = new Set<number>();
      for (let last = false; !last; ) {
        last = running;
        const response = await fetch(baseUrl + path, request);
        await response.text();
        answers.add(response.status);
      }
      return answers;
    });
    await database.giveBack();
    await starting;
    await untilReady(baseUrl);
    running = true;
    expect((await Promise.all(clients)).map((answers) => [...answers])).toEqual([
      [200],
      [503, 200],
      [503, 401],
      [503, 401],
    ]);
  });

  test(
    'waits for an embedded Postgres that other processes use and that is frozen',
    LONG,
    async () => {
      const postgres = await startRestartablePostgres();
      closers.push(() => postgres.stop());
      postgres.freeze(true);
      closers.push(() => postgres.freeze(false));
      const port = await freePort();
      const baseUrl = `http://127.0.0.1:${port}`;
      const starting = spawnService(
        { WAYBILL_DATA_DIR: postgres.dataDir, WAYBILL_PORT: String(port) },
        ['api', 'projector'],
      );
      await Promise.race([starting, expectItWaitsFor('database', baseUrl)]);
      postgres.freeze(false);
      const service = await starting;
      closers.push(() => service.stop());
      await untilReady(baseUrl);
    },
  );

  test('waits for the event store, reports it, and then runs', LONG, async () => {
    const { baseUrl, start } = await prepare();
    const log = await startFakeEventStoreDb();
    closers.push(() => log.stop());
    log.stop();
    const starting = start({ EVENTSTORE_URL: log.url });
    await expectItWaitsFor('event_store', baseUrl);
    await log.start();
    await starting;
    await untilReady(baseUrl);
  });

  test('ends at once if the settings are wrong', LONG, async () => {
    const { database, start } = await prepare();
    const url = new URL(database.url);
    url.username = 'stranger';
    await expect(start({ DATABASE_URL: url.href })).rejects.toThrow(
      /Postgres is unavailable: password authentication failed/,
    );
  });
});

const ON_AN_INSTALLATION = [
  ['keys', 'list'],
  ['log', 'keys'],
  ['audit', 'verify'],
  ['audit', 'export'],
  ['transfers', 'create', 'sftp://a/file', 'sftp://b/'],
  ['webhooks', 'list'],
  ['projections', 'list'],
  ['vault', 'rotate'],
];

describeWithPostgres('a command that finds no installation', () => {
  test('names the folder or the setting, and creates nothing', async () => {
    const missing = join(tmpdir(), `waybill-nowhere-${randomBytes(4).toString('hex')}`);
    const elsewhere = createCli({ WAYBILL_DATA_DIR: missing });
    for (const command of ON_AN_INSTALLATION) {
      const { code, stdout, stderr } = await elsewhere.run(command);
      expect([command, code, stdout]).toEqual([command, EXIT.notFound, '']);
      expect(stderr).toMatch(`There is no installation of Waybill in ${missing}, and this command`);
      expect(stderr).not.toMatch('Only the account');
    }
    await expect(access(missing)).rejects.toMatchObject({ code: 'ENOENT' });
    // As the folder of another user: it may have an installation.
    const closed = await mkdtemp(join(tmpdir(), 'waybill-closed-'));
    onTestFinished(() => rm(closed, { recursive: true }));
    await symlink('loop', join(closed, 'loop'));
    const denied = createCli({ WAYBILL_DATA_DIR: join(closed, 'loop') });
    expect((await denied.run(['keys', 'list'])).stderr).toMatch(/loop can't be used \(ELOOP\)/);

    const empty = await createTestDatabase();
    onTestFinished(() => empty.drop());
    const schemas = () =>
      empty.sql`select nspname from pg_namespace where nspname in ('log', 'read', 'work')`;
    for (const { nspname } of await schemas())
      await empty.sql`drop schema ${empty.sql(nspname)} cascade`;
    const other = createCli(settingsFor(empty.url));
    for (const command of ON_AN_INSTALLATION) {
      const { code, stdout, stderr } = await other.run(command);
      expect([command, code, stdout]).toEqual([command, EXIT.notFound, '']);
      expect(stderr).toMatch('no installation of Waybill in the database of DATABASE_URL');
    }
    expect(await schemas()).toEqual([]);
  });

  test('creates one if it may be the first command, and says so on stderr', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waybill-new-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const cli = createCli({ WAYBILL_DATA_DIR: folder });
    const create = ['keys', 'create', '--name', 'first', '--scopes', 'admin'];
    const { code, stderr } = await cli.run(create);
    expect(code).toBe(EXIT.done);
    expect(stderr).toMatch(
      `Created a new, empty installation in ${folder}. If yours is in another`,
    );
    expect((await cli.run(create)).stderr).not.toMatch('Created');
    expect((await cli.run(['keys', 'list'])).code).toBe(EXIT.done);
  });
});

describe('a service that cannot listen', () => {
  test.each([
    [{ WAYBILL_HOST: 'no host' }, /WAYBILL_HOST is "no host", but this machine has no such addr/],
    [{ WAYBILL_HOST: '192.0.2.1' }, /WAYBILL_HOST is "192.0.2.1", but this machine has no such/],
    [tls('/none.pem'), /WAYBILL_TLS_CERT names a file that cannot be read: ENOENT/],
    [tls(import.meta.dirname), /WAYBILL_TLS_CERT names a file that cannot be read: EISDIR/],
    [tls(import.meta.filename), /WAYBILL_TLS_CERT and WAYBILL_TLS_KEY are no certificate and its/],
  ])('names the setting that is wrong in %j', async (settings, message) => {
    const { code, stderr } = await startOnNothing(settings);
    expect(stderr).toMatch(message);
    expect(code).toBe(EXIT.invalid);
  });

  test('says that its port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await startOnNothing({ WAYBILL_PORT: String(port) });
    expect(stderr).toMatch(`Port ${port} of 127.0.0.1 is in use by another program. Set WAYBILL_`);
    expect(code).toBe(EXIT.failed);
  });
});

/** Runs `serve` with a new data folder, and expects that it creates nothing there. */
async function startOnNothing(settings: Record<string, string>): Promise<CliResult> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-start-up-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const cli = createCli({ WAYBILL_DATA_DIR: folder, WAYBILL_LOG_LEVEL: 'silent', ...settings });
  const result = await cli.run(['serve', '--roles', 'api,projector']);
  expect(await readdir(folder)).toEqual([]);
  return result;
}

function tls(file: string) {
  return { WAYBILL_TLS_CERT: file, WAYBILL_TLS_KEY: file };
}
