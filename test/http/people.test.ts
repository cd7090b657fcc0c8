import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { EventStore } from '../../src/adapters/event-store/port.ts';
import { recordsOfSessions } from '../../src/http/auth/sessions.ts';
import { type Ask, type Server, startApi, type TestApi } from '../support/http/api.ts';
import {
  startIdentityProvider,
  type TestIdentityProvider,
} from '../support/http/identity-provider.ts';
import { sendRaw } from '../support/http/raw-http.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const TRANSFER = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};
const ROLES = [
  'groups:watchers=viewer@acc_default',
  'groups:ops=operator@acc_default',
  'groups:ops=viewer@acc_b',
  'groups:west=viewer@acc_b',
  'groups:audit=auditor@*',
  'email:root@example.com=admin@*',
].join();

describeWithPostgres('people who sign in by OpenID Connect', () => {
  let api: TestApi;
  let provider: TestIdentityProvider;
  let other: Server;

  beforeAll(async () => {
    provider = await startIdentityProvider();
    // Each browser has its own address: one address would exceed its limit.
    const settings = { ...provider.settings, WAYBILL_OIDC_ROLES: ROLES };
    api = await startApi({ trustedProxies: ['127.0.0.1'] }, settings);
    other = await api.startServer();
    provider.register(api.url);
    await api.createKey(['transfers:read'], { account: 'acc_b' });
    await api.createKey(['transfers:read'], { account: 'acc_c' });
  });
  afterAll(async () => {
    await api?.close();
    await provider?.close();
  });
  beforeEach(() => {
    provider.setDown(false);
    provider.people.clear();
    for (const [subject, groups] of [
      ['ann', ['ops']],
      ['bob', ['watchers']],
      ['eve', ['other']],
      ['aud', ['audit']],
    ] as const)
      provider.people.set(subject, {
        name: `${subject} example`,
        email: `${subject}@example.com`,
        email_verified: true,
        groups,
      });
  });

  /** A browser with cookies, which follows redirects one at a time. */
  function createBrowser() {
    const address = `198.51.100.${++addresses}`;
    const cookies = new Map<string, Map<string, string>>();
    async function open(url: string, init: RequestInit = {}): Promise<Response> {
      const { origin } = new URL(url);
      const own = cookies.get(origin) ?? new Map<string, string>();
      cookies.set(origin, own);
      const headers = new Headers(init.headers);
      headers.set('cookie', [...own].map((pair) => pair.join('=')).join('; '));
      headers.set('x-forwarded-for', address);
      const response = await fetch(url, { ...init, headers, redirect: 'manual' });
      for (const cookie of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie) as unknown as string[];
        if (/max-age=0|expires=Thu, 01 Jan 1970/i.test(cookie)) own.delete(name as string);
        else own.set(name as string, value as string);
      }
      return response;
    }
    /** Opens a URL and follows redirects up to the first that leads to this path. */
    async function follow(url: string, stopAt: RegExp, init?: RequestInit): Promise<URL> {
      for (let at = url, more = init; ; more = {}) {
        const response = await open(at, more);
        const to = response.headers.get('location');
        if (to === null) throw new Error(`${at}: ${response.status} ${await response.text()}`);
        const next = new URL(to, at);
        if (stopAt.test(next.pathname)) return next;
        at = next.href;
      }
    }
    return { cookies, open, follow };
  }
  let addresses = 0;

  const START = '/v1/session/oidc?return=%2Fconsole%2Fwebhooks';
  const CALLBACK = /^\/v1\/session\/oidc\/callback$/;
  const PAGE = /^\/console\/sign-in$/;

  /** Signs in at the provider, up to its redirect back to the service. */
  async function untilCallback(subject: string) {
    const browser = createBrowser();
    const page = await browser.follow(api.url + START, /^\/interaction\//);
    const body = new URLSearchParams({ subject });
    const callback = await browser.follow(page.href, CALLBACK, { method: 'POST', body });
    return { browser, callback };
  }

  /** Signs in, and returns where it ends and a function that sends requests with the session. */
  async function signIn(subject: string) {
    const { browser, callback } = await untilCallback(subject);
    const end = await browser.follow(callback.href, PAGE);
    const cookie = `waybill_session=${browser.cookies.get(api.url)?.get('waybill_session')}`;
    const ask = (method: string, path: string, options: Ask = {}, server: Server = api) =>
      server.ask(method, path, {
        key: null,
        ...options,
        headers: { cookie, 'sec-fetch-site': 'same-origin' },
      });
    return { browser, end, ask };
  }

  /** Makes the last confirmation of every session older. */
  const age = (minutes: number) =>
    api.installation.sql`
      update work.console_sessions set confirmed_at = now() - ${minutes} * interval '1 minute'`;

  test('sign in with the rights of their roles, and events name them', async () => {
    const { end, ask } = await signIn('ann');
    expect(end.search).toBe('?signed_in=&return=%2Fconsole%2Fwebhooks');
    const { status, body } = await ask('GET', '/v1/session');
    expect({ status, body }).toMatchObject({
      status: 200,
      body: {
        key_id: null,
        person: { subject: 'ann', name: 'ann example', email: 'ann@example.com' },
        account: 'acc_default',
        accounts: ['acc_b', 'acc_default'],
        roles: ['operator'],
        sign_out_url: expect.stringContaining(provider.issuer),
      },
    });
    expect(body.scopes).toEqual([
      'transfers:read',
      'transfers:write',
      'flows:read',
      'flows:write',
      'webhooks:read',
      'webhooks:write',
      'observe',
      'operate',
    ]);
    const created = await ask('POST', '/v1/transfers', { json: TRANSFER });
    expect(created.status).toBe(201);
    const history = await ask('GET', `/v1/transfers/${created.body.id}/events`);
    expect(history.body.data[0].actor).toBe('person:ann@example.com (ann)');
    expect(await ask('GET', '/v1/keys')).toMatchObject({
      status: 403,
      body: { required_scope: 'admin' },
    });
  });

  test('have in each account only the roles that are listed for it', async () => {
    const { ask } = await signIn('ann');
    const switchTo = (account: string) => ask('PUT', '/v1/session/account', { json: { account } });
    expect(await switchTo('acc_b')).toMatchObject({
      status: 200,
      body: { account: 'acc_b', roles: ['viewer'] },
    });
    expect(await ask('POST', '/v1/transfers', { json: TRANSFER })).toMatchObject({ status: 403 });
    expect(await switchTo('acc_c')).toMatchObject({ status: 400 });

    const auditor = await signIn('aud');
    expect((await auditor.ask('GET', '/v1/session')).body.accounts).toEqual([
      'acc_b',
      'acc_c',
      'acc_default',
    ]);
    expect((await auditor.ask('GET', '/v1/events')).body).toContain('endpoint.configured');
  });

  test.each([
    ['has no role', 'eve', 'no_role'],
    ['denies the sign-in', '', 'denied'],
  ])('do not sign in if the person %s', async (_what, subject, error) => {
    const { end, ask } = await signIn(subject);
    expect(end.searchParams.get('error')).toBe(error);
    expect((await ask('GET', '/v1/session')).status).toBe(401);
  });

  test('have no role by an email address that is not verified', async () => {
    provider.people.set('mallory', { email: 'root@example.com', email_verified: false });
    expect((await signIn('mallory')).end.searchParams.get('error')).toBe('no_role');
    provider.people.set('root', { email: 'root@example.com', email_verified: true });
    const { ask } = await signIn('root');
    expect((await ask('GET', '/v1/session')).body.roles).toEqual(['admin']);
  });

  test('leave a failed sign-in in the audit log', async () => {
    expect((await signIn('eve')).end.searchParams.get('error')).toBe('no_role');
    const { key } = await api.createKey(['admin']);
    const query = `subject=198.51.100.${addresses}&type=access.sign_in_failed`;
    const dataOf = async () => (await api.ask('GET', `/v1/audit?${query}`, { key })).body.data;
    await expect.poll(dataOf).toMatchObject([{ data: { failures: 1, reasons: { no_role: 1 } } }]);
  });

  const changed = (change: (started: Record<string, unknown>) => void) => (value: string) => {
    const started = JSON.parse(Buffer.from(value, 'base64url').toString());
    change(started);
    return Buffer.from(JSON.stringify(started)).toString('base64url');
  };
  test.each<[string, (value: string) => string, string, string]>([
    ['the state of the address', (value) => value, 'x', 'expired'],
    ['the state of the browser', changed((at) => (at.state = 'x')), '', 'expired'],
    ['the nonce', changed((at) => (at.nonce = 'x')), '', 'rejected'],
    ['the verifier of the code', changed((at) => (at.verifier = 'x'.repeat(43))), '', 'rejected'],
    ['the time limit', changed((at) => (at.expires = Date.now())), '', 'expired'],
    ['the whole cookie', () => 'x', '', 'expired'],
  ])('do not sign in after a change of %s', async (_what, change, state, error) => {
    const { browser, callback } = await untilCallback('ann');
    const cookies = browser.cookies.get(api.url) as Map<string, string>;
    cookies.set('waybill_sign_in', change(cookies.get('waybill_sign_in') as string));
    if (state !== '') callback.searchParams.set('state', state);
    const end = await browser.follow(callback.href, PAGE);
    expect(end.searchParams.get('error')).toBe(error);
    expect(cookies.has('waybill_session')).toBe(false);
    expect(cookies.has('waybill_sign_in')).toBe(false);
  });

  test('cannot finish a sign-in that another browser has started', async () => {
    const { callback } = await untilCallback('ann');
    const end = await createBrowser().follow(callback.href, PAGE);
    expect(end.searchParams.get('error')).toBe('expired');
  });

  test('begin a sign-in also on a page with a long address', async () => {
    const page = `/console/transfers?q=${encodeURIComponent('ж'.repeat(256))}`;
    for (const [path, kept] of [
      [page, page],
      [page + '%20'.repeat(500), ''],
    ] as const) {
      const { cookies, follow } = createBrowser();
      const query = new URLSearchParams({ return: path });
      await follow(`${api.url}/v1/session/oidc?${query}`, /^\/interaction\//);
      const cookie = cookies.get(api.url)?.get('waybill_sign_in') ?? '';
      expect(JSON.parse(Buffer.from(cookie, 'base64url').toString()).returnTo).toBe(kept);
      expect(cookie.length).toBeLessThan(4_000);
    }
  });

  test.each(['', '/callback?state=x'])(
    'cannot sign in at a host without a URL: %s',
    async (path) => {
      const { status, body } = await sendRaw(
        api.port,
        `GET /v1/session/oidc${path} HTTP/1.1\r\nHost: 192.0.2.256\r\nConnection: close\r\n\r\n`,
      );
      expect([status, JSON.parse(body).code]).toEqual([400, 'malformed_request']);
    },
  );

  test('keep a session while the provider confirms it, in two processes at once', async () => {
    const { ask } = await signIn('ann');
    for (let round = 0; round < 3; round++) {
      await age(round === 0 ? 4 : 20);
      const before = provider.exchanges();
      const answers = await Promise.all(
        Array.from({ length: 6 }, (_, i) =>
          ask('GET', '/v1/transfers', {}, i % 2 === 0 ? api : other),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(200));
      // A refresh token that is used twice would end the session.
      expect(provider.exchanges() - before).toBe(1);
    }
    const named = await api.installation.sql<{ tokens_record: string }[]>`
      select tokens_record from work.console_sessions where person ->> 'subject' = 'ann'`;
    const records = named.map(({ tokens_record }) => tokens_record);
    expect(await recordsOfSessions(api.installation.sql, [...records, 'vlt_x'])).toHaveLength(
      records.length,
    );
  });

  test('keep a session if the keys of the provider cannot be read for a while', async () => {
    const { ask } = await signIn('ann');
    // A process that has not read the keys yet.
    const started = await api.startServer();
    provider.setKeysDown(true);
    await age(4);
    const before = provider.exchanges();
    expect((await ask('GET', '/v1/transfers', {}, started)).status).toBe(200);
    expect(provider.exchanges() - before).toBe(1);
    provider.setKeysDown(false);
    await age(20);
    expect((await ask('GET', '/v1/transfers', {}, started)).status).toBe(200);
    expect(provider.exchanges() - before).toBe(2);
  });

  const OF_OKTA = { errorCode: 'E0000047', errorSummary: 'API call exceeded rate limit' };
  test.each([
    { path: '/token', status: 429, body: OF_OKTA },
    { path: '/me', status: 429, body: OF_OKTA },
    { path: '/token', status: 400, body: { error: 'temporarily_unavailable' } },
  ])('keep a session while the provider answers $status to $path', async (refusal) => {
    const { ask } = await signIn('ann');
    // After a failure, a process waits before it asks the provider again.
    const started = await api.startServer();
    provider.setRefusal(refusal);
    await age(4);
    expect((await ask('GET', '/v1/transfers', {}, started)).status).toBe(200);
    provider.setRefusal(null);
    await age(20);
    expect((await ask('GET', '/v1/transfers', {}, started)).status).toBe(200);
  });

  test('lose what a removed role allowed, and the session with the last role', async () => {
    const { ask } = await signIn('ann');
    provider.people.set('ann', { email: 'ann@example.com', groups: ['watchers'] });
    await age(4);
    expect(await ask('POST', '/v1/transfers', { json: TRANSFER })).toMatchObject({ status: 403 });
    expect((await ask('GET', '/v1/session')).body).toMatchObject({
      roles: ['viewer'],
      accounts: ['acc_default'],
    });
    provider.people.set('ann', { email: 'ann@example.com', groups: [] });
    await age(4);
    const ended = { status: 401, body: { code: 'session_ended' } };
    const answer = await ask('GET', '/v1/transfers');
    expect(answer).toMatchObject(ended);
    expect(answer.body.detail).toContain('no longer gives you a role');
    expect(await ask('GET', '/v1/transfers')).toMatchObject(ended);
  });

  test('lose a removed role also if the clock of Postgres has stepped back', async () => {
    const { ask } = await signIn('ann');
    provider.people.set('ann', { email: 'ann@example.com', groups: [] });
    await age(-60);
    expect(await ask('GET', '/v1/transfers')).toMatchObject({ status: 401 });
  });

  test.each([true, false])('get the rest of an export if their role holds: %s', async (holds) => {
    const { ask } = await signIn('aud');
    const { store } = api.installation;
    const slow: EventStore = {
      ...store,
      async *subscribe(options) {
        for await (const batch of store.subscribe(options)) {
          yield { ...batch, position: 0n, caughtUp: false };
          if (!holds) provider.people.set('aud', { email: 'aud@example.com', groups: [] });
          await age(4.5);
          yield batch;
        }
      },
    };
    const server = await api.startServer({ store: slow, accessCheckMs: 0 });
    const answer = ask('GET', '/v1/events', {}, server);
    if (holds) expect((await answer).body).toContain('log.opened');
    else {
      // A refusal if nothing was sent yet.
      const outcome = await answer.then(({ status }) => String(status), String);
      expect(outcome).toMatch(/401|terminated/);
    }
  });

  test('lose the session when no role is left in its account, and never move to another', async () => {
    const { ask } = await signIn('ann');
    provider.people.set('ann', { email: 'ann@example.com', groups: ['west'] });
    await age(4);
    const answer = await ask('GET', '/v1/transfers');
    expect(answer).toMatchObject({ status: 401, body: { code: 'session_ended' } });
    expect(answer.body.detail).toContain('no longer have a role in this account');
  });

  test('lose the session when the provider no longer knows them', async () => {
    const { ask } = await signIn('ann');
    provider.people.delete('ann');
    await age(4);
    expect(await ask('GET', '/v1/transfers')).toMatchObject({ status: 401 });
  });

  test('keep a session for five minutes without the provider, and keys work on', async () => {
    const { ask } = await signIn('ann');
    const late = await signIn('bob');
    provider.setDown(true);
    await age(4);
    expect((await ask('GET', '/v1/transfers')).status).toBe(200);
    await age(5);
    const answer = await late.ask('GET', '/v1/transfers');
    expect(answer).toMatchObject({ status: 401, body: { code: 'session_ended' } });
    expect(answer.body.detail).toContain('Sign in with an API key meanwhile');
    expect((await api.ask('GET', '/v1/transfers')).status).toBe(200);
    const { key } = await api.createKey(['admin']);
    const headers = { 'x-forwarded-for': '198.51.100.250', 'sec-fetch-site': 'same-origin' };
    const json = { api_key: key };
    expect((await api.ask('POST', '/v1/session', { key: null, json, headers })).status).toBe(201);
    // The provider's addresses are not known to a new process.
    const started = await api.startServer();
    const end = await createBrowser().follow(started.url + START, PAGE);
    expect(end.searchParams.get('error')).toBe('unreachable');
    expect(end.searchParams.get('return')).toBe('/console/webhooks');
  });

  test('leave no token and no secret in the log or in their session', async () => {
    const { browser } = await signIn('ann');
    const token = browser.cookies.get(api.url)?.get('waybill_session') as string;
    const rows = await api.installation.sql`select * from work.console_sessions`;
    for (const text of [api.logged.join(''), JSON.stringify(rows)]) {
      expect(text).not.toContain(token);
      expect(text).not.toContain(provider.settings.WAYBILL_OIDC_CLIENT_SECRET);
      expect(text).not.toMatch(/code=|verifier|refresh/);
    }
  });
});
