import { afterAll, beforeAll, expect, test } from 'vitest';
import { newApiKey } from '../../src/commands/api-key.ts';
import { revokeKey } from '../../src/commands/keys.ts';
import { type Answer, type Ask, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

const TRANSFER = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};
const SAME = { 'sec-fetch-site': 'same-origin' };

describeWithPostgres('a console session', () => {
  let api: TestApi;
  let addresses = 0;
  beforeAll(async () => {
    // Each sign-in comes from its own address: one address would exceed its limit.
    api = await startApi({ trustedProxies: ['127.0.0.1'] });
  });
  afterAll(() => api?.close());

  const signIn = (api_key: string, headers: Record<string, string> = {}) =>
    api.ask('POST', '/v1/session', {
      key: null,
      json: { api_key },
      headers: { 'x-forwarded-for': `198.51.100.${++addresses}`, ...SAME, ...headers },
    });
  const cookieOf = (answer: Answer) => answer.headers.get('set-cookie')?.split(';')[0] as string;

  /** Signs in with a new key, and returns a function that sends requests with its cookie. */
  async function signedIn(options: { account?: string; expiresIn?: string } = {}) {
    const { id, key } = await api.createKey(['admin'], options);
    const answer = await signIn(key);
    const cookie = cookieOf(answer);
    const ask = (method: string, path: string, { headers, ...more }: Ask = {}) =>
      api.ask(method, path, {
        key: null,
        ...more,
        headers: { cookie, ...SAME, ...(headers as Record<string, string>) },
      });
    return { id, key, cookie, answer, ask };
  }

  test('has a cookie that no script can read and no other site can send', async () => {
    const { id, key, answer, cookie } = await signedIn();
    expect(answer).toMatchObject({
      status: 201,
      body: { key_id: id, key_name: 'test', account: 'acc_default' },
    });
    expect(answer.headers.get('set-cookie')).toMatch(
      /^waybill_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    expect(JSON.stringify(answer.body)).not.toContain(key);
    const kept = await api.installation.sql`select * from work.console_sessions`;
    expect(JSON.stringify(kept)).not.toContain(cookie.split('=')[1]);
  });

  test('has a Secure cookie over TLS', async () => {
    const { key } = await api.createKey(['admin']);
    const https = { 'x-forwarded-proto': 'https' };
    const answer = await signIn(key, https);
    expect(answer.headers.get('set-cookie')).toMatch(/; Secure/);
    const ask = (cookie: string) =>
      api.ask('GET', '/v1/session', { key: null, headers: { cookie, ...https } });
    expect(await ask(cookieOf(answer))).toMatchObject({ status: 200 });
    // Another host of the domain can set a cookie without the prefix.
    expect(cookieOf(answer)).toMatch(/^__Host-waybill_session=/);
    expect(await ask(cookieOf(answer).replace('__Host-', ''))).toMatchObject({ status: 401 });
  });

  test('has a Secure cookie behind an unknown proxy if the public URL is https', async () => {
    const { config } = api.installation;
    const server = await api.startServer({
      trustedProxies: [],
      config: { ...config, publicUrl: 'https://waybill.example.com' },
    });
    const { key } = await api.createKey(['admin']);
    const json = { api_key: key };
    const signedIn = await server.ask('POST', '/v1/session', { key: null, json, headers: SAME });
    expect(signedIn.headers.get('set-cookie')).toMatch(/; Secure; SameSite=Strict$/);
    const headers = { ...SAME, cookie: cookieOf(signedIn) };
    const signedOut = await server.ask('DELETE', '/v1/session', { key: null, headers });
    expect(signedOut.headers.get('set-cookie')).toMatch(/Max-Age=0.*; Secure/);
  });

  test('stays on https if the public URL is https', async () => {
    const { config } = api.installation;
    const server = await api.startServer({
      config: { ...config, publicUrl: 'https://waybill.example.com' },
    });
    const httpsOnly = async (asked: typeof api.ask, path: string) =>
      (await asked('GET', path, { key: null })).headers.get('strict-transport-security');
    for (const path of ['/console', '/v1/transfers', '/%', '/health/live']) {
      expect(await httpsOnly(server.ask, path)).toBe('max-age=31536000');
      expect(await httpsOnly(api.ask, path)).toBeNull();
    }
  });

  test.each<[string, (keys: { unknown: string; id: string }) => string, number, string]>([
    ['a text that is not a key', () => 'open sesame', 401, 'api_key_malformed'],
    ['an unknown key', ({ unknown }) => unknown, 401, 'api_key_invalid'],
    ['the id of a key', ({ id }) => id, 401, 'api_key_id_used'],
    ['a key without the scope admin', () => api.key, 403, 'insufficient_scope'],
  ])('rejects %s', async (_what, pick, status, code) => {
    const answer = await signIn(
      pick({ unknown: newApiKey(), id: 'key_01JZ8Q6W3N5V4T2R1P0M9K8J7H' }),
    );
    expect(answer).toMatchObject({ status, body: { code } });
    expect(answer.headers.get('set-cookie')).toBeNull();
  });

  test('counts sign-in attempts in the window of the address', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.99' };
    const attempts = await Promise.all(
      Array.from({ length: 60 }, () => signIn(newApiKey(), headers)),
    );
    expect(attempts.map(({ status }) => status)).toEqual(Array(60).fill(401));
    const { key } = await api.createKey(['admin']);
    expect(await signIn(key, headers)).toMatchObject({
      status: 429,
      body: { code: 'rate_limited' },
    });
  });

  test('may do everything that an admin key may, in its own rate window', async () => {
    const { id, key, ask } = await signedIn();
    const answer = await ask('GET', '/v1/session');
    expect(answer).toMatchObject({ status: 200, body: { key_id: id } });
    expect(answer.headers.get('x-ratelimit-limit')).toBe('1200');
    expect(await ask('GET', '/metrics')).toMatchObject({ status: 200 });
    expect(
      (await api.ask('GET', '/v1/transfers', { key })).headers.get('x-ratelimit-remaining'),
    ).toBe('9999');
  });

  test('names the console and the key in the events that it causes', async () => {
    const { id, ask } = await signedIn();
    const { body } = await ask('POST', '/v1/transfers', { json: TRANSFER });
    const history = await ask('GET', `/v1/transfers/${body.id}/events`);
    expect(history.body.data[0]).toMatchObject({
      type: 'transfer.created',
      actor: `console:${id}`,
    });
  });

  test.each<[string, Record<string, string>, number]>([
    ['a page of the console', { 'sec-fetch-site': 'same-origin' }, 201],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['another host of the site', { 'sec-fetch-site': 'same-site' }, 403],
    ['the address bar', { 'sec-fetch-site': 'none' }, 403],
    ['an older browser, from a page of the console', { origin: 'OWN' }, 201],
    ['an older browser, from another site', { origin: 'https://evil.example' }, 403],
    ['an opaque origin', { origin: 'null' }, 403],
    ['an unknown origin', {}, 403],
  ])('accepts or rejects a change by its origin: %s', async (_what, given, status) => {
    const { cookie } = await signedIn();
    const headers = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [name, value === 'OWN' ? api.url : value]),
    );
    const answer = await api.ask('POST', '/v1/transfers', {
      key: null,
      json: TRANSFER,
      headers: { cookie, ...headers },
    });
    expect(answer).toMatchObject({
      status,
      body: status === 403 ? { code: 'cross_site_request' } : {},
    });
    expect(
      await api.ask('GET', '/v1/transfers', { key: null, headers: { cookie, ...headers } }),
    ).toMatchObject({ status: 200 });
  });

  test('cannot be started by another site', async () => {
    const { key } = await api.createKey(['admin']);
    expect(await signIn(key, { 'sec-fetch-site': 'cross-site' })).toMatchObject({
      status: 403,
      body: { code: 'cross_site_request' },
    });
  });

  test('ends when the user signs out', async () => {
    const { ask } = await signedIn();
    const answer = await ask('DELETE', '/v1/session');
    expect(answer.status).toBe(204);
    expect(answer.headers.get('set-cookie')).toMatch(
      /^waybill_session=; Max-Age=0; Path=\/; Expires/,
    );
    expect(await ask('GET', '/v1/session')).toMatchObject({
      status: 401,
      body: { code: 'session_ended' },
    });
  });

  test('ends at once with its key', async () => {
    const { id, ask } = await signedIn();
    await revokeKey(api.installation.commands, id, CAUSE);
    expect(await ask('GET', '/v1/transfers')).toMatchObject({
      status: 401,
      body: { code: 'session_ended' },
    });
    const brief = await signedIn({ expiresIn: '2s' });
    expect(brief.answer.status).toBe(201);
    await expect
      .poll(async () => (await brief.ask('GET', '/v1/transfers')).body.code, { timeout: 30_000 })
      .toBe('session_ended');
  });

  test.each([
    ['30 minutes without use', { used_at: '30 minutes', created_at: '30 minutes' }, 401],
    ['29 minutes without use', { used_at: '29 minutes', created_at: '29 minutes' }, 200],
    ['12 hours of use', { used_at: '0 minutes', created_at: '12 hours' }, 401],
  ])('ends or continues after %s', async (_what, { used_at, created_at }, status) => {
    const { id, ask } = await signedIn();
    await api.installation.sql`
      update work.console_sessions
         set used_at = now() - ${used_at}::interval, created_at = now() - ${created_at}::interval
       where key_id = ${id}`;
    expect(await ask('GET', '/v1/transfers')).toMatchObject({ status });
    // A request that was accepted counts as use.
    expect(await ask('GET', '/v1/transfers')).toMatchObject({ status });
    const [row] = await api.installation.sql<[{ fresh: boolean }]>`
      select used_at > now() - interval '1 minute' as fresh from work.console_sessions
       where key_id = ${id}`;
    expect(row.fresh).toBe(status === 200 || used_at === '0 minutes');
  });

  test('switches to another account, but to none that does not exist', async () => {
    const other = await api.createKey(['transfers:write'], { account: 'acc_other' });
    await api.ask('POST', '/v1/transfers', { key: other.key, json: TRANSFER });
    const { ask } = await signedIn();
    const total = async () => (await ask('GET', '/v1/transfers')).body.pagination.total;
    const before = await total();

    const turned = await ask('PUT', '/v1/session/account', { json: { account: 'acc_other' } });
    expect(turned).toMatchObject({
      status: 200,
      body: { account: 'acc_other', accounts: ['acc_default', 'acc_other'] },
    });
    expect(await total()).toBe(1);
    expect(await ask('PUT', '/v1/session/account', { json: { account: '\0' } })).toMatchObject({
      status: 400,
    });
    expect(
      await ask('PUT', '/v1/session/account', { json: { account: 'acc_nobody' } }),
    ).toMatchObject({
      status: 400,
      body: { code: 'validation_failed', errors: [{ field: 'account' }] },
    });
    await ask('PUT', '/v1/session/account', { json: { account: 'acc_default' } });
    expect(await total()).toBe(before);
  });

  test.each([
    ['a NUL', '"wb_\\u0000"'],
    ['an unpaired surrogate', '"wb_\\ud800"'],
  ])('rejects a key with %s as a body that is not valid, not as a sign-in', async (_what, json) => {
    const answer = await api.ask('POST', '/v1/session', {
      key: null,
      body: `{"api_key":${json}}`,
      headers: { 'content-type': 'application/json', 'x-forwarded-for': '192.0.2.77', ...SAME },
    });
    expect(answer).toMatchObject({
      status: 400,
      body: { code: 'validation_failed', errors: [{ field: 'api_key' }] },
    });
  });

  test('accepts no parameters', async () => {
    const { ask } = await signedIn();
    for (const [method, path, json] of [
      ['GET', '/v1/session'],
      ['POST', '/v1/session', { api_key: api.key }],
      ['PUT', '/v1/session/account', { account: 'acc_default' }],
      ['DELETE', '/v1/session'],
    ] as const) {
      const answer = await ask(method, `${path}?x=1`, { ...(json && { json }) });
      expect(answer).toMatchObject({
        status: 400,
        body: { code: 'unknown_field', errors: [{ field: 'x' }] },
      });
    }
  });

  test('yields to a key in the Authorization header, which has no session', async () => {
    const { key, ask } = await signedIn();
    const headers = { authorization: `Bearer ${key}` };
    expect(await ask('GET', '/v1/session', { headers })).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    });
    expect(
      await ask('GET', '/v1/transfers', { headers: { authorization: `Bearer ${newApiKey()}` } }),
    ).toMatchObject({
      status: 401,
      body: { code: 'api_key_invalid' },
    });
  });

  test('leaves no trace of token or key in the log', async () => {
    const { key, cookie, ask } = await signedIn();
    await ask('GET', '/v1/transfers');
    const lines = api.logged.join('');
    expect(lines).not.toContain(key);
    expect(lines).not.toContain(cookie.split('=')[1]);
  });
});
