import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { createMetrics } from '../../src/metrics.ts';
import { beforeCalls, type Call } from '../support/event-store/before-calls.ts';
import { describeOnEventStoreDb } from '../support/event-store/eventstoredb.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { whileTableLocked } from '../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { until } from '../support/service/transfers.ts';

const TRANSFER = { source_uri: 's3://archive/a', destination_uri: 's3://archive/b' };

/** The limit of these tests. Only a pause of this process may take as long. */
const WITHIN_MS = 1_000;
const UNKNOWN = 'it is unknown whether the request took effect';
const RETRY = 'A component of the service does not respond: retry in a few seconds';

interface Shown {
  id: string;
  destination: string;
}

/** A store whose calls of these kinds wait until `release`. Each of them notes when it is made. */
function silent(store: EventStore, kinds: Call[]) {
  const released = Promise.withResolvers<void>();
  const calls: Call[] = [];
  const held = beforeCalls(store, async (call) => {
    if (!kinds.includes(call)) return;
    calls.push(call);
    await released.promise;
  });
  return { held, calls, release: () => released.resolve() };
}

function tests(settings: () => Promise<Record<string, string>>): void {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi({}, await settings());
  });
  afterAll(() => api?.close());

  const post = (once: string | null, server: Pick<TestApi, 'ask'> = api) =>
    server.ask('POST', '/v1/transfers', {
      json: { ...TRANSFER, destination_uri: `s3://archive/${once ?? 'alone'}` },
      headers: once === null ? {} : { 'idempotency-key': once },
    });

  /** A server with a short limit whose store is silent to these calls. */
  async function slowServer(kinds: Call[] = ['read', 'append']) {
    const { store, commands } = api.installation;
    const { held, ...log } = silent(store, kinds);
    const changes = {
      store: held,
      commands: { ...commands, store: held },
      answerWithinMs: WITHIN_MS,
    };
    return { ...log, server: await api.startServer(changes) };
  }

  test('a creation without an answer of the log ends with 503, and its key holds', async () => {
    const { server, calls, release } = await slowServer();
    const late = await untilHeld(calls, 1, () => post('held', server));
    expect(late.status).toBe(503);
    expect(late.body).toMatchObject({
      code: 'unavailable',
      detail: expect.stringContaining(UNKNOWN),
    });
    expect(late.headers.get('retry-after')).toBe('5');
    release();
    const repeated = await untilFree(() => post('held'));
    expect(repeated.status).toBe(201);
    const { body } = await api.ask('GET', '/v1/transfers');
    const found = body.data.filter(({ destination }: Shown) => destination === 's3://archive/held');
    expect(found.map(({ id }: Shown) => id)).toEqual([repeated.body.id]);
  });

  test('a request that is late begins no append', async () => {
    const { body: created } = await post('to-cancel');
    const { server, calls, release } = await slowServer();
    const late = await server.ask('DELETE', `/v1/transfers/${created.id}`);
    expect(late.status).toBe(503);
    release();
    await sleep(300);
    expect(calls).not.toContain('append');
    const { body } = await api.ask('GET', `/v1/transfers/${created.id}`);
    expect(body.status).toBe('pending');
  });

  test('a late change of many begins no further append', async () => {
    // More than are changed at a time.
    const names = Array.from({ length: 40 }, (_, i) => `many-${i}`);
    const created = await Promise.all(names.map((name) => post(name)));
    const ids = created.map(({ body }) => body.id);
    const { server, calls, release } = await slowServer(['append']);
    const json = { action: 'cancel', ids };
    const late = await server.ask('POST', '/v1/transfers/bulk', { json });
    expect(late.status).toBe(503);
    const begun = calls.length;
    expect(begun).toBeLessThan(ids.length);
    release();
    await until('what had begun is done', async () => {
      const { body } = await api.ask('GET', '/v1/transfers?status=cancelled&limit=100');
      return body.data.filter(({ id }: Shown) => ids.includes(id)).length === begun;
    });
    await sleep(300);
    expect(calls).toHaveLength(begun);
  });

  test('a late answer is dropped without an error', async () => {
    const { key } = await api.createKey(['admin']);
    const json = { url: 'https://example.com/', events: ['transfer.failed'], secret: 'a-secret' };
    const { body } = await api.ask('POST', '/v1/webhooks', { key, json });
    const { server, calls, release } = await slowServer(['append']);
    const remove = (from: Pick<TestApi, 'ask'>) =>
      from.ask('DELETE', `/v1/webhooks/${body.id}`, { key });
    const before = api.logged.length;
    const posted = await untilHeld(calls, 1, () => post('late-answer', server));
    const removed = await untilHeld(calls, 2, () => remove(server));
    expect([posted.status, removed.status]).toEqual([503, 503]);
    release();
    await untilFree(() => post('late-answer'));
    // The late handlers have sent their answers when their effects show.
    await until('it is removed', async () => (await remove(api)).status === 404);
    const lines = api.logged.slice(before).filter((line) => !line.includes('"msg":"answered"'));
    expect(new Set(lines.map((line) => JSON.parse(line).msg))).toEqual(
      new Set(['a request failed']),
    );
  });
}

/** Repeats a request until it has reached the log: a pause may have taken its time before. */
async function untilHeld<T>(calls: Call[], count: number, send: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await send();
    if (calls.length >= count) return answer;
  }
}

/** Repeats a request while an earlier one with its key goes on. */
async function untilFree<T extends { status: number }>(send: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await send();
    if (answer.status !== 409) return answer;
    await sleep(50);
  }
}

describeWithPostgres('the time limit of a request', () => {
  tests(async () => ({}));

  describe('with a Postgres that is silent', () => {
    let api: TestApi;
    /** Asks a server with a short limit. */
    let askLate: TestApi['ask'];
    beforeAll(async () => {
      api = await startApi();
      askLate = (await api.startServer({ answerWithinMs: WITHIN_MS })).ask;
    });
    afterAll(() => api?.close());

    /** Admissions go on: a locked table stands for a server that is silent from there on. */
    const whileLocked = <T>(table: string, work: () => Promise<T>) =>
      whileTableLocked(api.installation.sql, table, work);

    test('ends a read whose admission passed', async () => {
      const { body } = await api.ask('POST', '/v1/transfers', { json: TRANSFER });
      const path = `/v1/transfers/${body.id}`;
      const answer = await whileLocked('read.transfers', () => askLate('GET', path));
      expect([answer.status, answer.body.code]).toEqual([503, 'unavailable']);
      expect(answer.body.detail).toBe(RETRY);
      const reasons = api.logged.filter((line) => line.includes('a request failed'));
      expect(reasons.join()).toContain('/health/ready names the one');
      await until('it is answered', async () => (await askLate('GET', path)).status === 200);
    });

    test('ends the admission of a request whose URL is broken', async () => {
      const before = api.logged.length;
      const answer = await whileLocked('read.keys', () => askLate('GET', '/v1/transfers/%zz'));
      expect([answer.status, answer.body.code]).toEqual([503, 'unavailable']);
      expect(api.logged.slice(before).join()).toContain('/health/ready names the one');
    });

    test('drops metrics that are late, without an error', async () => {
      const { registry } = createMetrics(api.installation);
      const server = await api.startServer({ answerWithinMs: WITHIN_MS, metrics: registry });
      const before = api.logged.length;
      const late = await whileLocked('read.transfer_totals', () => server.ask('GET', '/metrics'));
      expect(late.status).toBe(503);
      // They read the table after the late ones.
      expect((await server.ask('GET', '/metrics')).status).toBe(200);
      const lines = api.logged.slice(before).filter((line) => !line.includes('"msg":"answered"'));
      expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['a request failed']);
    });

    test('leaves open whether a change of Postgres alone took effect', async () => {
      const { key } = await api.createKey(['operate']);
      await whileLocked('work.deliveries', () =>
        // A pause may end it before its admission.
        vi.waitFor(async () => {
          const answer = await askLate('POST', '/v1/deliveries/retry-failed', { key, json: {} });
          expect([answer.status, answer.body.code]).toEqual([503, 'unavailable']);
          expect(answer.body.detail).toContain(UNKNOWN);
        }, 30_000),
      );
    });

    test('lets a change be repeated that was not admitted', async () => {
      const { key } = await api.createKey(['operate']);
      const answer = await whileLocked('read.keys', () =>
        askLate('POST', '/v1/deliveries/retry-failed', { key, json: {} }),
      );
      expect([answer.status, answer.body.code]).toEqual([503, 'unavailable']);
      expect(answer.body.detail).toBe(RETRY);
    });
  });
});

describeOnEventStoreDb('the time limit of a request', (start) => {
  let stop = async () => {};
  afterAll(() => stop());
  tests(async () => {
    const server = await start();
    stop = server.close;
    return server.settings;
  });
});
