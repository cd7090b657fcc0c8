import { afterAll, beforeAll, expect, it } from 'vitest';
import { acceptHostKey, pauseEndpoint, removeEndpoint } from '../../../src/commands/endpoints.ts';
import { PRIORITIES } from '../../../src/domain/transfers/transfer.ts';
import { removeMover, reportMover } from '../../../src/processes/dispatch/live-movers.ts';
import { createQueue } from '../../../src/processes/dispatch/queue-estimate.ts';
import { rebuildProjection } from '../../../src/projections/rebuild/rebuild.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';

describeWithPostgres('the queueEstimate of a new transfer', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  const request = (name: string) => ({
    name,
    protocol: 'sftp',
    host: 'files.example.com',
    username: 'me',
    password: 'secret-1',
  });

  it('has the endpoints as they are now, also after a rebuild', async () => {
    const { commands, sql } = installation;
    const look = createQueue(installation.derived, {}).estimate;
    const endpoints = async () => (await look('acc_default', 'normal')).endpoints;
    expect(await endpoints()).toEqual([]);

    const id = await configureEndpoint(installation, request('b'));
    expect(await endpoints()).toMatchObject([
      { name: 'b', paused: false, settings: { host_key_sha256: null } },
    ]);
    await configureEndpoint(installation, request('a'));
    expect(await endpoints()).toMatchObject([{ name: 'a' }, { name: 'b' }]);
    expect(await endpoints()).toMatchObject([{ name: 'a' }, { name: 'b' }]);
    await acceptHostKey(commands, id, `SHA256:${'a'.repeat(43)}`, CAUSE);
    await pauseEndpoint(commands, id, CAUSE);
    expect((await endpoints())[1]).toMatchObject({
      paused: true,
      settings: { host_key_sha256: `SHA256:${'a'.repeat(43)}` },
    });

    await sql`update read.endpoints set state = jsonb_set(state, '{name}', '"wrong"') where endpoint_id = ${id}`;
    await rebuildProjection(installation, 'catalog', () => undefined);
    expect(await endpoints()).toMatchObject([{ name: 'a' }, { name: 'b' }]);
    await removeEndpoint(commands, id, CAUSE);
    expect(await endpoints()).toMatchObject([{ name: 'a' }]);
  });

  it('counts for each account and priority by itself, also where many ask at once', async () => {
    await configureEndpoint(installation, request('c'));
    for (const priority of ['high', 'normal', 'normal', 'low'])
      await submit(installation, 'sftp://c/1', 'sftp://c/2', { priority });
    await installation.commands.openTransfersOf('end_none');
    await installation.commands.waitFor('transfers', await installation.store.head());
    const looks = await Promise.all(
      PRIORITIES.map((priority) => installation.commands.queueEstimate('acc_default', priority)),
    );
    const other = await installation.commands.queueEstimate('acc_other', 'normal');
    expect([...looks, other].map(({ openTransfers }) => openTransfers)).toEqual([4, 4, 4, 0]);
    // No mover runs: one place is reckoned with, and a second for each transfer that comes first.
    expect(looks.map(({ startsInMs }) => startsInMs([]))).toEqual([5_000, 4_000, 2_000]);
  });

  it('passes over transfers that wait for a paused endpoint', async () => {
    const { commands } = installation;
    const estimate = async () =>
      (await createQueue(installation.derived, {}).estimate('acc_default', 'low')).startsInMs([]);
    const before = await estimate();
    const id = await configureEndpoint(installation, request('d'));
    await submit(installation, 'sftp://c/1', 'sftp://d/1');
    await submit(installation, 'sftp://d/1', 'sftp://c/1');
    await commands.openTransfersOf('end_none');
    await commands.waitFor('transfers', await installation.store.head());
    expect(await estimate()).toBe(before + 2_000);
    await pauseEndpoint(commands, id, CAUSE);
    await commands.waitFor('catalog', await installation.store.head());
    expect(await estimate()).toBe(before);
  });

  it('counts what waits for an endpoint without a free place only for that endpoint', async () => {
    const { commands, sql } = installation;
    const id = await configureEndpoint(installation, { ...request('e'), max_connections: 2 });
    const estimate = async () => {
      const { startsInMs } = await createQueue(installation.derived, {}).estimate(
        'acc_default',
        'low',
      );
      const at = (endpoint: string) => ({
        source_endpoint_id: null,
        destination_endpoint_id: endpoint,
      });
      return { elsewhere: startsInMs([at('end_other')]), there: startsInMs([at(id)]) };
    };
    const before = await estimate();
    const sources = ['sftp://e/1', 'sftp://e/2', 'sftp://e/3', 'sftp://e/4', 'sftp://e/5'];
    for (const source of sources) await submit(installation, source, 'sftp://c/1');
    await commands.openTransfersOf('end_none');
    await commands.waitFor('transfers', await installation.store.head());
    const waiting = await estimate();
    expect(waiting).toEqual({
      elsewhere: before.elsewhere + 5_000,
      there: before.there + 5_000,
    });

    const claimed = await sql`
      update work.transfer_jobs set claim_id = transfer_id, lease_until = now() + interval '1 hour'
       where source in ('sftp://e/1', 'sftp://e/2') returning 1`;
    expect(claimed).toHaveLength(2);
    // The three others wait for one of two places, and a new one after them.
    expect((await estimate()).elsewhere).toBe(before.elsewhere);
    const mover = { processId: 'one', slots: 100, active: 2, meanDurationMs: 500, movedBytes: 0 };
    await reportMover(sql, mover);
    expect(await estimate()).toEqual({ elsewhere: 0, there: 1_000 });
    await removeMover(sql, mover.processId, 0);
  });

  it('comes from a count of a moment ago while the queue is long', async () => {
    const { sql } = installation;
    await sql`
      insert into work.transfer_jobs (transfer_id, account_id, status, revision, priority, source,
        destination, destination_endpoint_id, due_at, rank)
      select 'txr_' || n, 'acc_default', 'queued', 1, 'normal', 'sftp://c/1', 'sftp://c/' || n,
             'end_c', now(), now()
        from generate_series(1, 20000) n`;
    const { estimate } = createQueue(installation.derived, {});
    const first = await estimate('acc_default', 'low');
    expect(first.startsInMs([])).toBeGreaterThan(20_000_000);
    await sql`truncate work.transfer_jobs`;
    await expect
      .poll(async () => (await estimate('acc_default', 'low')).startsInMs([]))
      .toBeLessThan(first.startsInMs([]));
  });
});
