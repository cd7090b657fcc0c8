import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createKey } from '../../../src/commands/keys.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import { type Installation, openInstallation } from '../../../src/installation.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import { prepareReadModels } from '../../../src/projections/read-models.ts';
import { type Service, startService } from '../../../src/service.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';

interface Checks {
  checks: Record<string, { ok: boolean; detail: string }>;
}

describeWithPostgres('a start on the tables of an older version', () => {
  let installation: TestInstallation;
  let key: string;
  const undo: (() => Promise<unknown>)[] = [];
  beforeEach(async () => {
    installation = await openTestInstallation();
    undo.push(() => installation.close());
    await configureEndpoint(installation, {
      name: 'files',
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'me',
      password: 'x',
    });
    const request = keyRequest.parse({
      name: 'test',
      account: 'acc_default',
      scopes: ['transfers:write'],
      expires_in: '1h',
    });
    ({ key } = await createKey(installation.commands, request, CAUSE, { allowNever: false }));
    await submit(installation, 'sftp://elsewhere/a', 'sftp://files/a');
    // This version's fold cannot write to it.
    const { sql } = installation;
    await sql`update read.checkpoints set version = 1 where name = 'transfers'`;
    await sql`alter table read.transfers rename column state to older_state`;
  });
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });

  /** Starts a process of this version with all roles except movers. */
  async function startProcess(): Promise<{ service: Service; opened: Installation }> {
    const opened = await openInstallation(installation.config, installation.logger);
    undo.push(() => opened.close());
    const service = await startService(opened, ['api', 'projector', 'webhooks', 'monitor']);
    undo.push(() => service.stop());
    return { service, opened };
  }

  const version = async () => {
    const rows = await installation.sql<
      { version: number }[]
    >`select version from read.checkpoints where name = 'transfers'`;
    return rows[0]?.version;
  };
  const checks = async ({ service }: { service: Service }) =>
    ((await (await fetch(`${service.url}/health/ready`)).json()) as Checks).checks;
  const create = ({ service }: { service: Service }) =>
    fetch(`${service.url}/v1/transfers`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: '{"source_uri":"sftp://elsewhere/b","destination_uri":"sftp://files/b"}',
    });

  it('serves the API at once, and waits for a rebuild that another process runs', async () => {
    const elsewhere = await installation.locks.acquire(
      lockOf('transfers:rebuild'),
      AbortSignal.timeout(5_000),
    );
    const started = await Promise.all([startProcess(), startProcess()]);
    for (const each of started) {
      expect((await checks(each)).transfers).toEqual({
        ok: true,
        detail: "an older version's tables are being rebuilt by another process",
      });
      const asked = performance.now();
      expect((await create(each)).status).toBe(201);
      // It does not wait for data that the older tables cannot show.
      expect(performance.now() - asked).toBeLessThan(4_500);
      expect((await checks(each)).read_models?.ok).toBe(true);
    }
    expect(await version()).toBe(1);

    await elsewhere.release();
    await expect.poll(version, { timeout: 30_000 }).not.toBe(1);
    expect(await prepareReadModels(installation.sql, installation.logId)).toEqual([]);
    for (const each of started)
      await expect
        .poll(async () => (await checks(each)).transfers?.detail, { timeout: 30_000 })
        .toMatch(/active|standing by/);
    await expect
      .poll(async () => (await installation.sql`select from read.transfers`).length)
      .toBe(3);
  });

  it('ends on request before its rebuild', async () => {
    await installation.locks.acquire(lockOf('transfers:rebuild'), AbortSignal.timeout(5_000));
    const { service } = await startProcess();
    const stopped = service.stop().then(() => 'stopped');
    expect(await Promise.race([stopped, sleep(10_000, 'runs', { ref: false })])).toBe('stopped');
    expect(await version()).toBe(1);
  });
});
