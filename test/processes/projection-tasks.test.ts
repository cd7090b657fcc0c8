import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTransfer } from '../../src/commands/transfers.ts';
import { newId } from '../../src/domain/ids.ts';
import { rebuildDispatch } from '../../src/processes/jobs.ts';
import { projectionStatus, type TaskStatus } from '../../src/processes/projection-status.ts';
import { requestProjectionTask } from '../../src/processes/projection-tasks.ts';
import { CAUSE, configureEndpoint, openTestInstallation, submit, type TestInstallation } from '../support/installation.ts';
import { describeWithPostgres } from '../support/postgres.ts';
import { type RunningRoles, type SpawnedService, spawnService, startDispatch } from '../support/roles.ts';
import { storyOf, until } from '../support/transfers.ts';

const ENDPOINT = { name: 'files', protocol: 'sftp', host: 'files.example.com', username: 'me', password: 'x' };

describeWithPostgres('a rebuild that was asked for', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation({ WAYBILL_LOG_LEVEL: 'info' });
    await configureEndpoint(installation, ENDPOINT);
    for (let i = 0; i < 5; i++) await submit(installation, 'sftp://elsewhere/a', `sftp://files/${i}`);
  });
  afterAll(() => installation?.close());

  const task = async (): Promise<TaskStatus> => {
    const status = await projectionStatus(installation);
    return status.find(({ name }) => name === 'transfers')?.rebuild as TaskStatus;
  };

  test.each(['kill', 'stop'] as const)('outlives its process: %s', { timeout: 90_000 }, async (end) => {
    const { sql, environment } = installation;
    const services: SpawnedService[] = [await spawnService(environment, ['projector'])];
    try {
      await sql.begin(async (tx) => {
        // The schema that a rebuild makes: it gets no further.
        await tx`create schema rebuild_transfers`;
        await requestProjectionTask(sql, 'transfers', 'rebuild', 'test');
        await until('the rebuild to begin', async () => (await task()).state === 'running');
        await services[0]?.[end]();
        await until('the process to be missed', async () => (await task()).state === 'waiting');
      });
      services.push(await spawnService(environment, ['projector']));
      const done = await until('the end of the rebuild', async () => ((await task()).finished_at === null ? null : task()));
      expect(done).toMatchObject({ state: 'done', share: 1, events: 5, differences: [], error: null });
      expect(await sql`select nspname from pg_namespace where nspname like 'rebuild%'`).toHaveLength(0);
    } finally {
      for (const service of services) await service.kill();
    }
  });
});

describeWithPostgres('to-do rows of movers that an older copy of the log does not know', () => {
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

  /** As a mover leaves it that could not append how its attempt ended. */
  const leaveClaim = (transferId: string) => installation.sql`
    insert into work.transfer_jobs (
      transfer_id, account_id, status, revision, priority, rank, due_at, source, destination, destination_endpoint_id, claim_id, lease_until)
    values (${transferId}, 'acc_default', 'in_progress', 2, 'normal', now(), now(), 'sftp://elsewhere/a', 'sftp://files/a', ${endpointId},
            ${newId('clm')}, now() - interval '1 hour')`;
  const jobs = () => installation.sql<{ transfer_id: string; status: string; claim_id: string | null }[]>`
    select transfer_id, status, claim_id from work.transfer_jobs`;

  test('are made anew by a rebuild, with none of the claims whose leases ran out', async () => {
    const known = await submit(installation, 'sftp://elsewhere/a', 'sftp://files/a');
    for (const id of [known, newId('txr')]) await leaveClaim(id);
    await rebuildDispatch(installation.sql, installation.logId);
    dispatch = startDispatch(installation);
    await until('it is in the queue', async () => (await jobs()).some(({ status }) => status === 'queued'));
    expect(await jobs()).toEqual([{ transfer_id: known, status: 'queued', claim_id: null }]);
  });

  test('that outlive a rebuild go when their leases run out, and hold up none of the other movers that are lost', async () => {
    dispatch = startDispatch(installation);
    const unknown = newId('txr');
    await leaveClaim(unknown);
    const id = await submit(installation, 'sftp://elsewhere/a', 'sftp://files/a');
    const claimId = newId('clm');
    await startTransfer(installation.commands, id, { claimId, source: null, destination: null }, CAUSE);
    await until('its claim is noted', async () => (await jobs()).some(({ claim_id }) => claim_id === claimId));
    await installation.sql`update work.transfer_jobs set lease_until = now() - interval '1 second' where transfer_id = ${id}`;
    await until('its mover is missed', async () => (await storyOf(installation, id)).at(-1) === 'queued: mover_lost');
    expect((await jobs()).map(({ transfer_id }) => transfer_id)).not.toContain(unknown);
  });
});
