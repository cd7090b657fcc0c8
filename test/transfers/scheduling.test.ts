import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { SMALL_FILE_BYTES } from '../../src/domain/small-file.ts';
import { findWaits } from '../../src/processes/dispatch/waiting-for.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import { LONG } from '../support/run/long.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  transferInLog,
  untilStatus,
} from '../support/service/installation.ts';
import {
  type RunningRoles,
  type SpawnedService,
  spawnService,
  startRoles,
} from '../support/service/roles.ts';
import { describeTransfers, historyOf, storyOf, until } from '../support/service/transfers.ts';

const MiB = 1 << 20;

await describeTransfers('the order of transfers', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let roles: RunningRoles;
  let endpointId: string;

  beforeAll(async () => {
    [installation, server] = await Promise.all([
      openTestInstallation({ WAYBILL_MOVERS: '1' }),
      startSftpServer(),
    ]);
    roles = await startRoles(installation);
    endpointId = await configureSftp(installation, 'server', server);
    // Of small files, more move at once than there are slots.
    writeFileSync(join(server.root, 'file'), Buffer.alloc(SMALL_FILE_BYTES + 1));
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([installation?.close(), server?.stop()]);
  });

  /**
   * Lets transfers wait together, then frees the one mover. Returns them in the order of their
   * starts.
   */
  async function orderOf(
    priorities: string[],
    meanwhile: (ids: string[]) => Promise<unknown> = async () => undefined,
  ): Promise<string[]> {
    await pauseEndpoint(installation.commands, endpointId, CAUSE);
    const ids: string[] = [];
    for (const [i, priority] of priorities.entries()) {
      ids.push(
        await submit(installation, 'sftp://server/file', `sftp://server/copy-${i}`, { priority }),
      );
    }
    for (const id of ids) await untilStatus(installation, id, 'queued');
    await meanwhile(ids);
    await resumeEndpoint(installation.commands, endpointId, CAUSE);
    const starts = await Promise.all(
      ids.map(async (id) => ({
        id,
        startedAt: (await untilStatus(installation, id, 'completed')).facts
          .first_started_at as string,
      })),
    );
    const inOrder = starts.toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1));
    return inOrder.map(({ id }) => `${priorities[ids.indexOf(id)]} ${ids.indexOf(id)}`);
  }

  test('is high before normal before low, and by creation within each', async () => {
    const order = await orderOf(['low', 'normal', 'high', 'low', 'normal', 'high']);
    expect(order).toEqual(['high 2', 'high 5', 'normal 1', 'normal 4', 'low 0', 'low 3']);
  });

  test('puts a low transfer that has waited long enough before a new high one', async () => {
    const order = await orderOf(['high', 'low', 'low'], ([, , waiting]) =>
      waited(waiting as string, 21),
    );
    expect(order).toEqual(['low 2', 'high 0', 'low 1']);
  });

  test('keeps a low transfer behind a new high one before that', async () => {
    const order = await orderOf(['high', 'low'], ([, waiting]) => waited(waiting as string, 19));
    expect(order).toEqual(['high 0', 'low 1']);
  });

  /** Moves the time since when it is due back by this much. */
  async function waited(id: string, minutes: number): Promise<void> {
    await installation.sql`
      update work.transfer_jobs
         set rank = rank - ${minutes} * interval '1 minute',
         due_at = due_at - ${minutes} * interval '1 minute'
       where transfer_id = ${id}`;
  }
});

await describeTransfers('the limits of an endpoint', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let proxy: TcpProxy;
  let roles: RunningRoles;
  let second: SpawnedService;

  beforeAll(async () => {
    [installation, server] = await Promise.all([openTestInstallation(), startSftpServer()]);
    proxy = await startTcpProxy(server);
    roles = await startRoles(installation);
    second = await spawnService({ ...installation.environment, WAYBILL_LOG_LEVEL: 'info' });
    await configureSftp(installation, 'wide', server);
    await configureSftp(
      installation,
      'narrow',
      { ...server, port: proxy.port },
      { max_connections: 2 },
    );
    writeFileSync(join(server.root, 'file'), randomBytes(MiB));
  });
  afterAll(async () => {
    await Promise.all([roles?.stop(), second?.stop()]);
    await proxy?.close();
    await Promise.all([installation?.close(), server?.stop()]);
  });

  const completed = (ids: string[]) =>
    Promise.all(ids.map((id) => untilStatus(installation, id, 'completed', 60)));

  test('allow max_connections transfers over all processes, and delay no others', async () => {
    proxy.throttle(4 * MiB);
    const narrow = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        submit(installation, 'sftp://wide/file', `sftp://narrow/narrow/${i}`),
      ),
    );
    const atOnce: number[] = [];
    let watching = true;
    const watcher = (async () => {
      while (watching) {
        const rows = await installation.sql`
            select from work.transfer_jobs
             where transfer_id = any(${narrow}::text[]) and claim_id is not null`;
        atOnce.push(rows.length);
        await sleep(10);
      }
    })();
    await until('the endpoint is full', () => atOnce.includes(2));
    await until('those that wait say so', async () => {
      const transfers = await Promise.all(narrow.map((id) => transferInLog(installation, id)));
      const waits = [...(await findWaits(installation.sql, transfers)).values()];
      const why = 'The endpoint narrow is full: 2 of 2 places are taken.';
      return waits.length > 5 && waits.every(({ message }) => message === why);
    });
    await completed([await submit(installation, 'sftp://wide/file', 'sftp://wide/wide')]);
    expect(
      (await Promise.all(narrow.map((id) => transferInLog(installation, id)))).some(
        ({ status }) => status === 'queued',
      ),
    ).toBe(true);
    await completed(narrow);
    watching = false;
    await watcher;
    expect(Math.max(...atOnce)).toBe(2);

    // The log covers every moment, even between two polls.
    const spans = await Promise.all(narrow.map((id) => historyOf(installation, id)));
    const changes = spans.flatMap((events) => [
      { at: events[2]?.metadata.occurred_at, by: 1 },
      { at: events[3]?.metadata.occurred_at, by: -1 },
    ]);
    let running = 0;
    for (const { by } of changes.toSorted(
      (a, b) => (a.at as string).localeCompare(b.at as string) || a.by - b.by,
    )) {
      running += by;
      expect(running).toBeLessThanOrEqual(2);
    }
    proxy.throttle(Number.POSITIVE_INFINITY);
  }, 90_000);

  test('let a paused endpoint only finish transfers, and delay no others', {
    timeout: 60_000,
    ...LONG,
  }, async () => {
    writeFileSync(join(server.root, 'long'), randomBytes(16 * MiB));
    const pausedId = await configureSftp(installation, 'pausing', {
      ...server,
      port: proxy.port,
    });
    proxy.throttle(4 * MiB);
    const moving = await submit(installation, 'sftp://wide/long', 'sftp://pausing/long-copy');
    await untilStatus(installation, moving, 'in_progress');
    await pauseEndpoint(installation.commands, pausedId, CAUSE);
    const asDestination = await submit(installation, 'sftp://wide/file', 'sftp://pausing/one');
    const asSource = await submit(installation, 'sftp://pausing/file', 'sftp://wide/two');
    const elsewhere = await submit(installation, 'sftp://wide/file', 'sftp://wide/three');
    await completed([moving, elsewhere]);
    expect(await storyOf(installation, asDestination)).toEqual(['created', 'queued: admitted']);
    expect(await storyOf(installation, asSource)).toEqual(['created', 'queued: admitted']);
    proxy.throttle(Number.POSITIVE_INFINITY);
    await resumeEndpoint(installation.commands, pausedId, CAUSE);
    await completed([asDestination, asSource]);
  });
});
