import { afterAll, beforeAll, expect, test } from 'vitest';
import { projectionStatus, type TaskStatus } from '../../src/processes/projection-status.ts';
import { requestProjectionTask } from '../../src/processes/projection-tasks.ts';
import { configureEndpoint, openTestInstallation, submit, type TestInstallation } from '../support/installation.ts';
import { describeWithPostgres } from '../support/postgres.ts';
import { type SpawnedService, spawnService } from '../support/roles.ts';
import { until } from '../support/transfers.ts';

describeWithPostgres('a rebuild that was asked for', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation({ WAYBILL_LOG_LEVEL: 'info' });
    await configureEndpoint(installation, { name: 'files', protocol: 'sftp', host: 'files.example.com', username: 'me', password: 'x' });
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
