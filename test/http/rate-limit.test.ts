import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

describeWithPostgres('rate limit', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi({ rateLimit: 5, trustedProxies: ['127.0.0.1'] });
  });
  afterAll(() => api?.close());

  const rate = ({ headers }: Answer) => ({
    limit: Number(headers.get('x-ratelimit-limit')),
    remaining: Number(headers.get('x-ratelimit-remaining')),
    reset: Number(headers.get('x-ratelimit-reset')),
  });
  const counted = async (subject: string) =>
    (
      await api.installation.sql`select requests from work.rate_windows where subject = ${subject}`
    )[0]?.requests;

  function expectRefused(answer: Answer) {
    expect(answer).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    const retryAfter = Number(answer.headers.get('retry-after'));
    expect(Number.isInteger(retryAfter) && retryAfter >= 1).toBe(true);
    // A client that waits this long is in a new window. The Date header may be one second old.
    expect(Date.now() / 1000 + retryAfter).toBeGreaterThanOrEqual(rate(answer).reset);
    expect(rate(answer).remaining).toBe(0);
  }

  test('begins a new window if the clock of Postgres has stepped back', async () => {
    const { id, key } = await api.createKey(['transfers:read']);
    const started = Math.floor(Date.now() / 1000) + 3_600;
    await api.installation.sql`
      insert into work.rate_windows (subject, started, requests)
      values (${`key:${id}`}, ${started}, 100)`;
    const answer = await api.ask('GET', '/v1/transfers', { key });
    expect([answer.status, rate(answer).remaining]).toEqual([200, 4]);
    expect(rate(answer).reset).toBeLessThan(started);
  });

  test('counts a batch as no more than a window, so that it can be sent', async () => {
    const { key } = await api.createKey(['transfers:write']);
    const item = { source_uri: 'sftp://nowhere/a', destination_uri: 'sftp://nowhere/b' };
    const json = { items: Array.from({ length: 1_000 }, () => item) };
    const answer = await api.ask('POST', '/v1/batches', { key, json });
    expect(answer).toMatchObject({ status: 400, body: { code: 'endpoint_not_configured' } });
    expect(rate(answer).remaining).toBe(0);
    expectRefused(await api.ask('POST', '/v1/batches', { key, json }));
  });

  test('counts every request of a key over all processes, whatever its answer', async () => {
    const { id, key } = await api.createKey(['transfers:read']);
    const other = await api.startServer();
    const first = await api.ask('GET', '/v1/transfers', { key });
    const { reset } = rate(first);
    expect(rate(first)).toEqual({ limit: 5, remaining: 4, reset });
    const answers = [
      await other.ask('GET', '/v1/nothing', { key }),
      await api.ask('POST', '/v1/transfers', { key }),
      await other.ask('OPTIONS', '/v1/transfers', { key }),
      await api.ask('GET', '/v1/transfers?limit=0', { key }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 403, 204, 400]);
    expect(answers.map(rate)).toEqual(
      [3, 2, 1, 0].map((remaining) => ({ limit: 5, remaining, reset })),
    );
    expectRefused(await api.ask('GET', '/v1/transfers', { key }));
    expectRefused(await other.ask('GET', '/v1/transfers', { key }));
    expect(await counted(`key:${id}`)).toBe(7);

    // From now on each process has the count itself.
    expectRefused(await api.ask('GET', '/v1/transfers', { key }));
    expectRefused(
      await other
        .ask('HEAD', '/v1/transfers', { key })
        .then((answer) => ({ ...answer, body: { code: 'rate_limited' } })),
    );
    expect(await counted(`key:${id}`)).toBe(7);
  });

  test('starts a new window when one has ended', async () => {
    const { id, key } = await api.createKey(['transfers:read']);
    for (let i = 0; i < 5; i++) await api.ask('GET', '/v1/transfers', { key });
    await api.installation
      .sql`update work.rate_windows set started = started - 60 where subject = ${`key:${id}`}`;
    const answer = await api.ask('GET', '/v1/transfers', { key });
    expect(answer.status).toBe(200);
    expect(rate(answer).remaining).toBe(4);
  });

  test('lets exactly the allowed number of concurrent requests in', async () => {
    const { key } = await api.createKey(['transfers:read']);
    const other = await api.startServer();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        (i % 2 ? api : other).ask('GET', '/v1/transfers', { key }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(15);
  });

  test('counts each key separately for concurrent requests', async () => {
    const keys = await Promise.all(
      Array.from({ length: 12 }, () => api.createKey(['transfers:read'])),
    );
    const other = await api.startServer();
    const asks = keys.flatMap(({ key }) => [
      [api, key],
      [other, key],
    ]) as [typeof api, string][];
    const answers = await Promise.all(
      [...asks, ...asks.toReversed()].map(async ([server, key]) => ({
        key,
        ...(await server.ask('GET', '/v1/transfers', { key })),
      })),
    );
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    for (const { id, key } of keys) {
      const remaining = answers
        .filter((answer) => answer.key === key)
        .map((answer) => rate(answer).remaining);
      expect(remaining.sort()).toEqual([1, 2, 3, 4]);
      expect(await counted(`key:${id}`)).toBe(4);
    }
  });

  test('counts by address without a valid key, and only then', async () => {
    const from = { 'x-forwarded-for': '203.0.113.7' };
    const { key } = await api.createKey(['transfers:read']);
    const first = await api.ask('GET', '/v1/transfers', { key: null, headers: from });
    expect(first.status).toBe(401);
    expect(rate(first)).toMatchObject({ limit: 60, remaining: 59 });
    const answers = await Promise.all(
      Array.from({ length: 59 }, () =>
        api.ask('GET', '/v1/transfers', { key: 'wb_wrong', headers: from }),
      ),
    );
    expect(answers.every(({ status }) => status === 401)).toBe(true);
    expectRefused(await api.ask('GET', '/v1/transfers', { key: null, headers: from }));
    expectRefused(await api.ask('GET', '/v1/openapi.json', { key: null, headers: from }));
    expect(await api.ask('GET', '/v1/transfers', { key, headers: from })).toMatchObject({
      status: 200,
    });
    expect(await api.ask('GET', '/health/live', { key: null, headers: from })).toMatchObject({
      status: 200,
    });
  });

  test.each([
    ['the forwarded address', { 'x-forwarded-for': '198.51.100.9' }, 'address:198.51.100.9'],
    [
      'the last address that is not from a trusted proxy',
      { 'x-forwarded-for': '192.0.2.1, 198.51.100.10' },
      'address:198.51.100.10',
    ],
    [
      'an IPv4 address in an IPv6 one',
      { 'x-forwarded-for': '::ffff:198.51.100.11' },
      'address:198.51.100.11',
    ],
    [
      'the network of an IPv6 address',
      { 'x-forwarded-for': '2001:db8:0:7::1' },
      'address:2001:db8:0:7::/64',
    ],
    [
      'the same network in another spelling',
      { 'x-forwarded-for': '2001:0DB8::8:0:0:0:1' },
      'address:2001:db8:0:8::/64',
    ],
    [
      'the forwarded address without its port',
      { 'x-forwarded-for': '198.51.100.12:4711' },
      'address:198.51.100.12',
    ],
    [
      'the network of an IPv6 address with a port',
      { 'x-forwarded-for': '[2001:db8:0:9::1]:4711' },
      'address:2001:db8:0:9::/64',
    ],
    [
      "the proxy's address if it forwards nonsense",
      { 'x-forwarded-for': 'drop table' },
      'address:127.0.0.1',
    ],
  ])('counts by %s', async (_what, headers, subject) => {
    const before = (await counted(subject)) ?? 0;
    await api.ask('GET', '/v1/transfers', { key: null, headers });
    expect(await counted(subject)).toBe(before + 1);
  });

  test('ignores the forwarded address of an untrusted client', async () => {
    const server = await api.startServer({ trustedProxies: [] });
    await server.ask('GET', '/v1/transfers', {
      key: null,
      headers: { 'x-forwarded-for': '198.51.100.77' },
    });
    expect(await counted('address:198.51.100.77')).toBeUndefined();
  });
});
