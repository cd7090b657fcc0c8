import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTransfer } from '../../src/commands/create-transfer.ts';
import { revokeKey } from '../../src/commands/keys.ts';
import { cancelTransfer, startTransfer } from '../../src/commands/transfers.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { dispatchConsumer } from '../../src/processes/dispatch/consumer.ts';
import { runConsumer } from '../../src/projections/run-consumer.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { follow } from '../support/http/server-events.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';
import { until } from '../support/service/transfers.ts';

interface Live {
  transfers: Record<string, unknown>[];
  more_ended: number;
}

describeWithPostgres('transfers under administration', () => {
  let api: TestApi;
  let admin: string;
  let other: string;
  const stopping = new AbortController();
  let dispatch: Promise<void>;
  beforeAll(async () => {
    api = await startApi({ heartbeatMs: 200 });
    admin = (await api.createKey(['admin'])).key;
    other = (await api.createKey(['transfers:write'], { account: 'acc_other' })).key;
    dispatch = runConsumer(api.installation, dispatchConsumer, stopping.signal, () => undefined);
  });
  afterAll(async () => {
    stopping.abort();
    await dispatch;
    await api?.close();
  });

  const live = `/v1/transfers/live`;
  const create = async (name: string, key = other): Promise<string> => {
    const json = { source_uri: `sftp://elsewhere/${name}`, destination_uri: 's3://archive/in/' };
    const { body } = await api.ask('POST', '/v1/transfers', { json, key });
    await until(
      'its job',
      async () =>
        (await api.installation.sql`select from work.transfer_jobs where transfer_id = ${body.id}`)
          .length,
    );
    return body.id;
  };
  const start = async (id: string): Promise<void> => {
    const claim = { claimId: newId('clm'), source: null, destination: null };
    const { position } = await startTransfer(api.installation.commands, id, claim, CAUSE);
    await api.installation.commands.waitFor('transfers', position);
    await until(
      'its claim',
      async () =>
        (
          await api.installation
            .sql`select from work.transfer_jobs where claim_id = ${claim.claimId}`
        ).length,
    );
  };
  const move = (id: string, bytes: number) => api.installation.sql`
    update work.transfer_jobs set size_bytes = 1000, transferred_bytes = ${bytes}, speed_bps = 800
     where transfer_id = ${id}`;

  test('can be watched: the open ones, their progress and their end', async () => {
    const id = await create('moves.bin');
    const stream = await follow<Live>(api.url + live, admin);
    const latest = () =>
      stream.events
        .flatMap(({ data }) => data.transfers)
        .filter((transfer) => transfer.id === id)
        .at(-1);
    await until('the snapshot', latest);
    expect(stream.events[0]).toMatchObject({ event: 'snapshot' });
    expect(latest()).toMatchObject({
      status: 'pending',
      account: 'acc_other',
      file_name: 'moves.bin',
      seconds_left: null,
      waiting_for: { reason: 'no_mover' },
    });

    await start(id);
    await until('its start', () => latest()?.status === 'in_progress');
    await move(id, 500);
    await until('its progress', () => latest()?.progress_pct === 50);
    expect(latest()).toMatchObject({
      size_bytes: 1000,
      transferred_bytes: 500,
      speed_bps: 800,
      seconds_left: 5,
    });

    await api.ask('POST', `/v1/transfers/${id}/abort`, { key: admin });
    await until('its end', () => latest()?.status === 'failed');
    expect(latest()).toMatchObject({ error: { code: 'aborted_by_operator' }, seconds_left: null });
    expect(new Set(stream.events.slice(1).map(({ event }) => event))).toEqual(new Set(['changes']));

    const later = await follow<Live>(api.url + live, admin);
    const [snapshot] = await until('the snapshot', () =>
      later.events.length > 0 ? later.events : null,
    );
    expect(snapshot?.data.transfers.map((transfer) => transfer.id)).not.toContain(id);
    later.leave();
    stream.leave();
    await Promise.all([later.ended, stream.ended]);
  });

  test('can be watched one by one, from before their start until after their end', async () => {
    const [id, another] = [await create('one.bin'), await create('another.bin')];
    const stream = await follow<Live>(`${api.url}${live}?transfer_id=${id}`, admin);
    await until('the snapshot', () => stream.events.length > 0);
    for (const each of [another, id])
      await api.ask('DELETE', `/v1/transfers/${each}`, { key: other });
    await until('its end', () => stream.events.at(-1)?.data.transfers[0]?.status === 'cancelled');
    expect(
      stream.events.flatMap(({ data }) => data.transfers.map((transfer) => transfer.id)),
    ).toEqual(expect.not.arrayContaining([another]));
    stream.leave();
    await stream.ended;

    const ended = await follow<Live>(`${api.url}${live}?transfer_id=${id}`, admin);
    await until('the snapshot', () => ended.events.length > 0);
    expect(ended.events[0]).toMatchObject({
      event: 'snapshot',
      data: { transfers: [{ id, status: 'cancelled' }] },
    });
    ended.leave();
    await ended.ended;
  });

  test.each(['nonsense', 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'])(
    'that do not exist (%s) cannot be watched',
    async (id) => {
      expect(await api.ask('GET', `${live}?transfer_id=${id}`, { key: admin })).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
    },
  );

  test('cost one query at a time, for any number of watchers', async () => {
    const streams = await Promise.all(
      Array.from({ length: 20 }, () => follow<Live>(api.url + live, admin)),
    );
    await until('all snapshots', () => streams.every(({ events }) => events.length > 0));
    const id = await create('seen-by-all.bin');
    await until('the notification', () =>
      streams.every(({ events }) =>
        events.some(({ data }) => data.transfers.some((t) => t.id === id)),
      ),
    );
    for (const { leave } of streams) leave();
    await Promise.all(streams.map(({ ended }) => ended));
  });

  test('are announced or counted if they begin and end between two looks', async () => {
    const { commands } = api.installation;
    const stream = await follow<Live>(api.url + live, admin);
    await until('the snapshot', () => stream.events.length > 0);
    const body = transferRequest.parse({
      source_uri: 'sftp://elsewhere/quick.bin',
      destination_uri: 's3://archive/in/',
    });
    const begun = await Promise.all(
      Array.from({ length: 150 }, () => createTransfer(commands, 'acc_other', body, CAUSE)),
    );
    const ids = begun.map(({ state }) => state.facts.transfer_id);
    const ended = await Promise.all(ids.map((id) => cancelTransfer(commands, id, CAUSE)));
    const last = ended.map(({ position }) => position ?? 0n).reduce((a, b) => (b > a ? b : a));
    await commands.waitFor('transfers', last);

    const told = () =>
      stream.events
        .flatMap(({ data }) => data.transfers)
        .filter(({ id, status }) => status === 'cancelled' && ids.includes(id as string)).length;
    const counted = () => stream.events.reduce((sum, { data }) => sum + data.more_ended, 0);
    await until('all ends', () => told() + counted() >= ids.length);
    expect(told()).toBeGreaterThan(0);
    expect(told() + counted()).toBe(ids.length);
    stream.leave();
    await stream.ended;
  });

  describe('of an account', () => {
    const account = 'acc_beside_a_busy_one';
    const body = transferRequest.parse({
      source_uri: 'sftp://elsewhere/beside.bin',
      destination_uri: 's3://archive/in/',
    });
    let key: string;
    beforeAll(async () => {
      ({ key } = await api.createKey(['observe'], { account }));
    });

    /** Creates transfers, and waits until the read model has them. Returns their ids. */
    async function createMany(owner: string, count: number): Promise<string[]> {
      const { commands } = api.installation;
      const begun = await Promise.all(
        Array.from({ length: count }, () => createTransfer(commands, owner, body, CAUSE)),
      );
      for (const { position } of begun) await commands.waitFor('transfers', position ?? 0n);
      return begun.map(({ state }) => state.facts.transfer_id);
    }

    async function cancelMany(ids: string[]): Promise<void> {
      const { commands } = api.installation;
      const ended = await Promise.all(ids.map((id) => cancelTransfer(commands, id, CAUSE)));
      for (const { position } of ended) await commands.waitFor('transfers', position ?? 0n);
    }

    /** Makes transfers look created a minute ago, so that they are none of the recent ones. */
    const age = (ids: string[]) => api.installation.sql`
      update read.transfers set created_at = created_at - interval '1 minute'
       where transfer_id = any(${ids}::text[])`;

    test('are in its snapshot, also beside many newer ones of another', async () => {
      const own = await createMany(account, 3);
      const foreign = await createMany('acc_other', 210);
      const stream = await follow<Live>(api.url + live, key);
      await until('the snapshot', () => stream.events.length > 0);
      const shown = stream.events[0]?.data.transfers.map(({ id }) => id);
      expect(shown?.toSorted()).toEqual(own.toSorted());
      await cancelMany(own);
      const ended = () =>
        stream.events
          .flatMap(({ data }) => data.transfers)
          .filter(({ status }) => status === 'cancelled');
      await until('the ends', () => ended().length >= own.length);
      stream.leave();
      await stream.ended;
      await cancelMany(foreign);
    });

    test('are counted if they end without having been among the newest', async () => {
      const older = await createMany(account, 30);
      const newer = await createMany(account, 200);
      await age([...older, ...newer]);
      const stream = await follow<Live>(api.url + live, key);
      await until('the snapshot', () => stream.events.length > 0);
      expect(stream.events[0]?.data.transfers).toHaveLength(200);
      await cancelMany(older);
      const counted = () => stream.events.reduce((sum, { data }) => sum + data.more_ended, 0);
      await until('the count', () => counted() >= older.length);
      expect(counted()).toBe(older.length);
      stream.leave();
      await stream.ended;
      await cancelMany(newer);
    });
  });

  test('end their streams in good order when the service stops', async () => {
    const server = await api.startServer();
    const stream = await follow<Live>(server.url + live, admin);
    await until('the snapshot', () => stream.events.length > 0);
    await server.app.close();
    await stream.ended;
  });

  test('of other accounts are not shown, also if they have just ended', async () => {
    const scopes = ['observe', 'transfers:write'] as const;
    const { key } = await api.createKey([...scopes], { account: 'acc_watched' });
    const [foreign, own] = [await create('foreign.bin'), await create('own.bin', key)];
    await api.ask('DELETE', `/v1/transfers/${foreign}`, { key: other });
    await api.ask('DELETE', `/v1/transfers/${own}`, { key });
    const stream = await follow<Live>(api.url + live, key);
    const shown = () =>
      stream.events.flatMap(({ data }) => data.transfers.map((transfer) => transfer.id));
    await until('its own', () => shown().includes(own));
    expect(new Set(shown())).toEqual(new Set([own]));
    stream.leave();
    await stream.ended;
  });

  test('are shown to authorized watchers, as long as these stay authorized', async () => {
    expect(await api.ask('GET', live)).toMatchObject({
      status: 403,
      body: { required_scope: 'observe' },
    });
    expect(await api.ask('POST', live, { key: admin })).toMatchObject({ status: 405 });
    expect(await api.ask('GET', `${live}?x=1`, { key: admin })).toMatchObject({
      status: 400,
      body: { code: 'unknown_field' },
    });
    const { id, key } = await api.createKey(['admin']);
    const stream = await follow<Live>(api.url + live, key);
    await until('a heartbeat', () => stream.comments.length > 0);
    await revokeKey(api.installation.commands, id, CAUSE);
    let ended = false;
    void stream.ended.then(() => {
      ended = true;
    });
    await until('the end of the stream', () => ended);
  });

  test('can be watched by a client over a limited number of streams', async () => {
    const server = await api.startServer({ maxStreams: 2 });
    const { key } = await api.createKey(['observe']);
    const watch = () => follow<Live>(server.url + live, key);
    const streams = [await watch(), await watch()];
    const refused = await server.ask('GET', live, { key });
    expect(refused).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(refused.headers.get('retry-after')).toBe('60');
    const others = await follow<Live>(server.url + live, admin);
    streams.pop()?.leave();
    await until('the end of a stream', async () => {
      const response = await fetch(server.url + live, {
        headers: { authorization: `Bearer ${key}` },
      });
      await response.body?.cancel();
      return response.status === 200;
    });
    for (const { leave } of [...streams, others]) leave();
  });

  test('are aborted while in progress, of any account, and otherwise not', async () => {
    const id = await create('aborted.bin');
    const abort = (key = admin, headers = {}) =>
      api.ask('POST', `/v1/transfers/${id}/abort`, { key, headers });
    expect(await abort(other)).toMatchObject({ status: 403, body: { required_scope: 'operate' } });
    expect(await abort()).toMatchObject({
      status: 409,
      body: { code: 'transfer_not_cancellable', current_status: 'pending' },
    });
    await start(id);
    const once = { 'idempotency-key': 'once' };
    const aborted = await abort(admin, once);
    expect(aborted).toMatchObject({
      status: 200,
      body: { id, status: 'failed', error: { code: 'aborted_by_operator' } },
    });
    expect(await abort(admin, once)).toMatchObject({ status: 200, body: aborted.body });
    // A client that lost the answer asks again. So does one whose process died before it stored its
    // answer.
    expect(await abort()).toMatchObject({ status: 200, body: aborted.body });
    expect(await api.ask('GET', `/v1/transfers/${id}`, { key: other })).toMatchObject({
      body: { status: 'failed' },
    });
    const told = (await api.installation.store.read(streamName('transfer', id))).map(
      ({ type, metadata }) => [type, metadata.account_id],
    );
    expect(told.at(-1)).toEqual(['transfer.failed', 'acc_other']);
    for (const unknown of ['nonsense', 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H']) {
      expect(await api.ask('POST', `/v1/transfers/${unknown}/abort`, { key: admin })).toMatchObject(
        { status: 404 },
      );
    }
  });
});
