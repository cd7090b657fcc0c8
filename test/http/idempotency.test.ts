import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { createLocks } from '../../src/adapters/postgres/locks.ts';
import { takeRemembered } from '../../src/commands/remembered-streams.ts';
import { DomainError } from '../../src/domain/errors.ts';
import type { HttpServerDeps } from '../../src/http/app.ts';
import { type Answer, type Server, startApi, type TestApi } from '../support/http/api.ts';
import { sendRaw } from '../support/http/raw-http.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};
let keys = 0;

describeWithPostgres('Idempotency-Key', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  /** The server whose log is in Postgres, or the one whose log is elsewhere. */
  let here: Server;
  const newKey = () => `key-${keys++}`;
  const post = (key: string, json: unknown = BODY, server: Server = here) =>
    server.ask('POST', '/v1/transfers', { json, headers: { 'idempotency-key': key } });
  const transfers = async () => (await api.ask('GET', '/v1/transfers')).body.pagination.total;
  const rows = (key: string) =>
    api.installation
      .sql`select status, answer, reserved from work.idempotency_keys where key = ${key}`;

  /** Starts a server with another log, or the same log elsewhere than in Postgres. */
  function startServer(store: EventStore = elsewhere(), changes: Partial<HttpServerDeps> = {}) {
    const { commands } = api.installation;
    return api.startServer({ store, commands: { ...commands, store }, ...changes });
  }

  function elsewhere(): EventStore {
    const { appendWith: _, ...store } = api.installation.store;
    return store;
  }

  /**
   * Starts a server whose process dies (or loses the store) at its first append: before it, or
   * between it and the answer.
   */
  function startDyingServer(when: 'before' | 'after'): Promise<Server> {
    const store = elsewhere();
    return startServer({
      ...store,
      async append(...append) {
        if (when === 'after') await store.append(...append);
        throw new EventStoreUnavailable('gone');
      },
    });
  }

  describe.each([
    ['in Postgres', () => api.installation.store],
    ['elsewhere', elsewhere],
  ])('with the log %s', (_where, storeOf) => {
    beforeAll(async () => {
      here = await startServer(storeOf());
    });

    test('returns the first answer again, byte for byte, on any process', async () => {
      const key = newKey();
      const before = await transfers();
      const first = await post(key);
      expect(first).toMatchObject({ status: 201 });
      expect(first.headers.get('idempotent-replayed')).toBeNull();
      const again = await post(
        key,
        { destination_uri: BODY.destination_uri, source_uri: BODY.source_uri, priority: 'normal' },
        await startServer(),
      );
      expect(again.status).toBe(201);
      expect(JSON.stringify(again.body)).toBe(JSON.stringify(first.body));
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(again.headers.get('location')).toBe(first.headers.get('location'));
      expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'));
      expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
      expect(await transfers()).toBe(before + 1);
    });

    test('returns the first answer again after the transfer has advanced', async () => {
      const key = newKey();
      const first = await post(key);
      await api.ask('DELETE', `/v1/transfers/${first.body.id}`);
      expect(await post(key)).toMatchObject({ status: 201, body: first.body });
    });

    test('rejects another body under the same key', async () => {
      const key = newKey();
      await post(key);
      const before = await transfers();
      expect(await post(key, { ...BODY, priority: 'high' })).toMatchObject({
        status: 422,
        body: { code: 'idempotency_key_reused' },
      });
      expect(await transfers()).toBe(before);
    });

    test('belongs to the account', async () => {
      const { key: other } = await api.createKey(['transfers:write'], { account: 'acc_other' });
      const key = newKey();
      const mine = await post(key);
      const theirs = await here.ask('POST', '/v1/transfers', {
        json: BODY,
        key: other,
        headers: { 'idempotency-key': key },
      });
      expect(theirs.status).toBe(201);
      expect(theirs.body.id).not.toBe(mine.body.id);
    });

    test('belongs to clients that may act on as many accounts, where that matters', async () => {
      const [admin, operator] = [
        await api.createKey(['admin']),
        await api.createKey(['operate', 'transfers:write']),
      ];
      const accounts = ['acc_default', 'acc_other'];
      const endpoint = await here.ask('POST', '/v1/endpoints', {
        key: admin.key,
        json: {
          ...{ name: `shared-${newKey()}`, protocol: 's3', bucket: 'shared', accounts },
          ...{ access_key_id: 'id', secret_access_key: 'secret' },
        },
      });
      const path = `/v1/endpoints/${endpoint.body.id}`;
      for (const action of [`${path}/pause`, `${path}/resume`, '/v1/deliveries/retry-failed']) {
        const [one, two] = [newKey(), newKey()];
        const send = ({ key }: { key: string }, idempotencyKey: string) =>
          here.ask('POST', action, { key, headers: { 'idempotency-key': idempotencyKey } });
        const all = await send(admin, one);
        const own = await send(operator, two);
        const ofEndpoint = action.startsWith(path);
        const status = ofEndpoint ? 200 : 202;
        expect([all.status, own.status], action).toEqual([status, status]);
        if (ofEndpoint)
          expect([all.body.accounts, own.body.accounts]).toEqual([accounts, ['acc_default']]);
        for (const [client, used] of [
          [operator, one],
          [admin, two],
        ] as const)
          expect(await send(client, used), action).toMatchObject({
            status: 422,
            body: { code: 'idempotency_key_reused', detail: expect.stringContaining('rights') },
          });
        for (const [client, used, first] of [
          [admin, one, all],
          [operator, two, own],
        ] as const) {
          const again = await send(client, used);
          expect(again).toMatchObject({ status: first.status, body: first.body });
          expect(again.headers.get('idempotent-replayed')).toBe('true');
        }
      }

      const key = newKey();
      const created = await post(key);
      for (const client of [admin, operator])
        expect(
          await here.ask('POST', '/v1/transfers', {
            ...{ key: client.key, json: BODY, headers: { 'idempotency-key': key } },
          }),
        ).toMatchObject({ status: 201, body: created.body });
    });

    test('creates one resource for concurrent requests', async () => {
      const key = newKey();
      const locks = createLocks(api.installation.environment.DATABASE_URL as string);
      const other = await startServer(storeOf(), { locks });
      const before = await transfers();
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, i) => post(key, BODY, i % 2 ? here : other)),
      );
      expect(
        answers.every(
          ({ status, body }) => status === 201 || body.code === 'idempotency_in_progress',
        ),
      ).toBe(true);
      expect(
        new Set(answers.filter(({ status }) => status === 201).map(({ body }) => body.id)).size,
      ).toBe(1);
      expect(await transfers()).toBe(before + 1);
    });

    test('is released by a request with a wrong body, so the client can fix it', async () => {
      const key = newKey();
      expect(await post(key, { ...BODY, destination_uri: 's3://elsewhere/' })).toMatchObject({
        status: 400,
        body: { code: 'endpoint_not_configured' },
      });
      expect(await rows(key)).toHaveLength(0);
      expect(await post(key)).toMatchObject({ status: 201 });
    });

    test('lasts 24 hours', async () => {
      const key = newKey();
      const { sql } = api.installation;
      const first = await post(key);
      await sql`
        update work.idempotency_keys set created_at = created_at - interval '23 hours 59 minutes'
         where key = ${key}`;
      expect(await post(key)).toMatchObject({ body: { id: first.body.id } });
      await sql`
        update work.idempotency_keys set created_at = created_at - interval '1 minute'
         where key = ${key}`;
      const second = await post(key, { ...BODY, priority: 'high' });
      expect(second).toMatchObject({ status: 201, body: { priority: 'high' } });
      expect(second.body.id).not.toBe(first.body.id);
      expect(await rows(key)).toHaveLength(1);
    });

    test.each([
      ['empty', ''],
      ['too long', 'x'.repeat(256)],
      ['not ASCII', 'schlüssel'],
    ])('rejects a key that is %s', async (_what, key) => {
      const answer = await post(key);
      expect(answer).toMatchObject({
        status: 400,
        body: { code: 'invalid_parameter', errors: [{ field: 'Idempotency-Key' }] },
      });
    });

    test('accepts 255 characters, and one key at a time', async () => {
      expect(await post('x'.repeat(255))).toMatchObject({ status: 201 });
      const json = JSON.stringify(BODY);
      const head =
        'POST /v1/transfers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n' +
        `Authorization: Bearer ${api.key}\r\nContent-Type: application/json\r\n`;
      const answer = await sendRaw(
        here.port,
        `${head}Content-Length: ${json.length}\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n${json}`,
      );
      expect(answer).toMatchObject({
        status: 400,
        body: expect.stringContaining('Idempotency-Key'),
      });
    });
  });

  describe('with the log elsewhere', () => {
    beforeAll(async () => {
      here = await startServer(elsewhere());
    });

    test('is in progress only while a process works on it', async () => {
      const key = newKey();
      const store = elsewhere();
      const appended = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      const slow = await startServer({
        ...store,
        async append(...append) {
          const result = await store.append(...append);
          appended.resolve();
          await goOn.promise;
          return result;
        },
      });
      const first = post(key, BODY, slow);
      await appended.promise;
      const second = await post(key);
      expect(second).toMatchObject({ status: 409, body: { code: 'idempotency_in_progress' } });
      expect(second.headers.get('retry-after')).toBe('1');
      expect(await post(key, { ...BODY, priority: 'low' })).toMatchObject({
        status: 422,
        body: { code: 'idempotency_key_reused' },
      });
      goOn.resolve();
      const { body } = await first;
      expect(await post(key)).toMatchObject({ status: 201, body });
    });

    test('returns the answer of another request that gets the lock first', async () => {
      const key = newKey();
      const { locks } = api.installation;
      const slow = await startServer(elsewhere(), {
        locks: {
          ...locks,
          async tryAcquire(name) {
            await post(key);
            return locks.tryAcquire(name);
          },
        },
      });
      const answer = await post(key, BODY, slow);
      expect(answer.status).toBe(201);
      expect(answer.headers.get('idempotent-replayed')).toBe('true');
      expect((await post(key)).body).toEqual(answer.body);
    });

    test('repeats an operation whose process died before the append', async () => {
      const key = newKey();
      const before = await transfers();
      expect(await post(key, BODY, await startDyingServer('before'))).toMatchObject({
        status: 503,
      });
      const [row] = await rows(key);
      expect(row).toMatchObject({
        status: null,
        reserved: { transferId: expect.stringMatching(/^txr_/) },
      });
      expect(await transfers()).toBe(before);
      const answer = await post(key);
      expect(answer).toMatchObject({ status: 201, body: { id: row?.reserved.transferId } });
      expect(await post(key)).toMatchObject({ status: 201, body: answer.body });
      expect(await transfers()).toBe(before + 1);
    });

    test('returns the answer of a process that died before it sent it', async () => {
      const key = newKey();
      const before = await transfers();
      expect(await post(key, BODY, await startDyingServer('after'))).toMatchObject({ status: 503 });
      const [row] = await rows(key);
      const [created] = await api.installation.store.read(`transfer-${row?.reserved.transferId}`);
      // The endpoint is gone and the estimate differs: the appended event counts.
      const { commands } = api.installation;
      const later = await api.startServer({
        commands: {
          ...commands,
          queueEstimate: async () => ({
            endpoints: [],
            openTransfers: 0,
            startsInMs: () => 99_000,
          }),
        },
      });
      const answer = await post(key, BODY, later);
      expect(answer).toMatchObject({
        status: 201,
        body: {
          id: row?.reserved.transferId,
          estimated_start: (created!.data as { estimated_start: string }).estimated_start,
        },
      });
      expect(
        (await api.installation.store.read(`transfer-${answer.body.id}`)).filter(
          ({ type }) => type === 'transfer.created',
        ),
      ).toHaveLength(1);
      expect(await transfers()).toBe(before + 1);
    });

    test.each([
      ['flow', '/v1/flows', { name: 'out', source: { uri: 's3://archive/out/' } }, 'flowId'],
      ['batch of a folder', '/v1/batches', { source_uri: 's3://archive/out/' }, 'batchId'],
    ])('creates one %s, although its endpoint has gone since', async (_what, path, more, id) => {
      const key = newKey();
      const created = await api.createKey(['flows:write', 'transfers:write']);
      const json = { destination_uri: 's3://archive/in/', ...more };
      const ask = (server: Server) =>
        server.ask('POST', path, { json, key: created.key, headers: { 'idempotency-key': key } });
      expect(await ask(await startDyingServer('after'))).toMatchObject({ status: 503 });
      const [row] = await rows(key);
      const { commands } = api.installation;
      const store = elsewhere();
      const later = await startServer(store, {
        commands: { ...commands, store, endpoints: async () => [] },
      });
      expect(await ask(later)).toMatchObject({ status: 201, body: { id: row?.reserved[id] } });
    });

    test('keeps the ids of a request that may still be carried out', async () => {
      const key = newKey();
      const before = await transfers();
      const store = elsewhere();
      const begun = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      // Another process takes the lock of a process that is frozen.
      const locks = createLocks(api.installation.environment.DATABASE_URL as string);
      const frozen = await startServer(
        {
          ...store,
          async append(...append) {
            begun.resolve();
            await goOn.promise;
            return store.append(...append);
          },
        },
        { locks },
      );
      const first = post(key, BODY, frozen);
      await begun.promise;
      await locks.close();
      const { commands } = api.installation;
      const full = await startServer(store, {
        commands: { ...commands, store, maxOpenTransfers: 0 },
      });
      expect(await post(key, BODY, full)).toMatchObject({ body: { code: 'limit_reached' } });
      goOn.resolve();
      const { body } = await first;
      expect(await post(key)).toMatchObject({ status: 201, body });
      expect(await transfers()).toBe(before + 1);
    });

    test('keeps its answer when a process that was frozen ends the request with another', async () => {
      const key = newKey();
      const store = elsewhere();
      const begun = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      const locks = createLocks(api.installation.environment.DATABASE_URL as string);
      const frozen = await startServer(
        {
          ...store,
          async append() {
            begun.resolve();
            await goOn.promise;
            throw new DomainError('not_found', 'The endpoint was removed');
          },
        },
        { locks },
      );
      const first = post(key, BODY, frozen);
      await begun.promise;
      await locks.close();
      const answer = await post(key, BODY, await startServer(store));
      expect(answer).toMatchObject({ status: 201 });
      goOn.resolve();
      expect(await first).toMatchObject({ status: 201, body: answer.body });
      expect(await post(key)).toMatchObject({ status: 201, body: answer.body });
    });

    test('rejects another body although the first request has died', async () => {
      const key = newKey();
      await post(key, BODY, await startDyingServer('before'));
      expect(await post(key, { ...BODY, priority: 'high' })).toMatchObject({ status: 422 });
    });
  });

  describe('with the log in Postgres', () => {
    beforeAll(() => {
      here = api;
    });

    /** Starts a server that calls `before`, appends with the answer, and calls `after`. */
    function startAround(steps: { before?: () => unknown; after?: () => unknown }) {
      const { store } = api.installation;
      return startServer({
        ...store,
        async appendWith(...append) {
          await steps.before?.();
          const result = await store.appendWith!(...append);
          await steps.after?.();
          return result;
        },
      });
    }
    const die = () => {
      throw new EventStoreUnavailable('gone');
    };

    test('returns the answer of another request that appends first', async () => {
      const key = newKey();
      const before = await transfers();
      let first: Answer | null = null;
      const slow = await startAround({
        before: async () => {
          first = await post(key);
        },
      });
      const answer = await post(key, BODY, slow);
      expect(answer).toMatchObject({ status: 201, body: first!.body });
      expect(answer.headers.get('idempotent-replayed')).toBe('true');
      expect(await transfers()).toBe(before + 1);
    });

    test('rejects another body if another request appends first', async () => {
      const key = newKey();
      const slow = await startAround({ before: () => post(key, { ...BODY, priority: 'high' }) });
      expect(await post(key, BODY, slow)).toMatchObject({
        status: 422,
        body: { code: 'idempotency_key_reused' },
      });
    });

    test('keeps nothing of a request whose process died before the append', async () => {
      const key = newKey();
      const before = await transfers();
      const dying = await startAround({ before: die });
      expect(await post(key, BODY, dying)).toMatchObject({ status: 503 });
      expect(await rows(key)).toEqual([]);
      expect(await post(key)).toMatchObject({ status: 201 });
      expect(await transfers()).toBe(before + 1);
    });

    test('keeps the answer of a request whose process died after the append', async () => {
      const key = newKey();
      const before = await transfers();
      const dying = await startAround({ after: die });
      expect(await post(key, BODY, dying)).toMatchObject({ status: 503 });
      const [row] = await rows(key);
      const answer = await post(key);
      expect(answer).toMatchObject({ status: 201, body: { id: row?.reserved.transferId } });
      expect(answer.headers.get('idempotent-replayed')).toBe('true');
      expect(await transfers()).toBe(before + 1);
    });

    test('remembers the new transfer for a mover of the same process', async () => {
      const { body } = await post(newKey());
      expect(takeRemembered(api.installation.store, `transfer-${body.id}`)).not.toBeNull();
    });

    test('keeps the answers of appends that share a call', async () => {
      const posted = Array.from({ length: 20 }, newKey);
      const answers = await Promise.all(posted.map((key) => post(key)));
      const again = await Promise.all(posted.map((key) => post(key)));
      expect(again.map(({ body }) => body)).toEqual(answers.map(({ body }) => body));
      expect(new Set(answers.map(({ body }) => body.id)).size).toBe(20);
    });

    test('appends only the first of two under a key that share a call', async () => {
      const key = newKey();
      const before = await transfers();
      const both = Promise.withResolvers<void>();
      let arrived = 0;
      const slow = await startAround({
        before: () => {
          if (++arrived === 2) both.resolve();
          return both.promise;
        },
      });
      const answers = await Promise.all([post(key, BODY, slow), post(key, BODY, slow)]);
      expect(answers[0]).toMatchObject({ status: 201, body: answers[1].body });
      expect(await transfers()).toBe(before + 1);
    });
  });
});
