import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  describeOnEventStoreDb,
  type EventStoreServer,
} from '../support/event-store/eventstoredb.ts';
import { type Answer, type Server, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/a.csv',
  destination_uri: 's3://archive/in/',
};

describeWithPostgres('a client that the process remembers', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  /**
   * Starts a server that calls `before` at each append that has a condition: the process admitted
   * its request without Postgres.
   */
  function startServer(before: () => unknown, rateLimit = 10_000): Promise<Server> {
    const { store, commands } = api.installation;
    const watched = {
      ...store,
      async appendWith(...[stream, expected, events, options]: Parameters<AppendWith>) {
        if (options.condition !== undefined) await before();
        return store.appendWith!(stream, expected, events, options);
      },
    };
    return api.startServer({
      store: watched,
      commands: { ...commands, store: watched },
      rateLimit,
    });
  }
  type AppendWith = NonNullable<TestApi['installation']['store']['appendWith']>;

  /** Sends requests until the process has admitted one of them by what it remembers. */
  async function postUntil(done: () => boolean, post: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      const answer = await post();
      if (done()) return answer;
      expect(answer.status).toBe(201);
    }
  }

  test('creates nothing with a key that another process has revoked', async () => {
    const { id, key } = await api.createKey(['transfers:write'], { account: 'acc_revoked' });
    let revoked = false;
    let created = -1;
    const server = await startServer(async () => {
      if (revoked) return;
      revoked = true;
      const admin = await api.createKey(['admin']);
      const answer = await api.ask('POST', `/v1/keys/${id}/revoke`, { key: admin.key });
      expect(answer.status).toBe(200);
    });
    const answer = await postUntil(
      () => revoked,
      () => {
        created++;
        return server.ask('POST', '/v1/transfers', { json: BODY, key });
      },
    );
    expect(answer).toMatchObject({ status: 401, body: { code: 'api_key_revoked' } });
    const reader = await api.createKey(['transfers:read'], { account: 'acc_revoked' });
    const { body } = await api.ask('GET', '/v1/transfers', { key: reader.key });
    expect(body.pagination.total).toBe(created);
  });

  test('uses an endpoint that another process has just configured', async () => {
    const { key } = await api.createKey(['transfers:write'], { account: 'acc_endpoint' });
    let configured: string | null = null;
    const server = await startServer(async () => {
      if (configured !== null) return;
      const admin = await api.createKey(['admin']);
      const json = { name: 'later', protocol: 's3', bucket: 'later' };
      const { status, body } = await api.ask('POST', '/v1/endpoints', {
        key: admin.key,
        json: { ...json, access_key_id: 'id', secret_access_key: 'secret' },
      });
      expect(status).toBe(201);
      configured = body.id;
    });
    const later = { ...BODY, destination_uri: 's3://later/in/' };
    const post = (json: unknown) => server.ask('POST', '/v1/transfers', { json, key });
    expect((await post(later)).body.code).toBe('endpoint_not_configured');
    await postUntil(
      () => configured !== null,
      () => post(BODY),
    );
    expect((await post(later)).status).toBe(201);
  });

  test('gets the stored answer for a repeated Idempotency-Key', async () => {
    let remembered = 0;
    const server = await startServer(() => remembered++);
    const headers = { 'idempotency-key': 'remembered-client' };
    const first = await server.ask('POST', '/v1/transfers', { json: BODY, headers });
    expect(first.status).toBe(201);
    await postUntil(
      () => remembered > 0,
      () => server.ask('POST', '/v1/transfers', { json: BODY }),
    );
    remembered = 0;
    while (remembered === 0) {
      const again = await server.ask('POST', '/v1/transfers', { json: BODY, headers });
      expect(again).toMatchObject({ status: 201, body: first.body });
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      if (remembered === 0) await server.ask('POST', '/v1/transfers', { json: BODY });
    }
    const other = { ...BODY, priority: 'high' };
    expect(await server.ask('POST', '/v1/transfers', { json: other, headers })).toMatchObject({
      status: 422,
      body: { code: 'idempotency_key_reused' },
    });
  });

  test('has exactly the allowed number of requests, each with its number', async () => {
    const { id, key } = await api.createKey(['transfers:write']);
    let remembered = 0;
    const server = await startServer(() => remembered++, 40);
    const answers: Answer[] = [];
    for (let i = 0; i < 45; i++)
      answers.push(await server.ask('POST', '/v1/transfers', { json: i % 5 ? BODY : {}, key }));
    expect(answers.map(({ status }) => status)).toEqual(
      Array.from({ length: 45 }, (_, i) => (i >= 40 ? 429 : i % 5 ? 201 : 400)),
    );
    const left = answers.map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
    expect(left.slice(0, 40)).toEqual(Array.from({ length: 40 }, (_, i) => 39 - i));
    const [row] = await api.installation
      .sql`select requests from work.rate_windows where subject = ${`key:${id}`}`;
    expect(row?.requests).toBe(41);
  });

  test('gets estimates of the queue, also if another request shared its statement', async () => {
    const { key } = await api.createKey(['transfers:read', 'transfers:write']);
    let remembered = 0;
    const server = await startServer(() => remembered++);
    const ask = (method: string) =>
      server.ask(method, '/v1/transfers', { key, ...(method === 'POST' && { json: BODY }) });
    const estimate = async () => {
      const { body } = await ask('POST');
      return (Date.parse(body.estimated_start) - Date.parse(body.created_at)) / 1_000;
    };
    for (let i = 0; i < 60; i++) await ask('POST');
    await sleep(200);
    // No mover runs: each transfer adds a second.
    const first = await estimate();
    for (let i = 1; i <= 5 || remembered === 0; i++) {
      await sleep(200);
      await Promise.all(['GET', 'GET', 'POST'].map(ask));
      const before = remembered;
      const next = await estimate();
      // Two transfers for each time, and fewer than a second queue.
      if (remembered > before) expect(next - first).toBeLessThan(2 * i + 20);
    }
  });

  test('is counted in Postgres when it sends nothing more', async () => {
    const { id, key } = await api.createKey(['transfers:write']);
    let remembered = 0;
    let sent = 0;
    const server = await startServer(() => remembered++);
    await postUntil(
      () => remembered > 0,
      () => {
        sent++;
        return server.ask('POST', '/v1/transfers', { json: BODY, key });
      },
    );
    const counted = async () =>
      (
        await api.installation
          .sql`select requests from work.rate_windows where subject = ${`key:${id}`}`
      )[0]?.requests;
    await expect.poll(counted, { timeout: 10_000 }).toBe(sent);
  });
});

describeOnEventStoreDb('a client that the process remembers', (start) => {
  let eventStore: EventStoreServer;
  let api: TestApi;
  beforeAll(async () => {
    eventStore = await start();
    api = await startApi({}, eventStore.settings);
  });
  afterAll(async () => {
    await api?.close();
    await eventStore?.close();
  });

  /** Sends requests until the process has admitted some of them without Postgres. */
  async function postUntilRemembered(server: Server, { id, key }: { id: string; key: string }) {
    for (let sent = 1; ; sent++) {
      const { status } = await server.ask('POST', '/v1/transfers', { json: BODY, key });
      expect(status).toBe(201);
      const [row] = await api.installation
        .sql`select requests from work.rate_windows where subject = ${`key:${id}`}`;
      if (row?.requests < sent) return;
    }
  }

  test('creates nothing once another process has revoked its key', async () => {
    const server = await api.startServer({ rateLimit: 1_000_000 });
    const admin = await api.createKey(['admin']);
    for (let i = 0; i < 5; i++) {
      const client = await api.createKey(['transfers:write']);
      await postUntilRemembered(server, client);
      const post = () => server.ask('POST', '/v1/transfers', { json: BODY, key: client.key });
      let isRevoked = false;
      const posting = (async () => {
        while (!isRevoked && (await post()).status === 201);
      })();
      const revoked = await api.ask('POST', `/v1/keys/${client.id}/revoke`, { key: admin.key });
      expect(revoked.status).toBe(200);
      isRevoked = true;
      expect(await post()).toMatchObject({ status: 401, body: { code: 'api_key_revoked' } });
      await posting;
    }
  });

  test('uses endpoints as another process has just left them', async () => {
    const server = await api.startServer({ rateLimit: 1_000_000 });
    const admin = await api.createKey(['admin']);
    const client = await api.createKey(['transfers:write']);
    const json = { name: 'later', protocol: 's3', bucket: 'later' };
    const later = { ...BODY, destination_uri: 's3://later/in/' };
    const post = (body: unknown) =>
      server.ask('POST', '/v1/transfers', { json: body, key: client.key });
    await postUntilRemembered(server, client);
    expect((await post(later)).body.code).toBe('endpoint_not_configured');
    const configured = await api.ask('POST', '/v1/endpoints', {
      key: admin.key,
      json: { ...json, access_key_id: 'id', secret_access_key: 'secret' },
    });
    expect(configured.status).toBe(201);
    expect((await post(later)).status).toBe(201);
  });
});
