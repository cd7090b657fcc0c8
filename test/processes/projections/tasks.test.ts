import { once } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { startTransfer } from '../../../src/commands/transfers.ts';
import { newId } from '../../../src/domain/ids.ts';
import { rebuildDispatch } from '../../../src/processes/dispatch/consumer.ts';
import { projectionStatus, type TaskStatus } from '../../../src/processes/projections/status.ts';
import {
  requestProjectionTask,
  runProjectionTasks,
  type TaskKind,
} from '../../../src/processes/projections/tasks.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG, longUnless } from '../../support/run/long.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';
import {
  type RunningRoles,
  type SpawnedService,
  spawnService,
  startDispatch,
} from '../../support/service/roles.ts';
import { storyOf, until } from '../../support/service/transfers.ts';

const ENDPOINT = {
  name: 'files',
  protocol: 'sftp',
  host: 'files.example.com',
  username: 'me',
  password: 'x',
};

describeWithPostgres('a requested rebuild', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation({ WAYBILL_LOG_LEVEL: 'info' });
    await configureEndpoint(installation, ENDPOINT);
    for (let i = 0; i < 5; i++)
      await submit(installation, 'sftp://elsewhere/a', `sftp://files/${i}`);
  });
  afterAll(() => installation?.close());

  const task = async (): Promise<TaskStatus> => {
    const status = await projectionStatus(installation);
    return status.find(({ name }) => name === 'transfers')?.rebuild as TaskStatus;
  };

  test('says in the log why it does not begin', async () => {
    const { sql, logger } = installation;
    await sql`alter table work.projection_tasks rename to tasks_elsewhere`;
    const log = vi.spyOn(logger, 'error');
    const stopping = new AbortController();
    const running = runProjectionTasks(installation, stopping.signal);
    try {
      await until('the error is logged', () => log.mock.calls.length > 0, 20);
    } finally {
      stopping.abort();
      await running;
      log.mockRestore();
      await sql`alter table work.tasks_elsewhere rename to projection_tasks`;
    }
  });

  test('has no status while the event store gives no events', LONG, async () => {
    const { sql, store, locks } = installation;
    const silent: typeof store = {
      ...store,
      // biome-ignore lint/correctness/useYield: it gives nothing until it is aborted.
      async *subscribe({ signal }) {
        await once(signal as AbortSignal, 'abort');
        throw signal?.reason;
      },
    };
    await expect(projectionStatus({ sql, store: silent, locks })).rejects.toThrow(
      EventStoreUnavailable,
    );
  });

  for (const end of ['kill', 'stop'] as const)
    test(`survives the end of its process: ${end}`, longUnless(end === 'kill'), async () => {
      const { sql, environment } = installation;
      const services: SpawnedService[] = [await spawnService(environment, ['projector'])];
      try {
        await sql.begin(async (tx) => {
          // The rebuild creates this schema, so it stops here.
          await tx`create schema rebuild_transfers`;
          await requestProjectionTask(sql, 'transfers', 'rebuild', 'test');
          await until('the rebuild has started', async () => (await task()).state === 'running');
          await services[0]?.[end]();
          await until(
            'the loss of the process is detected',
            async () => (await task()).state === 'waiting',
          );
        });
        services.push(await spawnService(environment, ['projector']));
        const done = await until('the end of the rebuild', async () =>
          (await task()).finished_at === null ? null : task(),
        );
        expect(done).toMatchObject({
          state: 'done',
          share: 1,
          events: 5,
          differences: [],
          error: null,
        });
        expect(
          await sql`select nspname from pg_namespace where nspname like 'rebuild%'`,
        ).toHaveLength(0);
      } finally {
        for (const service of services) await service.kill();
      }
    });
});

describeWithPostgres('a verification that was asked for', () => {
  test('starts over where a connection to Postgres was lost', LONG, async () => {
    const installation = await openTestInstallation();
    let lost = 0;
    const sql = new Proxy(installation.sql, {
      get: (target, name) =>
        name === 'begin' && lost++ === 0
          ? async () => Promise.reject(Object.assign(new Error(), { code: 'CONNECTION_CLOSED' }))
          : Reflect.get(target, name),
    });
    const stopping = new AbortController();
    await requestProjectionTask(installation.sql, 'catalog', 'verify', 'test');
    const running = runProjectionTasks({ ...installation, sql }, stopping.signal);
    const done = await until('its end', async () => {
      const status = await projectionStatus(installation);
      const task = status.find(({ name }) => name === 'catalog')?.verify;
      return task?.finished_at ? task : null;
    });
    stopping.abort();
    await running;
    await installation.close();
    expect(lost).toBeGreaterThan(1);
    expect(done).toMatchObject({ state: 'done', error: null });
  });

  test('reports no comparison with tables of another version', async () => {
    const installation = await openTestInstallation();
    await installation.sql`update read.checkpoints set version = 1 where name = 'catalog'`;
    await requestProjectionTask(installation.sql, 'catalog', 'verify', 'test');
    const stopping = new AbortController();
    const running = runProjectionTasks(installation, stopping.signal);
    const endOf = (kind: TaskKind) =>
      until(`the end of ${kind}`, async () => {
        const status = await projectionStatus(installation);
        const task = status.find(({ name }) => name === 'catalog')?.[kind];
        return task?.finished_at ? task : null;
      });
    expect(await endOf('verify')).toMatchObject({
      ...{ state: 'failed', differences: null },
      error: expect.stringContaining('nothing was compared'),
    });
    await requestProjectionTask(installation.sql, 'catalog', 'rebuild', 'test');
    expect(await endOf('rebuild')).toMatchObject({
      ...{ state: 'done', differences: null, error: null },
    });
    stopping.abort();
    await running;
    await installation.close();
  });
});

describeWithPostgres('jobs of movers that an older copy of the log does not know', () => {
  let installation: TestInstallation;
  let endpointId: string;
  let dispatch: RunningRoles;
  beforeEach(async () => {
    installation = await openTestInstallation();
    endpointId = await configureEndpoint(installation, ENDPOINT);
  });
  afterEach(async () => {
    await dispatch?.stop();
    await installation?.close();
  });

  /** Leaves a claim as a mover does that could not append the end of its attempt. */
  const leaveClaim = (transferId: string) => installation.sql`
    insert into work.transfer_jobs (
      transfer_id, account_id, status, revision, priority, rank, due_at, source, destination,
          destination_endpoint_id, claim_id, lease_until)
    values (${transferId}, 'acc_default', 'in_progress', 2, 'normal', now(), now(),
            'sftp://elsewhere/a', 'sftp://files/a', ${endpointId},
            ${newId('clm')}, now() - interval '1 hour')`;
  const jobs = () => installation.sql<
    { transfer_id: string; status: string; claim_id: string | null }[]
  >`
    select transfer_id, status, claim_id from work.transfer_jobs`;

  test('are derived again by a rebuild, without claims whose leases expired', LONG, async () => {
    const known = await submit(installation, 'sftp://elsewhere/a', 'sftp://files/a');
    for (const id of [known, newId('txr')]) await leaveClaim(id);
    await rebuildDispatch(installation.sql, installation.logId);
    dispatch = startDispatch(installation);
    await until('it is in the queue, and the other is gone', async () =>
      isDeepStrictEqual(
        [...(await jobs())],
        [{ transfer_id: known, status: 'queued', claim_id: null }],
      ),
    );
  });

  test('survive a rebuild until their leases expire, and delay no other jobs', async () => {
    dispatch = startDispatch(installation);
    const unknown = newId('txr');
    await leaveClaim(unknown);
    const id = await submit(installation, 'sftp://elsewhere/a', 'sftp://files/a');
    const claimId = newId('clm');
    await startTransfer(
      installation.commands,
      id,
      { claimId, source: null, destination: null },
      CAUSE,
    );
    await until('its claim is noted', async () =>
      (await jobs()).some(({ claim_id }) => claim_id === claimId),
    );
    await installation.sql`
      update work.transfer_jobs set lease_until = now() - interval '1 second'
       where transfer_id = ${id}`;
    await until(
      'the loss of its mover is detected',
      async () => (await storyOf(installation, id)).at(-1) === 'queued: mover_lost',
    );
    expect((await jobs()).map(({ transfer_id }) => transfer_id)).not.toContain(unknown);
  });
});
