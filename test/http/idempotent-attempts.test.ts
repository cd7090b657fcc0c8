import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { createLocks, type Locks } from '../../src/adapters/postgres/locks.ts';
import { newId } from '../../src/domain/ids.ts';
import { beforeCalls } from '../support/event-store/before-calls.ts';
import { describeOnEventStoreDb } from '../support/event-store/eventstoredb.ts';
import { type Answer, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { longUnless } from '../support/run/long.ts';
import {
  type Client,
  NOT_TESTED,
  newEndpoint,
  OPERATIONS,
  type Request,
} from './idempotent-operations.ts';

/*
 * Two attempts of one request, minutes apart: the first one reserves the key, loses its lock
 * without notice, and waits. The second one carries out the request, and the client changes the
 * same thing again. Then the first attempt continues.
 */

/** An operation in the OpenAPI document. */
interface Documented {
  operationId: string;
  parameters?: { name: string }[];
}

/** An attempt that has reserved its key and waits at the log. */
interface Held {
  answer: Promise<Answer>;
  continue(): Promise<Answer>;
}

function tests(settings: () => Promise<Record<string, string>>): void {
  let api: TestApi;
  let client: Client;
  let key: string;
  beforeAll(async () => {
    api = await startApi({}, await settings());
    key = (await api.createKey(['admin'])).key;
    client = {
      api,
      async ask(method, path, json) {
        const { status, body } = await api.ask(method, path, { key, json });
        if (status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(body)}`);
        return body;
      },
    };
  });
  afterAll(() => api?.close());

  const post = ({ path, json }: Request, once: string, server: TestApi['ask'] = api.ask) =>
    server('POST', path, { key, json, headers: { 'idempotency-key': once } });

  /** Starts the first attempt of a request on another server, and returns once it waits. */
  async function hold(
    request: Request,
    once: string,
    where: 'first call' | 'append',
    locks: Locks,
  ): Promise<Held> {
    const { store, commands } = api.installation;
    const waits = Promise.withResolvers<void>();
    const continues = Promise.withResolvers<void>();
    let reserved = false;
    const held = beforeCalls(store, async (call) => {
      if (call === 'read' && !(reserved && where === 'first call')) return;
      waits.resolve();
      await continues.promise;
    });
    const { ask } = await api.startServer({
      store: held,
      // It has lost the lock of an endpoint's name, too.
      commands: { ...commands, store: held, exclusively: (_name, work) => work(() => undefined) },
      locks: {
        ...locks,
        async tryAcquire(name) {
          const lock = await locks.tryAcquire(name);
          reserved = true;
          return lock;
        },
      },
    });
    const answer = post(request, once, ask);
    await Promise.race([waits.promise, answer.then(({ body }) => Promise.reject(body))]);
    return {
      answer,
      continue() {
        continues.resolve();
        return answer;
      },
    };
  }

  /** Locks that are lost at once. The holder does not notice. */
  function lostLocks(): Locks {
    const { locks } = api.installation;
    return {
      ...locks,
      async tryAcquire(name) {
        const held = await locks.tryAcquire(name);
        await held?.release();
        return held;
      },
    };
  }

  /** Returns the types of the events after a position. */
  async function eventsSince(from: bigint | null): Promise<string[]> {
    const types: string[] = [];
    const { signal } = new AbortController();
    for await (const { events, caughtUp } of api.installation.store.subscribe({ from, signal })) {
      types.push(...events.map(({ type }) => type));
      if (caughtUp) break;
    }
    return types;
  }

  describe.each(['first call', 'append'] as const)(
    'with a first attempt held at its %s',
    (where) => {
      const options = longUnless(where === 'append');
      test.each(OPERATIONS)('$operationId is carried out once', options, async (operation) => {
        const once = newId('req');
        const request = await operation.prepare(client);
        const before = await api.installation.store.head();
        const first = await hold(request, once, where, lostLocks());
        const second = await post(request, once);
        expect(second.status).toBeLessThan(300);
        await operation.follow(client, second, request);

        const late = await first.continue();
        expect(await eventsSince(before)).toEqual(operation.events);
        const again = await post(request, once);
        expect(again.headers.get('idempotent-replayed')).toBe('true');
        expect([late.status, late.body]).toEqual([again.status, again.body]);
        const { key: _, secret: __, ...shown } = second.body;
        expect(again).toMatchObject({ status: second.status, body: shown });
      });
    },
  );

  test('a request is carried out once, although its process died before the answer', async () => {
    const { store, commands } = api.installation;
    const dying: EventStore = {
      ...store,
      async append(...append) {
        await store.append(...append);
        throw new EventStoreUnavailable('gone');
      },
    };
    const { ask } = await api.startServer({
      store: dying,
      commands: { ...commands, store: dying },
    });
    const path = `/v1/endpoints/${await newEndpoint(client)}`;
    const before = await store.head();
    const once = newId('req');
    expect(await post({ path: `${path}/pause` }, once, ask)).toMatchObject({ status: 503 });
    await client.ask('POST', `${path}/resume`);
    expect(await post({ path: `${path}/pause` }, once)).toMatchObject({
      status: 200,
      body: { paused: false },
    });
    expect(await eventsSince(before)).toEqual(['endpoint.paused', 'endpoint.resumed']);
  });

  test.each(['first call', 'append'] as const)(
    'an attempt that lost its lock at its %s appends nothing, although the other changed nothing',
    async (where) => {
      const locks = createLocks(api.installation.environment.DATABASE_URL as string);
      const once = newId('req');
      const path = `/v1/endpoints/${await newEndpoint(client)}`;
      const first = await hold({ path: `${path}/pause` }, once, where, locks);
      const before = await api.installation.store.head();
      await client.ask('POST', `${path}/pause`);
      await locks.close();
      const second = await post({ path: `${path}/pause` }, once);
      expect(second).toMatchObject({ status: 200, body: { paused: true } });
      await client.ask('POST', `${path}/resume`);

      expect(await first.continue()).toMatchObject({ status: 503, body: { code: 'unavailable' } });
      expect(await eventsSince(before)).toEqual(['endpoint.paused', 'endpoint.resumed']);
      expect(await post({ path: `${path}/pause` }, once)).toMatchObject({ body: second.body });
    },
  );

  test('are tested for every operation that takes an Idempotency-Key', async () => {
    const { body } = await api.ask('GET', '/v1/openapi.json');
    const operations = Object.values(body.paths as Record<string, Record<string, Documented>>)
      .flatMap((methods) => Object.values(methods))
      .filter(({ parameters }) => parameters?.some(({ name }) => name === 'Idempotency-Key'))
      .map(({ operationId }) => operationId);
    const tested = OPERATIONS.map(({ operationId }) => operationId);
    expect(operations.toSorted()).toEqual([...new Set([...tested, ...NOT_TESTED])].toSorted());
  });
}

describeWithPostgres('two attempts of one request', () => {
  tests(async () => ({}));
});

describeOnEventStoreDb('two attempts of one request', (start) => {
  let server: Awaited<ReturnType<typeof start>>;
  tests(async () => {
    server = await start();
    return server.settings;
  });
  afterAll(() => server?.close());
});
