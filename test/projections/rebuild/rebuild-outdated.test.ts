import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createKey } from '../../../src/commands/keys.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import { type Installation, openInstallation } from '../../../src/installation.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import { prepareReadModels } from '../../../src/projections/read-models.ts';
import { rebuildProjection } from '../../../src/projections/rebuild/rebuild.ts';
import { type Service, startService } from '../../../src/service.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';

const NEWER = 1_000;

interface Checks {
  checks: Record<string, { ok: boolean; detail: string }>;
}

describeWithPostgres('a process on the tables of another version', () => {
  let installation: TestInstallation;
  let key: string;
  let lines: string[];
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
    lines = [];
  });
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });

  async function makeOlder(): Promise<void> {
    const { sql } = installation;
    await sql`update read.checkpoints set version = 1 where name = 'transfers'`;
    // This version's fold cannot write to it.
    await sql`alter table read.transfers rename column state to older_state`;
  }

  /** As a rebuild of a newer version does that has just taken over. */
  const makeNewer = () =>
    installation.sql`update read.checkpoints set version = ${NEWER} where name = 'transfers'`;

  /** Starts a process of this version with all roles except movers. */
  async function startProcess(): Promise<{ service: Service; opened: Installation }> {
    const logger = pino({ level: 'warn' }, { write: (line) => void lines.push(line) });
    const opened = await openInstallation(installation.config, logger);
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
  const cancel = async ({ service }: { service: Service }, created: Response) => {
    const { id } = (await created.json()) as { id: string };
    return fetch(`${service.url}/v1/transfers/${id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${key}` },
    });
  };

  it('serves the API at once, and waits for a rebuild that another process runs', async () => {
    await makeOlder();
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
      const created = await create(each);
      expect(created.status).toBe(201);
      expect((await cancel(each, created)).status).toBe(200);
      // Neither waited for data that the older tables cannot show. A wait that times out turns this
      // check red.
      expect((await checks(each)).read_models?.ok).toBe(true);
    }
    expect(await version()).toBe(1);

    await elsewhere.release();
    await expect.poll(version, { timeout: 30_000 }).not.toBe(1);
    expect(await prepareReadModels(installation.sql, installation.logId)).toEqual(new Map());
    for (const each of started)
      await expect
        .poll(async () => (await checks(each)).transfers?.detail, { timeout: 30_000 })
        .toMatch(/active|standing by/);
    await expect
      .poll(async () => (await installation.sql`select from read.transfers`).length)
      .toBe(3);
  });

  it('ends on request before its rebuild', async () => {
    await makeOlder();
    await installation.locks.acquire(lockOf('transfers:rebuild'), AbortSignal.timeout(5_000));
    const { service } = await startProcess();
    const stopped = service.stop().then(() => 'stopped');
    expect(await Promise.race([stopped, sleep(10_000, 'runs', { ref: false })])).toBe('stopped');
    expect(await version()).toBe(1);
  });

  const LEFT = {
    ok: true,
    detail: "a newer version's tables; that version follows the log",
  };
  const rows = () => installation.sql`select from read.transfers`;

  it('leaves the tables of a newer version alone, and serves', async () => {
    await makeNewer();
    const started = await startProcess();
    expect((await checks(started)).transfers).toEqual(LEFT);
    expect(lines.join('')).toContain('a newer version of Waybill made these tables');
    expect((await create(started)).status).toBe(201);
    expect(await version()).toBe(NEWER);
    expect(await rows()).toHaveLength(0);
    await expect(
      rebuildProjection(installation, 'transfers', () => undefined),
    ).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/^A newer version of Waybill made the tables of transfers/),
    });
  });

  it('leaves tables alone that a newer version makes while it runs', async () => {
    const started = await startProcess();
    await expect
      .poll(async () => (await checks(started)).transfers?.detail, { timeout: 30_000 })
      .toMatch(/active/);
    await makeNewer();
    expect((await create(started)).status).toBe(201);
    await expect
      .poll(async () => (await checks(started)).transfers, { timeout: 30_000 })
      .toEqual(LEFT);
    expect(lines.join('')).toContain('a newer version of Waybill made these tables');
    expect(await version()).toBe(NEWER);
    expect(await rows()).toHaveLength(1);
  });
});
