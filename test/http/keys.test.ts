import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Ask, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const REQUEST = {
  name: 'nightly',
  scopes: ['transfers:write'],
  account: 'acc_a',
  expires_in: '3d',
};

describeWithPostgres('/v1/keys', () => {
  let api: TestApi;
  let admin: string;
  beforeAll(async () => {
    api = await startApi();
    admin = (await api.createKey(['admin'])).key;
  });
  afterAll(() => api?.close());

  const ask = (method: string, path = '', options: Ask = {}) =>
    api.ask(method, `/v1/keys${path}`, { key: admin, ...options });
  const find = async (id: string) =>
    (await ask('GET')).body.data.find((key: { id: string }) => key.id === id);

  test('are created, used, shown without the key itself, and revoked at once', async () => {
    const { status, body } = await ask('POST', '', { json: REQUEST });
    const { key, ...shown } = body;
    expect(status).toBe(201);
    expect(shown).toEqual({
      id: expect.stringMatching(/^key_/),
      name: 'nightly',
      account: 'acc_a',
      scopes: ['transfers:write'],
      role: null,
      last_four: key.slice(-4),
      status: 'active',
      expiring_soon: true,
      created_at: expect.stringMatching(/Z$/),
      expires_at: expect.stringMatching(/Z$/),
      revoked_at: null,
      last_used_at: null,
    });
    expect(await find(shown.id)).toEqual(shown);

    expect(await api.ask('GET', '/v1/transfers', { key })).toMatchObject({ status: 200 });
    const used = await find(shown.id);
    expect(used.last_used_at).toMatch(/Z$/);
    await api.ask('GET', '/v1/transfers', { key });
    expect(await find(shown.id)).toEqual(used);

    const revoked = await ask('POST', `/${shown.id}/revoke`);
    expect(revoked).toMatchObject({
      status: 200,
      body: { status: 'revoked', expiring_soon: false, revoked_at: expect.any(String) },
    });
    expect(await api.ask('GET', '/v1/transfers', { key })).toMatchObject({
      status: 401,
      body: { code: 'api_key_revoked' },
    });
    expect(await ask('POST', `/${shown.id}/revoke`)).toMatchObject({
      status: 200,
      body: revoked.body,
    });
    expect(JSON.stringify((await ask('GET')).body)).not.toContain(key);
  });

  test('cannot be used by a request whose body ends after they are revoked', async () => {
    const leaked = await api.createKey(['admin']);
    const request = JSON.stringify(REQUEST);
    async function* slowly() {
      yield Buffer.from(request.slice(0, 5));
      expect(await ask('POST', `/${leaked.id}/revoke`)).toMatchObject({ status: 200 });
      // Longer than a process remembers a key.
      await sleep(300);
      yield Buffer.from(request.slice(5));
    }
    const answer = await ask('POST', '', {
      key: leaked.key,
      headers: { 'content-type': 'application/json' },
      body: ReadableStream.from(slowly()),
      duplex: 'half',
    } as Ask);
    expect(answer).toMatchObject({ status: 401, body: { code: 'api_key_revoked' } });
  });

  test('are shown once, not again when a request is repeated', async () => {
    const request = { json: REQUEST, headers: { 'idempotency-key': 'once' } };
    const first = await ask('POST', '', request);
    const again = await ask('POST', '', request);
    const { key, ...shown } = first.body;
    expect(key).toMatch(/^wb_/);
    expect(again).toMatchObject({ status: 201 });
    expect(again.body).toEqual(shown);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const rows = await api.installation.sql`select answer::text from work.idempotency_keys`;
    expect(JSON.stringify([...rows])).not.toContain(key);
  });

  test('of a request that was cut off exist once, and are never shown', async () => {
    const { sql } = api.installation;
    const request = { json: REQUEST, headers: { 'idempotency-key': 'cut off' } };
    const { body } = await ask('POST', '', request);
    await sql`update work.idempotency_keys set status = null, answer = null where key = 'cut off'`;
    const { key: _, ...shown } = body;
    expect((await ask('POST', '', request)).body).toEqual(shown);
  });

  test('are shown although the read model is late: they could never be shown later', async () => {
    const { sql, commands } = api.installation;
    const late = await api.startServer({ commands: { ...commands, waitFor: async () => false } });
    const answer = await sql.begin(async (tx) => {
      await tx`lock table read.keys in exclusive mode`;
      return late.ask('POST', '/v1/keys', { key: admin, json: REQUEST });
    });
    expect(answer).toMatchObject({
      status: 201,
      body: {
        id: expect.stringMatching(/^key_/),
        key: expect.stringMatching(/^wb_/),
        name: 'nightly',
      },
    });
    await commands.waitFor(
      'catalog',
      (await api.installation.store.read(`key-${answer.body.id}`))[0]?.position ?? null,
    );
    expect(await api.ask('GET', '/v1/transfers', { key: answer.body.key })).toMatchObject({
      status: 200,
    });
  });

  test('have a scope once that is given twice', async () => {
    const scopes = ['transfers:read', 'operate', 'transfers:read'];
    expect(await ask('POST', '', { json: { ...REQUEST, scopes } })).toMatchObject({
      status: 201,
      body: { scopes: ['transfers:read', 'operate'] },
    });
  });

  test.each([
    ['no scopes', { scopes: [] }, 'scopes'],
    ['an unknown scope', { scopes: ['everything'] }, 'scopes[0]'],
    ['a lifetime that is too long', { expires_in: '366d' }, 'expires_in'],
    ['a lifetime of more than a century', { expires_in: '999999999d' }, 'expires_in'],
    ['no expiry, if that is not allowed', { expires_in: 'never' }, 'expires_in'],
    ['an unknown field', { colour: 'red' }, 'colour'],
    ['no name', { name: undefined }, 'name'],
  ])('are rejected with %s', async (_, changes, field) => {
    expect(await ask('POST', '', { json: { ...REQUEST, ...changes } })).toMatchObject({
      status: 400,
      body: { errors: [{ field }] },
    });
  });

  test.each([
    ['GET', ''],
    ['POST', ''],
    ['POST', '/key_01JZ8Q6W3N5V4T2R1P0M9K8J7H/revoke'],
  ])('%s %s needs an admin key', async (method, path) => {
    const request = path === '' && method === 'POST' ? { json: REQUEST } : {};
    expect(await ask(method, path, { ...request, key: api.key })).toMatchObject({
      status: 403,
      body: { required_scope: 'admin' },
    });
  });

  test('cannot be revoked if they do not exist', async () => {
    for (const id of ['nonsense', 'key_01JZ8Q6W3N5V4T2R1P0M9K8J7H']) {
      expect(await ask('POST', `/${id}/revoke`)).toMatchObject({ status: 404 });
    }
    expect(await ask('DELETE', '/key_01JZ8Q6W3N5V4T2R1P0M9K8J7H/revoke')).toMatchObject({
      status: 405,
    });
  });
});
