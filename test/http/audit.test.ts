import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { revokeKey } from '../../src/commands/keys.ts';
import type { NewEvent } from '../../src/domain/events/event.ts';
import { eventHash } from '../../src/domain/events/event-hash.ts';
import { describeOnEventStoreDb } from '../support/event-store/eventstoredb.ts';
import { startFakeEventStoreDb } from '../support/event-store/fake/server.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};

describeWithPostgres('GET /v1/events', () => {
  let api: TestApi;
  let admin: string;
  let other: string;
  beforeAll(async () => {
    api = await startApi();
    admin = (await api.createKey(['admin'])).key;
    other = (await api.createKey(['transfers:write', 'audit:read'], { account: 'acc_other' })).key;
    const { body } = await api.ask('POST', '/v1/transfers', { json: BODY });
    await api.ask('DELETE', `/v1/transfers/${body.id}`);
    await api.ask('POST', '/v1/transfers', { json: BODY, key: other });
  });
  afterAll(() => api?.close());

  type Line = NewEvent & { position: string; stream: string; revision: number };
  async function read(key: string, query = ''): Promise<Line[]> {
    const answer = await api.ask('GET', `/v1/events${query}`, { key });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
    const lines: Line[] = answer.body
      .split('\n')
      .slice(0, -1)
      .map((line: string) => JSON.parse(line));
    // Each export is recorded, so a later one has more of these.
    return lines.filter(({ stream }) => !stream.startsWith('access-'));
  }

  test("returns an account's events, and all events to an administrator", async () => {
    const all = await read(admin);
    expect(all[0]).toMatchObject({ type: 'log.opened' });
    const positions = all.map(({ position }) => BigInt(position));
    expect(positions).toEqual([...positions].sort((a, b) => (a < b ? -1 : 1)));
    for (const [key, account] of [
      [api.key, 'acc_default'],
      [other, 'acc_other'],
    ] as const) {
      const mine = await read(key);
      expect(mine.length).toBeGreaterThan(0);
      expect(mine).toEqual(all.filter(({ metadata }) => metadata.account_id === account));
    }
  });

  test("returns an administrator's change to the account that it affects", async () => {
    const made = await api.ask('POST', '/v1/keys', {
      key: admin,
      json: { name: 'theirs', account: 'acc_other', scopes: ['audit:read'] },
    });
    await api.ask('POST', `/v1/keys/${made.body.id}/revoke`, { key: admin });
    const json = {
      name: 'shared',
      protocol: 'sftp',
      host: 'sftp.example.com',
      username: 'ann',
      password: 'secret',
    };
    const { body: endpoint } = await api.ask('POST', '/v1/endpoints', { key: admin, json });
    const typesOf = (lines: Line[], id: string) =>
      lines.filter(({ stream }) => stream.endsWith(id)).map(({ type }) => type);
    expect(typesOf(await read(other), made.body.id)).toEqual(['key.created', 'key.revoked']);
    expect(typesOf(await read(api.key), made.body.id)).toEqual([]);
    expect(typesOf(await read(api.key), endpoint.id)).toEqual([]);
    expect(typesOf(await read(admin), endpoint.id)).toEqual(['endpoint.configured']);
  });

  test('continues after a position', async () => {
    const all = await read(admin);
    expect(await read(admin, `?from=${all[2]?.position}`)).toEqual(all.slice(3));
    expect(await read(admin, '?from=0')).toEqual(all);
    expect(await read(admin, `?from=${all.at(-1)?.position}`)).toEqual([]);
  });

  test('rejects a position after the end, which an older copy of the log may not have', async () => {
    for (const query of ['', '&stream=log']) {
      const answer = await api.ask('GET', `/v1/events?from=9223372036854775807${query}`);
      expect(answer).toMatchObject({
        status: 400,
        body: {
          code: 'invalid_parameter',
          errors: [
            { field: 'from', message: expect.stringMatching(/^is after the end of the log/) },
          ],
        },
      });
    }
  });

  test('answers before it comes to the first event of the account', async () => {
    const { store } = api.installation;
    const begun = Promise.withResolvers<void>();
    const server = await api.startServer({
      store: {
        ...store,
        async *subscribe(options) {
          yield { events: [], position: 0n, caughtUp: false };
          await begun.promise;
          yield* store.subscribe(options);
        },
      },
    });
    const headers = { authorization: `Bearer ${api.key}` };
    const answer = await fetch(`${server.url}/v1/events`, { headers });
    begun.resolve();
    expect((await answer.text()).split('\n').length).toBeGreaterThan(2);
  });

  test('breaks off when the key is revoked', async () => {
    const { id, key } = await api.createKey(['audit:read']);
    const { store, commands } = api.installation;
    const revoking: EventStore = {
      ...store,
      async *subscribe(options) {
        for await (const batch of store.subscribe(options)) {
          yield { ...batch, position: 0n, caughtUp: false };
          await revokeKey(commands, id, CAUSE);
          yield batch;
        }
      },
    };
    const server = await api.startServer({ store: revoking, accessCheckMs: 0 });
    // A refusal if nothing was sent yet.
    const outcome = await server
      .ask('GET', '/v1/events', { key })
      .then(({ status }) => String(status), String);
    expect(outcome).toMatch(/401|terminated/);
    const { body } = await server.ask('GET', '/v1/events', { key });
    expect(body.code).toBe('api_key_revoked');
  });

  test.each(['/v1/transfers', '/v1/audit'])('CSV of %s ends too', async (path) => {
    const revoked = new Proxy(api.installation.sql, {
      apply(target, self, args) {
        const text = Array.isArray(args[0]?.raw) ? args[0].join('?') : '';
        if (/select from read.keys\s+where key_id/.test(text)) return Promise.resolve([]);
        return Reflect.apply(target, self, args);
      },
    });
    const server = await api.startServer({ sql: revoked, accessCheckMs: 0 });
    const answer = await server.ask('GET', path, { key: admin, headers: { accept: 'text/csv' } });
    expect(answer).toMatchObject({ status: 401, body: { code: 'api_key_revoked' } });
  });

  test('returns the events of one stream, which prove its chain', async () => {
    const all = await read(admin);
    const { stream } = all.find(({ type }) => type === 'transfer.cancelled') as Line;
    const history = await read(api.key, `?stream=${stream}`);
    expect(history).toEqual(all.filter((event) => event.stream === stream));
    const [created, cancelled] = history as [Line, Line];
    expect(cancelled.metadata.prev_hash).toBe(eventHash(created));
    expect(await read(api.key, `?stream=${stream}&from=${created.position}`)).toEqual([cancelled]);
    expect(await read(other, `?stream=${stream}`)).toEqual([]);
    expect(await read(admin, '?stream=transfer-txr_0')).toEqual([]);
  });

  test('the history of a transfer proves its chain, too', async () => {
    const { stream } = (await read(admin)).find(
      ({ type }) => type === 'transfer.cancelled',
    ) as Line;
    const history = await api.ask('GET', `/v1/transfers/${stream.replace('transfer-', '')}/events`);
    const exported = await read(admin, `?stream=${stream}`);
    expect(history.body.data).toEqual(
      exported.map((line) => ({
        ...line,
        occurred_at: line.metadata.occurred_at,
        actor: line.metadata.actor,
      })),
    );
  });

  test.each([
    ...['from=-1', 'from=x', 'from=', 'from=9223372036854775808', 'from=1&from=2'],
    ...['stream=', 'stream=a&stream=b', 'stream=transfer-%00', 'stream=txr_0', 'stream=transfer-'],
  ])('rejects %s', async (query) => {
    expect(await api.ask('GET', `/v1/events?${query}`)).toMatchObject({
      status: 400,
      body: { code: 'invalid_parameter', errors: [{ field: query.split('=')[0] }] },
    });
  });
});

describeOnEventStoreDb('GET /v1/events', (start) => {
  test('rejects a position between two events, and takes that of an event', async () => {
    const server = await start();
    const api = await startApi({}, server.settings);
    try {
      await api.ask('POST', '/v1/transfers', { json: BODY });
      const { key } = await api.createKey(['admin']);
      const { body } = await api.ask('GET', '/v1/events', { key });
      const { position } = JSON.parse(body.split('\n')[1]) as { position: string };
      const between = String(BigInt(position) + 1n);
      expect(await api.ask('GET', `/v1/events?from=${between}`, { key })).toMatchObject({
        status: 400,
        body: {
          code: 'invalid_parameter',
          errors: [{ field: 'from', message: expect.stringContaining('position of an event') }],
        },
      });
      expect(await api.ask('GET', `/v1/events?from=${position}`, { key })).toMatchObject({
        status: 200,
      });
    } finally {
      await api.close();
      await server.close();
    }
  });
});

describeWithPostgres('GET /v1/events while a former leader of an EventStoreDB answers', () => {
  test('has everything that was in the log before, and not its own record', async () => {
    const server = await startFakeEventStoreDb();
    const api = await startApi({}, { EVENTSTORE_URL: server.url });
    try {
      const { key } = await api.createKey(['admin']);
      await api.ask('GET', '/v1/events', { key });
      server.becomeStale({ subscriptions: true });
      const created = await api.ask('POST', '/v1/transfers', { json: BODY });
      expect(created.status).toBe(201);
      const answer = api.ask('GET', '/v1/events', { key });
      await sleep(1_000);
      server.lead();
      const { body } = await answer;
      const events = body
        .split('\n')
        .slice(0, -1)
        .map((line: string) => JSON.parse(line));
      expect(events.map(({ stream }: { stream: string }) => stream)).toContain(
        `transfer-${created.body.id}`,
      );
      const exports = events.filter(({ type }: { type: string }) => type === 'access.exported');
      expect(exports).toHaveLength(1);
    } finally {
      await api.close();
      server.stop();
    }
  });
});
