import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createSftpEndpoint } from '../../../src/adapters/files/sftp/endpoint.ts';
import { newId } from '../../../src/domain/ids.ts';
import type { SettingsFor } from '../../../src/domain/protocols/index.ts';
import { createEndpointPool } from '../../../src/processes/endpoints/pool.ts';
import { cleanUp, runCleanUps } from '../../../src/processes/mover/cleanup.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { configureEndpoint, openTestInstallation } from '../../support/service/installation.ts';

/**
 * Opens an installation with the endpoint `silent`, whose server accepts connections and says
 * nothing. Adds nine clean-ups at it, tried so often before, and a later one that needs no server:
 * no endpoint has that name.
 */
async function openWithSilentServer(connectMs: number, tries = 0) {
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
      insert into work.cleanups (transfer_id, account_id, destination, due_at, tries)
      values (${newId('txr')}, 'acc_default', ${destination},
              now() - interval '1 minute' + ${i} * interval '1 second', ${tries})`;
  return { sql, logger, endpoints };
}

describeWithPostgres('clean-ups at a server that does not answer', () => {
  it('delay those at other servers by one try', async () => {
    const { sql, logger, endpoints } = await openWithSilentServer(200);
    const { signal } = new AbortController();
    const deps = { sql, logger, endpoints, silent: new Map<string, number>(), long: new Map() };
    await cleanUp(deps, signal);
    await cleanUp(deps, signal);
    expect(await sql`select from work.cleanups where destination = 'sftp://elsewhere/a'`).toEqual(
      [],
    );
    // Without others, the server is tried again.
    expect(await cleanUp(deps, signal)).toBe(4);
    expect(await sql`select from work.cleanups where tries > 0`).toHaveLength(8);
  });
});

describeWithPostgres('many clean-ups', () => {
  it('leave places to looks for what late requests have done, and take those that are left', async () => {
    const installation = await openTestInstallation();
    onTestFinished(() => installation.close());
    const { sql, vault, logger } = installation;
    const endpoints = createEndpointPool({ vault, open: () => ({}) as never });
    // No endpoint has that name, so each is done at once.
    for (let i = 0; i < 4; i++) {
      await sql`
        insert into work.cleanups (transfer_id, account_id, destination, due_at)
        values (${newId('txr')}, 'acc_default', 'sftp://elsewhere/a', now() - interval '1 hour')`;
      await sql`
        insert into work.late_looks (transfer_id, side, account_id, uri, due_at)
        values (${newId('txr')}, 'destination', 'acc_default', 'sftp://elsewhere/a', now())`;
    }
    const deps = { sql, logger, endpoints, silent: new Map<string, number>(), long: new Map() };
    const turns: object[] = [];
    for (let turn = 0; turn < 3; turn++) {
      await cleanUp(deps, new AbortController().signal);
      const [{ cleanups, looks }] = await sql<[{ cleanups: number; looks: number }]>`
        select (select count(*)::integer from work.cleanups) as cleanups,
               (select count(*)::integer from work.late_looks where looks = 0) as looks`;
      turns.push({ cleanups, looks });
      if (turn === 0)
        await sql`
          insert into work.late_looks (transfer_id, side, account_id, uri, due_at)
          select 'txr_' || n, 'destination', 'acc_default', 'sftp://elsewhere/a', now()
            from generate_series(1, 4) n`;
    }
    expect(turns).toEqual([
      { cleanups: 2, looks: 2 },
      { cleanups: 0, looks: 4 },
      { cleanups: 0, looks: 0 },
    ]);
  });
});

describeWithPostgres('clean-ups that take long', () => {
  it('go on while those at other servers run, four at a time, and end with the process', async () => {
    // As slow as a server that needs minutes to list a folder.
    const { sql, logger, endpoints } = await openWithSilentServer(120_000, 10);
    const stop = new AbortController();
    const running = runCleanUps({ sql, logger, endpoints }, stop.signal);
    onTestFinished(() => stop.abort());
    await vi.waitUntil(
      async () =>
        (await sql`select from work.cleanups where destination = 'sftp://elsewhere/a'`).count === 0,
      { timeout: 10_000, interval: 50 },
    );
    expect(await sql`select from work.cleanups where tries > 10`).toHaveLength(4);
    stop.abort();
    await running;
  });
});

describeWithPostgres('a clean-up that is tried again', () => {
  it('has more time than before, for a folder that takes long to list', async () => {
    const installation = await openTestInstallation();
    const { commands, sql, vault, logger } = installation;
    const endpoints = createEndpointPool({
      vault,
      open: () => ({ removeLeftovers: async () => {}, close: async () => {} }) as never,
    });
    onTestFinished(async () => {
      vi.restoreAllMocks();
      await endpoints.close();
      await installation.close();
    });
    await configureEndpoint(installation, {
      name: 'far',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: 22,
      username: 'me',
      password: 'a password',
    });
    await commands.catchUp('catalog');
    for (const tries of [0, 1, 5, 24])
      await sql`
        insert into work.cleanups (transfer_id, account_id, destination, due_at, tries)
        values (${newId('txr')}, 'acc_default', 'sftp://far/in/a', now(), ${tries})`;
    const { signal } = new AbortController();
    const limits = vi.spyOn(AbortSignal, 'timeout');
    expect(
      await cleanUp({ sql, logger, endpoints, silent: new Map(), long: new Map() }, signal),
    ).toBe(4);
    const minutes = limits.mock.calls.map(([ms]) => ms / 60_000).sort((a, b) => a - b);
    expect(minutes).toEqual([1, 2, 32, 60]);
  });
});
