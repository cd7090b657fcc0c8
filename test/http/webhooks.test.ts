import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { WEBHOOK_SECRET } from '../../src/adapters/vault.ts';
import { MAX_WEBHOOKS } from '../../src/commands/webhooks.ts';
import * as schemas from '../../src/contract/webhooks/answers.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { WEBHOOK_EVENT_TYPES } from '../../src/domain/webhook.ts';
import { type Answer, type Server, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const BODY = {
  url: 'https://receiver.example.com/waybill',
  events: ['transfer.completed', 'transfer.failed'],
};
const UNKNOWN = '/v1/webhooks/whk_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
const GENERATED = /^whsec_[A-Za-z0-9+/]{43}=$/;

describeWithPostgres('webhooks over HTTP', () => {
  let api: TestApi;
  let key: string;
  let readKey: string;
  let otherKey: string;
  beforeAll(async () => {
    api = await startApi();
    ({ key } = await api.createKey(['webhooks:write']));
    ({ key: readKey } = await api.createKey(['webhooks:read']));
    ({ key: otherKey } = await api.createKey(['webhooks:write'], { account: 'acc_other' }));
  });
  afterAll(() => api?.close());

  const ask = (
    method: string,
    path: string,
    json?: unknown,
    headers: Record<string, string> = {},
    server: Server = api,
  ): Promise<Answer> =>
    server.ask(method, `/v1/webhooks${path}`, {
      key,
      headers,
      ...(json === undefined ? {} : { json }),
    });
  const register = async (changes: Record<string, unknown> = {}) => {
    const answer = await ask('POST', '', { ...BODY, ...changes });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    return answer.body as schemas.WebhookWithSecret;
  };
  const fieldsOf = ({ body }: Answer) =>
    body.errors?.map(({ field, code }: { field: string; code: string }) => `${field} ${code}`);
  const recordsOf = async (id: string) => {
    const events = await api.installation.store.read(streamName('webhook', id));
    return events.flatMap(({ data }) =>
      'secret_record' in (data as object)
        ? [(data as { secret_record: string }).secret_record]
        : [],
    );
  };
  const secretOf = async (id: string) => {
    const record = (await recordsOf(id)).at(-1) as string;
    return (await api.installation.vault.open<{ secret: string }>(record, WEBHOOK_SECRET)).secret;
  };

  describe('POST /v1/webhooks', () => {
    test('answers with the webhook, and shows a generated secret once', async () => {
      const { status, headers, body } = await ask('POST', '', BODY);
      expect(status).toBe(201);
      expect(schemas.webhookWithSecret.parse(body)).toEqual({
        id: expect.stringMatching(/^whk_[0-9A-Z]{26}$/),
        ...BODY,
        enabled: true,
        secret: expect.stringMatching(GENERATED),
        created_at: expect.any(String),
        updated_at: body.created_at,
        previous_secret_valid_until: null,
      });
      expect(headers.get('location')).toBe(`/v1/webhooks/${body.id}`);
      expect(await secretOf(body.id)).toBe(body.secret);
      const { secret: _, ...shown } = body;
      expect((await ask('GET', `/${body.id}`)).body).toEqual(shown);
    });

    test('accepts a secret, and does not repeat it', async () => {
      const secret = 'pässwörd "quoted" \\';
      const body = await register({ secret });
      expect(body).not.toHaveProperty('secret');
      expect(await secretOf(body.id)).toBe(secret);
    });

    test('keeps no fast hash of a secret', async () => {
      const once = { 'idempotency-key': 'guessed' };
      const registration = { ...BODY, secret: 'hunter2hunter2' };
      const rotation = { secret: 'hunter3hunter3', grace: '0s' };
      const { body } = await ask('POST', '', registration, once);
      expect((await ask('POST', '', registration, once)).body).toEqual(body);
      expect(await ask('POST', `/${body.id}/rotate-secret`, rotation, once)).toMatchObject({
        status: 200,
      });
      const rows = await api.installation.sql<{ fingerprint: string }[]>`
        select fingerprint from work.idempotency_keys where key = 'guessed'`;
      expect(rows).toHaveLength(2);
      for (const json of [registration, rotation]) {
        const quick = createHash('sha256').update(canonicalize(json) as string);
        expect(rows.map(({ fingerprint }) => fingerprint)).not.toContain(quick.digest('hex'));
      }
    });

    test('accepts every event type, and checkpoints with the scope audit:read', async () => {
      const body = { ...BODY, events: WEBHOOK_EVENT_TYPES };
      const refused = { status: 403, body: { required_scope: 'audit:read' } };
      expect(await ask('POST', '', body)).toMatchObject(refused);
      const { key: auditor } = await api.createKey(['webhooks:write', 'audit:read']);
      const added = await api.ask('POST', '/v1/webhooks', { key: auditor, json: body });
      expect(added).toMatchObject({ status: 201, body: { events: WEBHOOK_EVENT_TYPES } });
      const { id } = await register();
      expect(await ask('PATCH', `/${id}`, { events: ['log.checkpoint'] })).toMatchObject(refused);

      // What would send the checkpoints elsewhere needs the scope, too. The rest does not.
      const path = `/${added.body.id}`;
      const elsewhere = { url: 'https://elsewhere.example.com/' };
      for (const json of [elsewhere, { events: ['transfer.created'] }])
        expect(await ask('PATCH', path, json)).toMatchObject(refused);
      expect(await ask('POST', `${path}/rotate-secret`, {})).toMatchObject(refused);
      expect(await ask('PATCH', path, { enabled: false })).toMatchObject({ status: 200 });
    });

    test.each<[string, unknown, string[]]>([
      ['nothing', {}, ['url validation_failed', 'events validation_failed']],
      ['no events', { ...BODY, events: [] }, ['events validation_failed']],
      [
        'a type that is none',
        { ...BODY, events: ['transfer.queued'] },
        ['events[0] validation_failed'],
      ],
      [
        'a type twice',
        { ...BODY, events: ['transfer.failed', 'transfer.failed'] },
        ['events validation_failed'],
      ],
      ['events as text', { ...BODY, events: 'transfer.failed' }, ['events validation_failed']],
      ['an unknown field', { ...BODY, enabled: false }, ['enabled unknown_field']],
      ['a secret of 7 characters', { ...BODY, secret: '1234567' }, ['secret validation_failed']],
      [
        'a secret of 257 characters',
        { ...BODY, secret: 'x'.repeat(257) },
        ['secret validation_failed'],
      ],
      [
        'a secret with a line break',
        { ...BODY, secret: '12345678\n' },
        ['secret validation_failed'],
      ],
      ['a secret with a NUL', { ...BODY, secret: '12345678\0' }, ['secret validation_failed']],
      [
        'a secret with half a character',
        { ...BODY, secret: '12345678\ud800' },
        ['secret validation_failed'],
      ],
      ['a secret that is a number', { ...BODY, secret: 12345678 }, ['secret validation_failed']],
      [
        'a whsec_ secret that is not base64',
        { ...BODY, secret: 'whsec_not-base64!' },
        ['secret validation_failed'],
      ],
      [
        'a whsec_ secret that encodes a short key',
        { ...BODY, secret: 'whsec_AAAAAAAAAA==' },
        ['secret validation_failed'],
      ],
      [
        'all that is wrong at once',
        { url: 'x', events: [], secret: 'x' },
        ['url', 'events', 'secret'].map((f) => `${f} validation_failed`),
      ],
    ])('rejects %s', async (_, json, fields) => {
      const answer = await ask('POST', '', json);
      expect(answer.status).toBe(400);
      expect(fieldsOf(answer)).toEqual(fields);
    });

    test.each([
      ['8 characters', '12345678'],
      ['256 characters', 'x'.repeat(256)],
      ['256 characters outside the basic plane', '𝄞'.repeat(256)],
      ['a key in base64', `whsec_${Buffer.alloc(24, 1).toString('base64')}`],
    ])('accepts a secret of %s', async (_, secret) => {
      expect(await secretOf((await register({ secret })).id)).toBe(secret);
    });

    test.each([
      ['no URL', 'receiver.example.com/hook'],
      ['another scheme', 'ftp://receiver.example.com/'],
      ['script', 'javascript:alert(1)'],
      ['a file', 'file:///etc/passwd'],
      ['plain http', 'http://receiver.example.com/'],
      ['no host', 'https:///'],
      ['a fragment', 'https://receiver.example.com/#part'],
      ['an empty fragment', 'https://receiver.example.com/#'],
      ['a line break', 'https://receiver.example.com/\r\nHost: x'],
      ['a space', 'https://receiver.example.com/a b'],
      ['a tab that parsers drop', 'https://127.0.0\t.1/'],
      ['a backslash', 'https:\\\\receiver.example.com\\'],
      ['a NUL', 'https://receiver.example.com/\0'],
      ['text in reversed direction', 'https://receiver.example.com/\u202egnp.exe'],
      ['an invalid port', 'https://receiver.example.com:65536/'],
      ['the port 0', 'https://receiver.example.com:0/'],
      ['more than 2048 characters', `https://receiver.example.com/${'x'.repeat(2_048)}`],
      ['loopback', 'https://127.0.0.1/'],
      ['loopback as a number', 'https://2130706433/'],
      ['loopback in IPv6', 'https://[::1]/'],
      ['loopback, IPv4-mapped', 'https://[::ffff:7f00:1]/'],
      ['the metadata service', 'https://169.254.169.254/latest/meta-data/'],
      ['a private address', 'https://192.168.1.1/'],
      ['localhost', 'https://localhost:8080/'],
    ])('rejects a URL with %s', async (_, url) => {
      const answer = await ask('POST', '', { ...BODY, url });
      expect(answer).toMatchObject({
        status: 400,
        body: { code: 'validation_failed', errors: [{ field: 'url' }] },
      });
    });

    test('rejects a URL with credentials, and does not repeat them', async () => {
      for (const url of [
        'https://user:canary@receiver.example.com/',
        'https://canary@receiver.example.com/',
      ]) {
        const answer = await ask('POST', '', { ...BODY, url });
        expect(answer).toMatchObject({
          status: 400,
          body: { code: 'credentials_in_uri', errors: [{ field: 'url' }] },
        });
        expect(JSON.stringify(answer.body)).not.toContain('canary');
      }
      expect(api.logged.join('')).not.toContain('canary');
    });

    test("is rejected beyond the account's limit", async () => {
      const { key: many } = await api.createKey(['webhooks:write'], { account: 'acc_many' });
      const post = () => api.ask('POST', '/v1/webhooks', { key: many, json: BODY });
      for (const { status } of await Promise.all(Array.from({ length: MAX_WEBHOOKS }, post)))
        expect(status).toBe(201);
      expect(await post()).toMatchObject({ status: 409, body: { code: 'limit_reached' } });
      const { body } = await api.ask('GET', '/v1/webhooks', { key: many });
      await api.ask('DELETE', `/v1/webhooks/${body.data[0].id}`, { key: many });
      expect((await post()).status).toBe(201);
    });
  });

  describe('a webhook with an Idempotency-Key', () => {
    const newKey = () => ({ 'idempotency-key': newId('req') });

    test('is registered once, and the replay leaves the secret out', async () => {
      const headers = newKey();
      const first = await ask('POST', '', BODY, headers);
      const again = await ask('POST', '', BODY, headers);
      expect(first.body.secret).toMatch(GENERATED);
      const { secret: _, ...shown } = first.body;
      expect(again).toMatchObject({ status: 201, body: shown });
      expect(again.body).not.toHaveProperty('secret');
      expect(again.headers.get('idempotent-replayed')).toBe('true');
      expect(again.headers.get('location')).toBe(first.headers.get('location'));
    });

    test('rejects another secret under the same key', async () => {
      const headers = newKey();
      await ask('POST', '', { ...BODY, secret: 'the first one' }, headers);
      expect(await ask('POST', '', { ...BODY, secret: 'the other one' }, headers)).toMatchObject({
        status: 422,
      });
    });

    /** Starts a server whose process dies right after its first append. */
    const startDyingServer = () => {
      const { installation } = api;
      const store: EventStore = {
        ...installation.store,
        async append(...append) {
          await installation.store.append(...append);
          throw new EventStoreUnavailable('gone');
        },
      };
      return api.startServer({ store, commands: { ...installation.commands, store } });
    };

    test('returns a secret that was never shown before the process died', async () => {
      const headers = newKey();
      expect((await ask('POST', '', BODY, headers, await startDyingServer())).status).toBe(503);
      const { status, body } = await ask('POST', '', BODY, headers);
      expect(status).toBe(201);
      expect(body.secret).toBe(await secretOf(body.id));
      expect(await recordsOf(body.id)).toHaveLength(1);
    });

    test('rotates once, also when the process dies', async () => {
      const { id } = await register();
      const headers = newKey();
      expect(
        (await ask('POST', `/${id}/rotate-secret`, {}, headers, await startDyingServer())).status,
      ).toBe(503);
      const rotated = await ask('POST', `/${id}/rotate-secret`, {}, headers);
      expect(rotated).toMatchObject({ status: 200, body: { secret: await secretOf(id) } });
      const again = await ask('POST', `/${id}/rotate-secret`, {}, headers);
      expect(again.status).toBe(200);
      expect(again.body).not.toHaveProperty('secret');
      expect(await recordsOf(id)).toHaveLength(2);
    });
  });

  describe('GET, PATCH and DELETE', () => {
    test('list the webhooks of the account, newest first', async () => {
      const { key: own } = await api.createKey(['webhooks:write'], { account: 'acc_listing' });
      const post = () => api.ask('POST', '/v1/webhooks', { key: own, json: BODY });
      const ids = [(await post()).body.id, (await post()).body.id];
      const { status, body } = await api.ask('GET', '/v1/webhooks', { key: own });
      expect(status).toBe(200);
      expect(schemas.webhookList.parse(body).data.map(({ id }) => id)).toEqual(ids.toReversed());
      expect(JSON.stringify(body)).not.toContain('secret"');
    });

    test('change the given fields, and keep the others', async () => {
      const { id, created_at } = await register();
      const changed = await ask('PATCH', `/${id}`, { enabled: false });
      expect(changed).toMatchObject({
        status: 200,
        body: { id, ...BODY, enabled: false, created_at },
      });
      expect((await ask('GET', `/${id}`)).body).toEqual(changed.body);
      const url = 'https://other.example.com/';
      expect(
        (await ask('PATCH', `/${id}`, { url, events: ['key.expiring_soon'] })).body,
      ).toMatchObject({
        url,
        events: ['key.expiring_soon'],
        enabled: false,
      });
    });

    test.each<[unknown, string]>([
      [{}, ' validation_failed'],
      [{ url: 'https://10.0.0.1/' }, 'url validation_failed'],
      [{ url: 'https://user:pw@receiver.example.com/' }, 'url credentials_in_uri'],
      [{ url: null }, 'url validation_failed'],
      [{ events: [] }, 'events validation_failed'],
      [{ enabled: 'yes' }, 'enabled validation_failed'],
      [{ secret: 'another secret' }, 'secret unknown_field'],
      [{ id: 'whk_x' }, 'id unknown_field'],
    ])('reject a change to %j', async (json, field) => {
      const { id } = await register();
      const answer = await ask('PATCH', `/${id}`, json);
      expect(answer.status).toBe(400);
      expect(fieldsOf(answer)).toEqual([field]);
    });

    test('remove a webhook', async () => {
      const { id } = await register();
      expect(await ask('DELETE', `/${id}`)).toMatchObject({ status: 204, body: '' });
      for (const [method, path, json] of [
        ['GET', ''],
        ['DELETE', ''],
        ['PATCH', '', { enabled: true }],
        ['POST', '/rotate-secret', {}],
        ['POST', '/ping'],
        ['GET', '/deliveries'],
      ] as const) {
        expect(await ask(method, `/${id}${path}`, json)).toMatchObject({
          status: 404,
          body: { code: 'not_found' },
        });
      }
      expect(
        (await ask('GET', '')).body.data.map((webhook: { id: string }) => webhook.id),
      ).not.toContain(id);
    });
  });

  describe('POST /v1/webhooks/{id}/rotate-secret', () => {
    test('shows the new secret once, and the end of the old one', async () => {
      const { id, secret } = await register();
      const { status, body } = await ask('POST', `/${id}/rotate-secret`, {});
      expect(status).toBe(200);
      expect(schemas.webhookWithSecret.parse(body).secret).toMatch(GENERATED);
      expect(body.secret).not.toBe(secret);
      expect(body.secret).toBe(await secretOf(id));
      const day = Date.parse(body.previous_secret_valid_until) - Date.parse(body.updated_at);
      expect(day).toBe(24 * 3_600_000);
      const { secret: _, ...shown } = body;
      expect((await ask('GET', `/${id}`)).body).toEqual(shown);
    });

    test('ends a leaked secret at once', async () => {
      const { id } = await register();
      await ask('POST', `/${id}/rotate-secret`, {});
      expect(
        (await ask('POST', `/${id}/rotate-secret`, { grace: '0s' })).body
          .previous_secret_valid_until,
      ).toBeNull();
    });

    test('accepts a secret, and does not repeat it', async () => {
      const { id } = await register();
      const { body } = await ask('POST', `/${id}/rotate-secret`, {
        secret: 'another of my own',
        grace: '7d',
      });
      expect(body).not.toHaveProperty('secret');
      expect(await secretOf(id)).toBe('another of my own');
    });

    test('needs no body', async () => {
      const { id } = await register();
      const { status, body } = await ask('POST', `/${id}/rotate-secret`);
      expect(status).toBe(200);
      expect(body.secret).toMatch(GENERATED);
    });

    test.each([
      [{ grace: '8d' }, 'grace validation_failed'],
      [{ grace: '168h1m' }, 'grace validation_failed'],
      [{ grace: '999999999d' }, 'grace validation_failed'],
      [{ grace: '-1s' }, 'grace validation_failed'],
      [{ grace: 3600 }, 'grace validation_failed'],
      [{ secret: 'short' }, 'secret validation_failed'],
      [{ until: '24h' }, 'until unknown_field'],
    ])('rejects %j', async (json, field) => {
      const { id } = await register();
      const answer = await ask('POST', `/${id}/rotate-secret`, json);
      expect(answer.status).toBe(400);
      expect(fieldsOf(answer)).toEqual([field]);
      expect(await recordsOf(id)).toHaveLength(1);
    });
  });

  describe('permissions', () => {
    const reading: [string, string][] = [
      ['GET', ''],
      ['GET', '/:id'],
      ['GET', '/:id/deliveries'],
    ];
    const writing: [string, string, unknown?][] = [
      ['POST', '', BODY],
      ['PATCH', '/:id', { enabled: true }],
      ['DELETE', '/:id'],
      ['POST', '/:id/rotate-secret', {}],
      ['POST', '/:id/ping'],
      ['POST', '/:id/retry-failed'],
      ['POST', '/:id/replay', { from: '2026-01-01T00:00:00Z' }],
      ['POST', '/:id/deliveries/dlv_01JZ8Q6W3N5V4T2R1P0M9K8J7H/redeliver'],
    ];
    const as = (
      whose: string | null,
      [method, path, json]: [string, string, unknown?],
      id: string,
    ) =>
      api.ask(method, `/v1/webhooks${path.replace(':id', id)}`, {
        key: whose,
        ...(json === undefined ? {} : { json }),
      });

    test('webhooks:read can read, and change nothing', async () => {
      const { id } = await register();
      for (const operation of reading) expect((await as(readKey, operation, id)).status).toBe(200);
      for (const operation of writing) {
        expect(await as(readKey, operation, id)).toMatchObject({
          status: 403,
          body: { required_scope: 'webhooks:write' },
        });
      }
      const { key: transfersKey } = await api.createKey(['transfers:write']);
      for (const operation of [...reading, ...writing]) {
        expect((await as(transfersKey, operation, id)).status).toBe(403);
        expect((await as(null, operation, id)).status).toBe(401);
      }
    });

    test('an account sees nothing of another account', async () => {
      const { id } = await register();
      for (const operation of [...reading, ...writing].filter(([, path]) => path !== '')) {
        expect(await as(otherKey, operation, id)).toMatchObject({
          status: 404,
          body: { code: 'not_found' },
        });
      }
      expect((await as(otherKey, ['GET', ''], id)).body.data).toEqual([]);
      expect((await ask('GET', `/${id}`)).body).toMatchObject({
        enabled: true,
        previous_secret_valid_until: null,
      });
    });

    test('an unknown or malformed id finds nothing', async () => {
      for (const path of [
        UNKNOWN,
        '/v1/webhooks/x',
        '/v1/webhooks/%00',
        '/v1/webhooks/whk_',
        `${UNKNOWN}0`,
      ]) {
        expect(await api.ask('GET', path, { key })).toMatchObject({
          status: 404,
          body: { code: 'not_found' },
        });
      }
    });
  });

  test('neither log, nor tables, nor lines of the log hold a secret', async () => {
    const chosen = 'canary-of-the-webhooks';
    const { id, secret } = await register();
    const { id: own } = await register({ secret: chosen });
    const headers = { 'idempotency-key': newId('req') };
    const { body } = await ask('POST', `/${id}/rotate-secret`, {}, headers);
    await ask('POST', `/${own}/rotate-secret`, { secret: `${chosen}-2` }, headers);
    await ask('POST', '', { ...BODY, secret: `${chosen}\n` });
    await ask('POST', '', { ...BODY, secret: `${chosen}-3`, extra: 1 });

    const { sql } = api.installation;
    const tables = await sql<{ name: string }[]>`
      select table_schema || '.' || table_name as name from information_schema.tables
       where table_schema in ('log', 'read', 'work') and table_type = 'BASE TABLE'`;
    const rows = await Promise.all(
      tables.map(({ name }) => sql<{ row: string }[]>`select t::text as row from ${sql(name)} t`),
    );
    const places = [...rows.flat().map(({ row }) => row), ...api.logged].join('\n');
    expect(places).toContain(id);
    for (const hidden of [secret, body.secret, chosen] as string[]) {
      const encoded = Buffer.from(hidden).toString('base64').slice(0, 12);
      for (const looks of [hidden, encoded, Buffer.from(hidden).toString('hex')])
        expect(places).not.toContain(looks);
    }
  });
});
