import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { FileEndpoint } from '../../../src/adapters/files/port.ts';
import { createSftpEndpoint } from '../../../src/adapters/files/sftp/endpoint.ts';
import type { Sql } from '../../../src/adapters/postgres/connect.ts';
import { newId } from '../../../src/domain/ids.ts';
import type { SettingsFor } from '../../../src/domain/protocols/index.ts';
import { createEndpointPool } from '../../../src/processes/endpoints/pool.ts';
import { type CleanupDeps, runCleanUps } from '../../../src/processes/mover/cleanup.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { configureEndpoint, openTestInstallation } from '../../support/service/installation.ts';

/**
 * Opens an installation with the endpoint `silent`, whose server accepts connections and says
 * nothing for `connectMs`. Adds nine clean-ups at it, and a later one that needs no server: no
 * endpoint has that name.
 */
async function openWithSilentServer(connectMs: number) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const installation = await openTestInstallation();
  const { commands, sql, vault, logger } = installation;
  const endpoints = createEndpointPool({
    vault,
    open: ({ settings }, credentials) =>
      createSftpEndpoint({
        settings: settings as SettingsFor<'sftp'>,
        credentials: credentials as { password: string },
        maxConnections: 16,
        timeouts: { connectMs },
      }),
  });
  onTestFinished(async () => {
    await endpoints.close();
    for (const socket of sockets) socket.destroy();
    server.close();
    await installation.close();
  });
  await configureEndpoint(installation, {
    name: 'silent',
    protocol: 'sftp',
    host: '127.0.0.1',
    port,
    username: 'me',
    password: 'a password',
  });
  await commands.catchUp('catalog');
  const destinations = [...Array(9).fill('sftp://silent/in/a'), 'sftp://elsewhere/a'];
  for (const [i, destination] of destinations.entries())
    await sql`
      insert into work.cleanups (transfer_id, account_id, destination, due_at)
      values (${newId('txr')}, 'acc_default', ${destination},
              now() - interval '1 minute' + ${i} * interval '1 second')`;
  return { sql, logger, endpoints };
}

type RemoveLeftovers = FileEndpoint['removeLeftovers'];

/** Opens an installation with these endpoints. `removeLeftovers` is what their servers do. */
async function openWithEndpoints(names: string[], removeLeftovers: RemoveLeftovers) {
  const installation = await openTestInstallation();
  const { commands, sql, vault, logger } = installation;
  const close = async () => {};
  const open = () => ({ openSource: async () => ({ close }), removeLeftovers, close }) as never;
  const endpoints = createEndpointPool({ vault, open });
  onTestFinished(async () => {
    await endpoints.close();
    await installation.close();
  });
  for (const [i, name] of names.entries())
    await configureEndpoint(installation, {
      name,
      protocol: 'sftp',
      host: '127.0.0.1',
      port: 22 + i,
      username: 'me',
      password: 'a password',
    });
  await commands.catchUp('catalog');
  return { sql, logger, endpoints };
}

async function addCleanup(sql: Sql, destination: string, tries = 0): Promise<void> {
  await sql`
    insert into work.cleanups (transfer_id, account_id, destination, due_at, tries)
    values (${newId('txr')}, 'acc_default', ${destination}, now() - interval '1 hour', ${tries})`;
}

/** Cleans up until the test ends, or until the returned function is called. */
function cleanUpMeanwhile(deps: CleanupDeps): () => Promise<void> {
  const stop = new AbortController();
  const running = runCleanUps(deps, stop.signal);
  const stopped = () => {
    stop.abort();
    return running;
  };
  onTestFinished(stopped);
  return stopped;
}

const until = (condition: () => Promise<boolean>) =>
  vi.waitUntil(condition, { timeout: 10_000, interval: 20 });

const cleanupsAt = async (sql: Sql, destination: string) =>
  (await sql`select from work.cleanups where destination = ${destination}`).count;

const tried = async (sql: Sql) => (await sql`select from work.cleanups where tries > 0`).count;

describeWithPostgres('clean-ups at a server that does not answer', () => {
  it('delay none at other servers, run four at a time, and end with the process', async () => {
    const deps = await openWithSilentServer(120_000);
    const stop = cleanUpMeanwhile(deps);
    await until(async () => (await cleanupsAt(deps.sql, 'sftp://elsewhere/a')) === 0);
    await until(async () => (await tried(deps.sql)) >= 4);
    await pause(100);
    expect(await tried(deps.sql)).toBe(4);
    await stop();
  });

  it('give their places to the next ones', async () => {
    const deps = await openWithSilentServer(200);
    cleanUpMeanwhile(deps);
    await until(async () => (await tried(deps.sql)) === 9);
  });

  it('leave the next place to another server if they have taken all', async () => {
    const names = Array.from({ length: 16 }, (_, n) => `silent-${n}`);
    const ends: (() => void)[] = [];
    const deps = await openWithEndpoints(
      names,
      (_, { signal }) =>
        new Promise((resolve) => {
          ends.push(resolve);
          signal?.addEventListener('abort', () => resolve());
        }),
    );
    const { sql } = deps;
    for (const name of names)
      for (let n = 0; n < 5; n++) await addCleanup(sql, `sftp://${name}/in/a`);
    cleanUpMeanwhile(deps);
    await until(async () => ends.length === 64);
    await addCleanup(sql, 'sftp://elsewhere/a');
    await pause(100);
    expect(await cleanupsAt(sql, 'sftp://elsewhere/a')).toBe(1);
    ends[0]?.();
    await until(async () => (await cleanupsAt(sql, 'sftp://elsewhere/a')) === 0);
    await until(async () => ends.length === 65);
  });
});

describeWithPostgres('many clean-ups', () => {
  it('take turns with looks for what late requests have done', async () => {
    const paths: string[] = [];
    const deps = await openWithEndpoints(['far'], async (path) => void paths.push(path));
    const { sql } = deps;
    for (let n = 0; n < 30; n++) await addCleanup(sql, 'sftp://far/ended');
    for (let n = 0; n < 5; n++)
      await sql`
        insert into work.late_looks (transfer_id, side, account_id, uri, due_at)
        values (${newId('txr')}, 'destination', 'acc_default', 'sftp://far/late', now())`;
    cleanUpMeanwhile(deps);
    await until(async () => paths.length === 35);
    // Ten turns, and up to four run at once.
    expect(paths.lastIndexOf('/late')).toBeLessThan(14);
  });
});

describeWithPostgres('a clean-up while the sign-in of its endpoint is on hold', () => {
  it('is tried later, and given up with the last try', async () => {
    const deps = await openWithEndpoints(['far'], async () => expect.fail('no sign-in'));
    const { sql } = deps;
    await sql`
      insert into work.sign_in_holds (endpoint_id, credentials_record, until)
      select endpoint_id, state ->> 'credentials_record', now() + interval '1 hour'
        from read.endpoints`;
    for (const tries of [23, 24]) await addCleanup(sql, 'sftp://far/in/a', tries);
    cleanUpMeanwhile(deps);
    await expect.poll(() => sql`select tries from work.cleanups`).toEqual([{ tries: 24 }]);
  });
});

describeWithPostgres('a clean-up that is tried again', () => {
  it('has more time than before, for a folder that takes long to list', async () => {
    const deps = await openWithEndpoints(['far'], async () => {});
    onTestFinished(() => void vi.restoreAllMocks());
    const limits = vi.spyOn(AbortSignal, 'timeout');
    for (const tries of [0, 1, 5, 24]) await addCleanup(deps.sql, 'sftp://far/in/a', tries);
    cleanUpMeanwhile(deps);
    await until(async () => (await cleanupsAt(deps.sql, 'sftp://far/in/a')) === 0);
    const minutes = limits.mock.calls.map(([ms]) => ms / 60_000).sort((a, b) => a - b);
    expect(minutes).toEqual([1, 2, 32, 60]);
  });
});
