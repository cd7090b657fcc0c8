import { afterAll, beforeAll, expect, test } from 'vitest';
import { newApiKey } from '../../src/commands/api-key.ts';
import { revokeKey } from '../../src/commands/keys.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { sendRaw } from '../support/http/raw-http.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

const TRANSFER = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};

describeWithPostgres('authentication', () => {
  let api: TestApi;
  let address = 0;
  beforeAll(async () => {
    // Each request comes from its own address: one address would exceed its limit for rejected
    // requests.
    api = await startApi({ trustedProxies: ['127.0.0.1'] });
  });
  afterAll(() => api?.close());

  const withHeader = (authorization: string | null, path = '/v1/transfers') => {
    const headers: Record<string, string> = { 'x-forwarded-for': `198.51.100.${address++}` };
    if (authorization !== null) headers.authorization = authorization;
    return api.ask('GET', path, { key: null, headers });
  };

  test.each<[string, (key: string) => string | null, string]>([
    ['no header', () => null, 'api_key_missing'],
    ['an empty header', () => '', 'api_key_missing'],
    ['no key after the scheme', () => 'Bearer', 'api_key_malformed'],
    ['the key alone', (key) => key, 'api_key_malformed'],
    ['another scheme', (key) => `Basic ${key}`, 'api_key_malformed'],
    ['two spaces', (key) => `Bearer  ${key}`, 'api_key_malformed'],
    ['a tab', (key) => `Bearer\t${key}`, 'api_key_malformed'],
    [
      'a space within the key',
      (key) => `Bearer ${key.slice(0, 9)} ${key.slice(9)}`,
      'api_key_malformed',
    ],
    ['something after the key', (key) => `Bearer ${key},x`, 'api_key_malformed'],
    [
      'a mistyped key',
      (key) => `Bearer ${key.slice(0, -1)}${key.endsWith('x') ? 'y' : 'x'}`,
      'api_key_malformed',
    ],
    ['the id of a key', () => 'Bearer key_01JZ8Q6W3N5V4T2R1P0M9K8J7H', 'api_key_id_used'],
    ['an unknown key', () => `Bearer ${newApiKey()}`, 'api_key_invalid'],
  ])('rejects %s', async (_what, header, code) => {
    const answer = await withHeader(header(api.key));
    expect(answer).toMatchObject({ status: 401, body: { code } });
    expect(answer.headers.get('www-authenticate')).toBe('Bearer');
    expect(answer.headers.get('x-ratelimit-limit')).toBe('60');
    expect(JSON.stringify(answer.body)).not.toContain(api.key);
  });

  test('rejects two Authorization headers', async () => {
    const header = `Authorization: Bearer ${api.key}\r\n`;
    const answer = await sendRaw(
      api.port,
      `GET /v1/transfers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${header}${header}\r\n`,
    );
    expect(answer).toMatchObject({
      status: 401,
      body: expect.stringContaining('api_key_malformed'),
    });
  });

  test('accepts the scheme in any letter case, as RFC 9110 requires', async () => {
    expect(await withHeader(`bearer ${api.key}`)).toMatchObject({ status: 200 });
  });

  test('accepts no key from the query', async () => {
    expect(await withHeader(null, `/v1/transfers?api_key=${api.key}`)).toMatchObject({
      status: 401,
      body: { code: 'api_key_missing' },
    });
    const answer = await withHeader(`Bearer ${api.key}`, `/v1/transfers?api_key=${api.key}`);
    expect(answer).toMatchObject({
      status: 400,
      body: { code: 'unknown_field', errors: [{ field: 'api_key' }] },
    });
    expect(JSON.stringify(answer.body)).not.toContain(api.key);
  });

  test('rejects a revoked key as soon as the revocation is done', async () => {
    const { id, key } = await api.createKey(['transfers:read']);
    expect(await withHeader(`Bearer ${key}`)).toMatchObject({ status: 200 });
    await revokeKey(api.installation.commands, id, CAUSE);
    expect(await withHeader(`Bearer ${key}`)).toMatchObject({
      status: 401,
      body: { code: 'api_key_revoked' },
    });
  });

  test('rejects an expired key', async () => {
    const { key } = await api.createKey(['transfers:read'], { expiresIn: '1ms' });
    await expect
      .poll(async () => (await withHeader(`Bearer ${key}`)).body.code)
      .toBe('api_key_expired');
  });

  test.each([
    ['GET', '/v1/transfers', ['webhooks:write', 'metrics:read'], 'transfers:read'],
    ['POST', '/v1/transfers', ['transfers:read'], 'transfers:write'],
    [
      'DELETE',
      '/v1/transfers/txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H',
      ['transfers:read'],
      'transfers:write',
    ],
    [
      'GET',
      '/v1/transfers/txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H/events',
      ['audit:read'],
      'transfers:read',
    ],
    ['GET', '/v1/events', ['transfers:write'], 'audit:read'],
    ['GET', '/metrics', ['transfers:write'], 'metrics:read'],
  ] as const)('%s %s with only %s needs %s', async (method, path, scopes, required_scope) => {
    const { key } = await api.createKey([...scopes]);
    expect(await api.ask(method, path, { key })).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope', required_scope },
    });
  });

  test('lets a write scope read, and admin do everything', async () => {
    const writer = await api.createKey(['transfers:write']);
    expect(await api.ask('GET', '/v1/transfers', { key: writer.key })).toMatchObject({
      status: 200,
    });
    const { key } = await api.createKey(['admin']);
    expect(await api.ask('POST', '/v1/transfers', { key, json: TRANSFER })).toMatchObject({
      status: 201,
    });
    expect(await api.ask('GET', '/metrics', { key })).toMatchObject({ status: 200 });
  });

  test('shows an account nothing of another one', async () => {
    const { key } = await api.createKey(['transfers:write'], { account: 'acc_other' });
    const { body } = await api.ask('POST', '/v1/transfers', { json: TRANSFER });
    const path = `/v1/transfers/${body.id}`;
    for (const [method, at] of [
      ['GET', path],
      ['DELETE', path],
      ['GET', `${path}/events`],
      ['GET', `${path}?as_of=0`],
    ] as const) {
      expect(await api.ask(method, at, { key })).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
    }
    expect((await api.ask('GET', '/v1/transfers', { key })).body.pagination.total).toBe(0);
  });
});
