import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { endAttempt, type Outcome, startTransfer } from '../../src/commands/transfers.ts';
import { claimTransfers } from '../../src/processes/dispatch/claims.ts';
import { createJobRecorder, dispatchConsumer } from '../../src/processes/dispatch/consumer.ts';
import { lowerPlaces } from '../../src/processes/dispatch/fewer-places.ts';
import type { Claim } from '../../src/processes/dispatch/job-table/leases.ts';
import { freeJob, renewJobs } from '../../src/processes/dispatch/job-table/leases.ts';
import { holdSignIn } from '../../src/processes/endpoints/sign-in-holds.ts';
import { findEndpoint } from '../../src/projections/catalog/queries.ts';
import type { Consumer } from '../../src/projections/consumer.ts';
import { catchUpIfIdle } from '../../src/projections/run-consumer.ts';
import { FIGURES, VERIFICATION } from '../support/domain/samples.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { holdRows } from '../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE, configureEndpoint } from '../support/service/installation.ts';

const NOTHING_ELSE = { until: null, endpoint_id: null, in_use: null, limit: null };
const MOVER = 'mover-1';
const COMPLETED: Outcome = {
  type: 'completed',
  sizeBytes: 1000,
  speedBps: 8000,
  checksumSha256: 'a'.repeat(64),
  verification: VERIFICATION,
};

describeWithPostgres('waiting_for', () => {
  let api: TestApi;
  let other: string;
  let endpoints = 0;
  let endpointId: string;
  let name: string;

  beforeAll(async () => {
    api = await startApi();
    other = (await api.createKey(['transfers:write'], { account: 'acc_other' })).key;
  });
  afterAll(() => api?.close());
  beforeEach(async () => {
    name = `bank-${++endpoints}`;
    endpointId = await configure();
    await movers(1);
  });
  afterEach(async () => {
    const { sql } = api.installation;
    await sql`truncate work.transfer_jobs, work.movers, work.sign_in_holds, work.fewer_places`;
  });

  const configure = (changes: Record<string, unknown> = {}) =>
    configureEndpoint(api.installation, {
      name,
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'me',
      password: 'secret-1',
      ...changes,
    });
  /** Registers one mover process with this many slots. */
  const movers = async (slots: number) => {
    const { sql } = api.installation;
    await sql`delete from work.movers`;
    if (slots > 0)
      await sql`insert into work.movers (process_id, slots, active) values (${MOVER}, ${slots}, 0)`;
  };
  const dispatch = () => catchUpIfIdle(api.installation, dispatchConsumer as Consumer);

  async function createOnly(key = api.key): Promise<string> {
    const json = { source_uri: `sftp://${name}/a`, destination_uri: 's3://archive/in/' };
    const { status, body } = await api.ask('POST', '/v1/transfers', { json, key });
    expect(status, JSON.stringify(body)).toBe(201);
    return body.id;
  }
  /** Creates a transfer that has a job. */
  async function create(key = api.key): Promise<string> {
    const id = await createOnly(key);
    await dispatch();
    return id;
  }
  /** Claims the next transfers as the mover does. */
  const claim = (count = 1) => claimTransfers(api.installation.sql, MOVER, count);
  const claimSmall = (count: number) =>
    claimTransfers(api.installation.sql, MOVER, count, { small: true });
  const started = async ({ transferId, claimId }: Claim) => {
    const attempt = { claimId, source: null, destination: null };
    return startTransfer(api.installation, transferId, attempt, CAUSE);
  };
  async function start(claimed: Claim): Promise<void> {
    const { position } = await started(claimed);
    await api.installation.commands.waitFor('transfers', position);
    await dispatch();
  }
  async function end({ transferId, claimId }: Claim, outcome: Outcome): Promise<void> {
    const { position } = await endAttempt(api.installation, transferId, claimId, outcome, CAUSE);
    await api.installation.commands.waitFor('transfers', position);
    await dispatch();
  }

  /** Returns what detail and list both say. */
  async function waitOf(id: string, key = api.key) {
    const { status, body } = await api.ask('GET', `/v1/transfers/${id}`, { key });
    expect(status).toBe(200);
    const list = await api.ask('GET', '/v1/transfers?limit=100', { key });
    const item = list.body.data.find((transfer: { id: string }) => transfer.id === id);
    expect(item.waiting_for).toEqual(body.waiting_for);
    return body.waiting_for;
  }

  test('no_mover: with and without a job, until a mover was seen', async () => {
    await movers(0);
    const noMover = { reason: 'no_mover', message: 'No mover is running.', ...NOTHING_ELSE };
    const id = await createOnly();
    expect(await waitOf(id)).toEqual(noMover);
    await dispatch();
    expect(await waitOf(id)).toEqual(noMover);
    await movers(1);
    expect(await waitOf(id)).toMatchObject({ reason: 'starting' });
    await api.installation.sql`update work.movers set seen_at = now() - interval '16 seconds'`;
    expect(await waitOf(id)).toEqual(noMover);
  });

  test('dispatch_behind: no process has written the job yet, or a rebuild has not come to it', async () => {
    const id = await createOnly();
    expect(await waitOf(id)).toMatchObject({ reason: 'dispatch_behind', ...NOTHING_ELSE });
    await dispatch();
    expect(await waitOf(id)).toMatchObject({ reason: 'starting' });
    await api.installation.sql`
      update work.transfer_jobs set revision = -1, status = 'in_progress'
       where transfer_id = ${id}`;
    expect(await waitOf(id)).toMatchObject({ reason: 'dispatch_behind' });
  });

  test('starting, then null: claimed, moving, and ended', async () => {
    const id = await create();
    expect(await waitOf(id)).toEqual({
      reason: 'starting',
      message: 'A mover has a free slot and takes this transfer in a moment.',
      ...NOTHING_ELSE,
    });
    const [claimed] = (await claim()) as [Claim];
    expect(claimed.transferId).toBe(id);
    expect(await waitOf(id)).toBeNull();
    await start(claimed);
    expect(await waitOf(id)).toBeNull();
    await end(claimed, COMPLETED);
    expect(await waitOf(id)).toBeNull();
    const then = await api.ask('GET', `/v1/transfers/${id}?as_of=0`);
    expect(then.body).toMatchObject({ status: 'pending', waiting_for: null });
  });

  test('endpoint_paused: the source or the destination, also before a retry', async () => {
    const id = await create();
    await pauseEndpoint(api.installation.commands, endpointId, CAUSE);
    await api.installation.commands.catchUp('catalog');
    const paused = {
      ...NOTHING_ELSE,
      reason: 'endpoint_paused',
      message: `The endpoint ${name} is paused.`,
      endpoint_id: endpointId,
    };
    expect(await waitOf(id)).toEqual(paused);
    await api.installation.sql`update work.transfer_jobs set due_at = now() + interval '1 hour'`;
    expect(await waitOf(id)).toEqual(paused);
    await api.installation.sql`
      update work.transfer_jobs
         set source_endpoint_id = null, destination_endpoint_id = ${endpointId}`;
    expect(await waitOf(id)).toEqual(paused);
    await resumeEndpoint(api.installation.commands, endpointId, CAUSE);
    await api.installation.commands.catchUp('catalog');
    expect(await waitOf(id)).toMatchObject({ reason: 'retry_at' });
  });

  test('names no endpoint that the account may not use any more', async () => {
    const id = await create();
    await configure({ accounts: ['acc_other'], max_connections: 1 });
    await pauseEndpoint(api.installation.commands, endpointId, CAUSE);
    await api.installation.commands.catchUp('catalog');
    expect(await waitOf(id)).toEqual({
      reason: 'endpoint_paused',
      message: 'An endpoint of this transfer is paused.',
      ...NOTHING_ELSE,
    });
    await resumeEndpoint(api.installation.commands, endpointId, CAUSE);
    await api.installation.commands.catchUp('catalog');
    const ofOther = await create(other);
    await api.installation.sql`
      update work.transfer_jobs set rank = rank - interval '1 hour' where transfer_id = ${ofOther}`;
    expect(await claim()).toMatchObject([{ transferId: ofOther }]);
    expect(await waitOf(id)).toEqual({
      reason: 'endpoint_full',
      message: 'An endpoint of this transfer is full.',
      ...NOTHING_ELSE,
    });
  });

  test('endpoint_full: n of n, without a word about the transfers of other accounts', async () => {
    await configure({ max_connections: 1 });
    await api.installation.commands.catchUp('catalog');
    await movers(5);
    const theirs = await create(other);
    expect(await claim()).toMatchObject([{ transferId: theirs }]);
    const id = await create();
    expect(await waitOf(id)).toEqual({
      reason: 'endpoint_full',
      message: `The endpoint ${name} is full: 1 of 1 places are taken.`,
      until: null,
      endpoint_id: endpointId,
      in_use: 1,
      limit: 1,
    });
    expect(await claim()).toEqual([]);
  });

  test('endpoint_full: of fewer places after a transfer has found no connection, one more a minute', async () => {
    await configure({ max_connections: 8 });
    await api.installation.commands.catchUp('catalog');
    await movers(5);
    const { sql } = api.installation;
    await create(other);
    expect(await claim()).toHaveLength(1);
    expect(await lowerPlaces(sql, endpointId)).toBe(false);
    for (let moving = 2; moving <= 4; moving++) {
      await create(other);
      expect(await claim()).toHaveLength(1);
    }
    expect(await lowerPlaces(sql, endpointId)).toBe(true);
    expect(await lowerPlaces(sql, endpointId)).toBe(true);
    const id = await create();
    expect(await waitOf(id)).toMatchObject({ reason: 'endpoint_full', in_use: 4, limit: 2 });
    const passMinutes = (minutes: number) =>
      sql`update work.fewer_places set until = until - ${minutes} * interval '1 minute'`;
    await passMinutes(2);
    expect(await waitOf(id)).toMatchObject({ reason: 'endpoint_full', in_use: 4, limit: 4 });
    expect(await claim()).toEqual([]);
    await passMinutes(1);
    expect(await claim()).toMatchObject([{ transferId: id }]);
  });

  test('endpoint_full: eight small files for each connection, and one if a large file moves', async () => {
    await configure({ max_connections: 1 });
    await api.installation.commands.catchUp('catalog');
    await movers(20);
    const ids = await Promise.all(Array.from({ length: 10 }, () => createOnly()));
    await dispatch();
    const claimed = await claimSmall(9);
    expect(claimed).toHaveLength(8);
    const waiting = ids.find((id) => claimed.every(({ transferId }) => transferId !== id));
    expect(await waitOf(waiting as string)).toMatchObject({
      reason: 'endpoint_full',
      message: `The endpoint ${name} is full: 8 of 8 places are taken.`,
    });

    const [first, second, ...others] = claimed as [Claim, Claim, ...Claim[]];
    for (const claim of others) await freeJob(api.installation.sql, claim);
    const figures = { transferred_bytes: 0, size_bytes: 300_000, speed_bps: null };
    await renewJobs(api.installation.sql, [{ ...first, figures }]);
    expect(await claimSmall(9)).toEqual([]);
    expect(await waitOf(waiting as string)).toMatchObject({
      reason: 'endpoint_full',
      message: `The endpoint ${name} is full: 2 of 1 places are taken.`,
    });
    await freeJob(api.installation.sql, second);
    expect(await claimSmall(9)).toEqual([]);
  });

  test('endpoint_full: its last free place is kept for a transfer that waits for two', async () => {
    await configure({ max_connections: 1 });
    await configureEndpoint(api.installation, {
      name: `${name}-2`,
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'other',
      password: 'secret-1',
      max_connections: 1,
    });
    await api.installation.commands.catchUp('catalog');
    await movers(5);
    const between = async (from: string, to: string) => {
      const json = { source_uri: `${from}/a`, destination_uri: `${to}/b` };
      const { status, body } = await api.ask('POST', '/v1/transfers', { json });
      expect(status, JSON.stringify(body)).toBe(201);
      await dispatch();
      return body.id as string;
    };
    await between('s3://archive', `sftp://${name}-2`);
    expect(await claim()).toHaveLength(1);
    const starved = await between(`sftp://${name}`, `sftp://${name}-2`);
    const behind = await create();
    expect(await waitOf(behind)).toMatchObject({ reason: 'starting' });
    await api.installation.sql`
      update work.transfer_jobs
         set rank = rank - interval '11 minutes', due_at = due_at - interval '11 minutes'
       where transfer_id = ${starved}`;
    expect(await waitOf(behind)).toEqual({
      reason: 'endpoint_full',
      message: `The endpoint ${name} keeps its last free place for a transfer that has waited longer.`,
      until: null,
      endpoint_id: endpointId,
      in_use: 0,
      limit: 1,
    });
    expect(await waitOf(starved)).toMatchObject({
      message: `The endpoint ${name}-2 is full: 1 of 1 places are taken.`,
    });
    expect(await claim()).toEqual([]);
  });

  test('a full endpoint takes no place of another from the transfers behind', async () => {
    await configureEndpoint(api.installation, {
      name: `${name}-2`,
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'other',
      password: 'secret-1',
      max_connections: 1,
    });
    await api.installation.commands.catchUp('catalog');
    await movers(5);
    const between = async (from: string, to: string) => {
      const json = { source_uri: `sftp://${from}/a`, destination_uri: `sftp://${to}/b` };
      const { status, body } = await api.ask('POST', '/v1/transfers', { json });
      expect(status, JSON.stringify(body)).toBe(201);
      return body.id as string;
    };
    await configure({ max_connections: 2 });
    await api.installation.commands.catchUp('catalog');
    const first = await between(`${name}-2`, name);
    await between(`${name}-2`, name);
    const last = await between(name, name);
    await dispatch();
    const claims = await claim(3);
    expect(claims.map(({ transferId }) => transferId)).toEqual([first, last]);
  });

  test('movers_busy: how many transfers of the account come first, by priority and age', async () => {
    const moving = await create();
    expect(await claim()).toMatchObject([{ transferId: moving }]);
    const [first, second] = [await create(), await create()];
    const busy = (more: string) => ({
      reason: 'movers_busy',
      message: `All movers are busy. ${more}`,
      ...NOTHING_ELSE,
    });
    expect(await waitOf(first)).toEqual(busy('This transfer is next.'));
    expect(await waitOf(second)).toEqual(
      busy('Ahead of this transfer: 1 other transfer of this account.'),
    );
    await api.installation.sql`
      update work.transfer_jobs set rank = rank - interval '1 hour' where transfer_id = ${second}`;
    expect(await waitOf(second)).toEqual(busy('This transfer is next.'));
    // One that cannot move is not ahead.
    await api.installation.sql`
      update work.transfer_jobs set due_at = now() + interval '1 hour'
       where transfer_id = ${second}`;
    expect(await waitOf(first)).toEqual(busy('This transfer is next.'));
  });

  test('fair_share: an account with fewer moving transfers gets the next slot', async () => {
    const moving = await create();
    expect(await claim()).toMatchObject([{ transferId: moving }]);
    const [first, second] = [await create(), await create()];
    const theirs = await create(other);
    const share = (more: string) => ({
      reason: 'fair_share',
      message: `All movers are busy. Another account has its turn first${more}.`,
      ...NOTHING_ELSE,
    });
    expect(await waitOf(first)).toEqual(share(''));
    expect(await waitOf(second)).toEqual(share(', then 1 other transfer of this account'));
    expect(await waitOf(theirs, other)).toMatchObject({
      reason: 'movers_busy',
      message: 'All movers are busy. This transfer is next.',
    });
    expect(await claim()).toMatchObject([{ transferId: theirs }]);
    expect(await waitOf(first)).toMatchObject({ reason: 'movers_busy' });
  });

  test('retry_at: the time of the next attempt', async () => {
    const id = await create();
    const [claimed] = (await claim()) as [Claim];
    await start(claimed);
    const failure = { code: 'timeout', message: 'no answer', phase: 'read' } as const;
    await end(claimed, { type: 'failed', failure, figures: FIGURES, retryDelays: [60_000] });
    const [{ due_at }] = (await api.installation.sql`
      select due_at from work.transfer_jobs where transfer_id = ${id}`) as [{ due_at: string }];
    expect(Date.parse(due_at)).toBeGreaterThan(Date.now() + 50_000);
    expect(await waitOf(id)).toEqual({
      ...NOTHING_ELSE,
      reason: 'retry_at',
      message: 'The last attempt failed. The transfer waits for the next one.',
      until: due_at,
    });
  });

  test('sign_ins_on_hold: with the end of the hold, until the credentials change', async () => {
    const id = await create();
    const { sql, commands } = api.installation;
    const endpoint = await findEndpoint(api.installation, endpointId);
    await holdSignIn(sql, endpoint as NonNullable<typeof endpoint>);
    const [{ until }] = (await sql`select until from work.sign_in_holds`) as [{ until: string }];
    expect(await waitOf(id)).toEqual({
      ...NOTHING_ELSE,
      reason: 'sign_ins_on_hold',
      message:
        `The endpoint ${name} rejected a sign-in, so sign-ins are on hold. If the turn of this ` +
        'transfer comes before the end of the hold, the transfer fails.',
      endpoint_id: endpointId,
      until,
    });
    await configure({ password: 'secret-2' });
    await commands.catchUp('catalog');
    expect(await waitOf(id)).toMatchObject({ reason: 'starting' });
  });

  test('previous_lease: the mover is silent; no_mover if there is no other', async () => {
    const id = await create();
    const [claimed] = (await claim()) as [Claim];
    const { sql } = api.installation;
    const expectLease = async () => {
      const [{ lease_until }] = (await sql`
        update work.transfer_jobs set lease_until = now() + interval '24 seconds'
        returning lease_until`) as [{ lease_until: string }];
      expect(await waitOf(id)).toEqual({
        ...NOTHING_ELSE,
        reason: 'previous_lease',
        message:
          'The mover of this transfer does not renew its lease. Another one takes over when the ' +
          'lease ends.',
        until: lease_until,
      });
      await sql`update work.transfer_jobs set lease_until = now() + interval '29 seconds'`;
      expect(await waitOf(id)).toBeNull();
    };
    await expectLease();
    await start(claimed);
    await expectLease();
    await sql`update work.transfer_jobs set lease_until = now() - interval '1 hour'`;
    expect(await waitOf(id)).toMatchObject({ reason: 'previous_lease' });
    await movers(0);
    expect(await waitOf(id)).toMatchObject({ reason: 'no_mover' });
  });

  test('catalog_behind: the catalog lacks an endpoint, so no mover claims the transfer', async () => {
    const id = await create();
    const { sql } = api.installation;
    await sql`delete from read.endpoints where endpoint_id = ${endpointId}`;
    expect(await waitOf(id)).toMatchObject({ reason: 'catalog_behind', ...NOTHING_ELSE });
    expect(await claim()).toEqual([]);
  });

  test('read_model_behind: the transfer moves or has ended, and only the status is older', async () => {
    const { sql } = api.installation;
    const [moving, ended] = [await create(), await create()];
    await api.installation.commands.catchUp('transfers');
    await movers(2);
    const claims = await claim(2);
    const record = createJobRecorder(sql);
    const lock = await holdRows(
      sql,
      (tx) => tx`select from read.checkpoints where name = 'transfers' for update`,
    );
    try {
      for (const claimed of claims) await record(await started(claimed));
      const last = claims.find(({ transferId }) => transferId === ended) as Claim;
      await record(await endAttempt(api.installation, ended, last.claimId, COMPLETED, CAUSE));
      await dispatch();
      for (const id of [moving, ended]) {
        const { body } = await api.ask('GET', `/v1/transfers/${id}`);
        expect(body.status).toBe('pending');
        expect(await waitOf(id)).toMatchObject({ reason: 'read_model_behind', ...NOTHING_ELSE });
      }
    } finally {
      await lock.release();
    }
    await api.installation.commands.catchUp('transfers');
    expect(await waitOf(moving)).toBeNull();
    expect(await waitOf(ended)).toBeNull();
  });
});
