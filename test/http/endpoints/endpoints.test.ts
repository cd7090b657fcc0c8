import { createHash, generateKeyPairSync } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import canonicalize from 'canonicalize';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { newHostKey } from '../../../src/dev/sftp-server.ts';
import { noteObservation } from '../../../src/processes/endpoints/connectivity.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type TestEndpoint,
} from '../../support/file-servers/endpoints.ts';
import { newEncryptedKey } from '../../support/file-servers/sftp/keys.ts';
import { type Answer, type Ask, startApi, type TestApi } from '../../support/http/api.ts';
import { freePort } from '../../support/network/free-port.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';

const CANARY = 'canary-5f1d0c';
const SFTP = { protocol: 'sftp', host: 'files.example.com', username: 'me', password: CANARY };

interface Line {
  type: 'step' | 'result';
  [field: string]: unknown;
}

describeWithPostgres('/v1/endpoints', () => {
  let api: TestApi;
  let admin: string;
  beforeAll(async () => {
    api = await startApi();
    admin = (await api.createKey(['admin'])).key;
  });
  afterAll(() => api?.close());

  const ask = async (method: string, path: string, options: Ask = {}): Promise<Answer> => {
    const answer = await api.ask(method, `/v1/endpoints${path}`, { key: admin, ...options });
    expect(JSON.stringify(answer.body ?? '')).not.toContain(CANARY);
    return answer;
  };
  const create = async (changes: Record<string, unknown>) => {
    const answer = await ask('POST', '', { json: { ...SFTP, ...changes } });
    expect(answer).toMatchObject({ status: 201 });
    return answer.body as Record<string, unknown> & { id: string };
  };
  const lines = ({ body }: Answer): Line[] =>
    String(body)
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));

  test('are created, shown, changed and removed', async () => {
    const created = await create({
      name: 'life',
      base_path: '/in',
      max_connections: 3,
      accounts: ['acc_a'],
    });
    expect(created).toEqual({
      id: expect.stringMatching(/^end_/),
      name: 'life',
      protocol: 'sftp',
      host: 'files.example.com',
      port: 22,
      base_path: '/in',
      username: 'me',
      host_key_sha256: null,
      host_keys: [],
      announced_host_keys: [],
      via: null,
      max_connections: 3,
      accounts: ['acc_a'],
      overwrite: true,
      bandwidth: null,
      bandwidth_now: null,
      has_credentials: 'password',
      paused: false,
      unreachable_since: null,
      health: null,
      revision: 0,
      configured_at: expect.stringMatching(/Z$/),
    });
    expect(await ask('GET', `/${created.id}`)).toMatchObject({ status: 200, body: created });

    const json = {
      name: 'life',
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'you',
      overwrite: false,
    };
    const changed = await ask('PUT', `/${created.id}`, { json });
    expect(changed).toMatchObject({
      status: 200,
      body: {
        username: 'you',
        base_path: '/',
        accounts: null,
        overwrite: false,
        revision: 1,
        has_credentials: 'password',
      },
    });
    expect((await ask('GET', '')).body.data).toContainEqual(changed.body);
    for (const [query, found] of [
      ['LIFE', true],
      ['life example.com', true],
      [created.id, true],
      ['life elsewhere', false],
    ] as const) {
      const { body } = await ask('GET', `?q=${encodeURIComponent(query)}`);
      expect(body.data, query).toEqual(found ? [changed.body] : []);
    }
    expect(await ask('GET', '?q=')).toMatchObject({ status: 400 });

    expect(await ask('DELETE', `/${created.id}`)).toMatchObject({ status: 204, body: '' });
    for (const method of ['GET', 'DELETE'])
      expect(await ask(method, `/${created.id}`)).toMatchObject({ status: 404 });
    expect(await ask('PUT', `/${created.id}`, { json })).toMatchObject({ status: 404 });
  });

  test('are shown whole at the revision that If-None-Match names: health has none', async () => {
    const { id } = await create({ name: 'watched' });
    await noteObservation(api.installation.sql, {
      endpointId: id,
      connected: false,
      error: { code: 'timeout', message: 'The server does not answer' },
      probe: null,
    });
    const headers = { 'If-None-Match': '"0"' };
    const { status, headers: answered, body } = await ask('GET', `/${id}`, { headers });
    expect([status, answered.get('etag')]).toEqual([200, '"0"']);
    expect(body.health.failures_in_row).toBe(1);
  });

  test('are changed only at the revision that If-Match names', async () => {
    const { id } = await create({ name: 'agreed' });
    const { headers } = await ask('GET', `/${id}`);
    expect(headers.get('etag')).toBe('"0"');
    const send = (method: string, ifMatch: string, host = 'files.example.com', changes = {}) =>
      ask(method, `/${id}`, {
        headers: { 'If-Match': ifMatch },
        ...(method === 'PUT' && { json: { ...SFTP, name: 'agreed', host, ...changes } }),
      });
    const first = await send('PUT', '"0"', 'one.example.com');
    expect(first).toMatchObject({ status: 200, body: { host: 'one.example.com' } });
    const etag = first.headers.get('etag') as string;
    expect(etag).toBe(`"${first.body.revision}"`);
    // Its answer was lost: the second request changes nothing.
    const second = await send('PUT', '"0"', 'one.example.com', { password: undefined });
    expect([second.status, second.headers.get('etag')]).toEqual([200, etag]);
    for (const method of ['PUT', 'DELETE'])
      for (const stale of ['"0"', `W/${etag}`, '"other"', '"0", "100"'])
        expect(await send(method, stale, 'two.example.com'), stale).toMatchObject({
          status: 412,
          body: { code: 'precondition_failed', detail: expect.stringContaining('revision') },
        });
    for (const wrong of ['7', '', '"7', '"7" "8"', '*, "7"'])
      expect(await send('PUT', wrong), wrong).toMatchObject({
        status: 400,
        body: { code: 'invalid_parameter', errors: [{ field: 'If-Match' }] },
      });
    expect((await ask('GET', `/${id}`)).body.host).toBe('one.example.com');
    expect(await send('PUT', `"0", ${etag}`)).toMatchObject({ status: 200 });
    expect(await send('PUT', '*')).toMatchObject({ status: 200 });
    expect(await send('DELETE', '*')).toMatchObject({ status: 204 });
    expect(await send('PUT', '*')).toMatchObject({ status: 404 });
  });

  test('are not changed if If-None-Match names what exists', async () => {
    const { id } = await create({ name: 'existing' });
    const send = (method: string, ifNoneMatch: string) =>
      ask(method, `/${id}`, {
        headers: { 'If-None-Match': ifNoneMatch },
        ...(method === 'PUT' && { json: { ...SFTP, name: 'existing', host: 'two.example.com' } }),
      });
    for (const method of ['PUT', 'DELETE']) {
      for (const existing of ['*', '"0"', 'W/"0"', '"5", "0"'])
        expect(await send(method, existing), existing).toMatchObject({
          status: 412,
          body: { code: 'precondition_failed', detail: expect.stringContaining('If-None-Match') },
        });
      expect(await send(method, '0')).toMatchObject({
        status: 400,
        body: { code: 'invalid_parameter', errors: [{ field: 'If-None-Match' }] },
      });
    }
    expect((await ask('GET', `/${id}`)).body.host).toBe(SFTP.host);
    expect(await send('PUT', '"00", "10"')).toMatchObject({ status: 200 });
    expect(await send('DELETE', '"0"')).toMatchObject({ status: 204 });
    expect(await send('PUT', '*')).toMatchObject({ status: 404 });
  });

  test.each([
    [
      'ftps',
      { host: 'h', username: 'u', password: CANARY },
      { port: 21, tls: 'explicit', ca_pem: null },
      'password',
    ],
    [
      's3',
      { bucket: 'b', access_key_id: CANARY, secret_access_key: CANARY },
      { region: 'us-east-1', sse: null },
      'access_key',
    ],
    [
      'azure',
      { account: 'a', container: 'c', sas_token: CANARY },
      { prefix: '', endpoint_url: null },
      'sas_token',
    ],
  ])(
    'show every field of %s except its secrets',
    async (protocol, fields, shown, has_credentials) => {
      const body = await create({
        name: `all-${protocol}`,
        ...{ host: undefined, username: undefined, password: undefined },
        protocol,
        ...fields,
      });
      expect(body).toMatchObject({ protocol, ...shown, has_credentials });
    },
  );

  test('have a limit of their bandwidth, with windows', async () => {
    const night = { from: '22:00', to: '24:00', bytes_per_second: null, days: ['fri', 'fri'] };
    const always = { from: '00:00', to: '24:00', bytes_per_second: 2_048 };
    const json = { ...SFTP, name: 'limited' };
    const accounts = ['acc_a', 'acc_b', 'acc_a'];
    const created = await create({ ...json, accounts, bandwidth: { windows: [night] } });
    const days = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
    expect(created).toMatchObject({
      // Each once.
      accounts: ['acc_a', 'acc_b'],
      bandwidth: {
        bytes_per_second: null,
        windows: [
          { days: ['fri'], from: '22:00', to: '24:00', time_zone: 'UTC', bytes_per_second: null },
        ],
      },
      bandwidth_now: null,
    });
    const bandwidth = {
      bytes_per_second: 1_024,
      windows: [{ ...always, time_zone: 'Asia/Tokyo' }],
    };
    const limited = await ask('PUT', `/${created.id}`, { json: { ...json, bandwidth } });
    expect(limited).toMatchObject({
      status: 200,
      body: { bandwidth: { windows: [{ ...always, days }] }, bandwidth_now: 2_048 },
    });
    expect(await ask('PUT', `/${created.id}`, { json })).toMatchObject({
      status: 200,
      body: { bandwidth: null, bandwidth_now: null },
    });
  });

  test.each([
    [{ bytes_per_second: 0 }, 'bandwidth.bytes_per_second', /at least 1024; pause the endpoint/],
    [{ bytes_per_second: -1 }, 'bandwidth.bytes_per_second', /at least 1024/],
    [{ bytes_per_second: 2_000.5 }, 'bandwidth.bytes_per_second', /whole number|integer/],
    [{ kbps: 5 }, 'bandwidth.kbps', /./],
    [{ windows: [{ time_zone: 'Europe/Nowhere' }] }, 'bandwidth.windows[0].time_zone', /time zone/],
    [{ windows: [{}, { from: '8:00' }] }, 'bandwidth.windows[1].from', /such as 08:00/],
    [{ windows: [{ from: '24:00' }] }, 'bandwidth.windows[0].from', /such as 08:00/],
    [{ windows: [{ to: '25:00' }] }, 'bandwidth.windows[0].to', /such as 18:00/],
    [{ windows: [{ to: '08:00' }] }, 'bandwidth.windows[0].to', /must differ from/],
    [{ windows: [{ days: ['Monday'] }] }, 'bandwidth.windows[0].days[0]', /./],
    [{ windows: [{ days: [] }] }, 'bandwidth.windows[0].days', /./],
    [{ windows: [{ bytes_per_second: 1 }] }, 'bandwidth.windows[0].bytes_per_second', /at least/],
    [{ windows: Array(21).fill({}) }, 'bandwidth.windows', /20/],
  ])(
    'reject the limit %j',
    async ({ windows, ...changes }: Record<string, unknown>, field, message) => {
      const sound = { from: '08:00', to: '18:00', bytes_per_second: 5_000 };
      const bandwidth = {
        ...changes,
        ...(windows !== undefined && {
          windows: (windows as object[]).map((window) => ({ ...sound, ...window })),
        }),
      };
      const answer = await ask('POST', '', { json: { ...SFTP, name: 'unsound', bandwidth } });
      expect(answer.status).toBe(400);
      expect(answer.body.errors).toEqual([
        expect.objectContaining({ field, message: expect.stringMatching(message) }),
      ]);
    },
  );

  test('are created once per Idempotency-Key, and once per name', async () => {
    const request = { json: { ...SFTP, name: 'once' }, headers: { 'idempotency-key': 'once' } };
    const first = await ask('POST', '', request);
    const again = await ask('POST', '', request);
    expect(again).toMatchObject({ status: 201, body: first.body });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.headers.get('location')).toBe(`/v1/endpoints/${first.body.id}`);
    const other = { ...request, json: { ...request.json, password: 'another' } };
    expect(await ask('POST', '', other)).toMatchObject({
      status: 422,
      body: { code: 'idempotency_key_reused' },
    });
    expect(await ask('POST', '', { json: request.json })).toMatchObject({
      status: 400,
      body: {
        code: 'validation_failed',
        errors: [
          { field: 'name', message: expect.stringContaining(`PUT /v1/endpoints/${first.body.id}`) },
        ],
      },
    });
  });

  test('are created after an earlier request claimed the name and died', async () => {
    const { installation } = api;
    const store: EventStore = {
      ...installation.store,
      async append(stream, ...rest) {
        if (stream.startsWith('endpoint-')) throw new EventStoreUnavailable('gone');
        return installation.store.append(stream, ...rest);
      },
    };
    const commands = { ...installation.commands, store };
    const dying = await api.startServer({ store, commands });
    const json = { ...SFTP, name: 'claimed' };
    const died = await dying.ask('POST', '/v1/endpoints', { key: admin, json });
    expect(died.status).toBe(503);

    const request = { json, headers: { 'idempotency-key': 'claimed' } };
    const created = await ask('POST', '', request);
    expect(created.status).toBe(201);
    const location = created.headers.get('location');
    expect(location).toBe(`/v1/endpoints/${created.body.id}`);
    expect(await ask('GET', `/${created.body.id}`)).toMatchObject({ status: 200 });
    const again = await ask('POST', '', request);
    expect(again).toMatchObject({ status: 201, body: created.body });
    expect(again.headers.get('location')).toBe(location);
  });

  test('keep no fast hash of a password', async () => {
    const json = { ...SFTP, name: 'guessed' };
    await ask('POST', '', { json, headers: { 'idempotency-key': 'guessed' } });
    const [row] = await api.installation
      .sql`select fingerprint from work.idempotency_keys where key = 'guessed'`;
    expect(row!.fingerprint).toMatch(/^[0-9a-f]{64}$/);
    expect(row!.fingerprint).not.toBe(
      createHash('sha256')
        .update(canonicalize(json) as string)
        .digest('hex'),
    );
  });

  test('keep their name', async () => {
    const { id } = await create({ name: 'named' });
    const answer = await ask('PUT', `/${id}`, { json: { ...SFTP, name: 'renamed' } });
    expect(answer).toMatchObject({ status: 400, body: { errors: [{ field: 'name' }] } });
  });

  test.each([
    ['another host', { host: 'other.example.com' }],
    ['another port', { port: 2222 }],
    ['another protocol', { protocol: 'ftps' }],
  ])('require the credentials again before these go to %s', async (what, changes) => {
    const name = what.replaceAll(' ', '-');
    const { id } = await create({ name });
    const json = { ...SFTP, name, password: undefined, ...changes };
    expect(await ask('PUT', `/${id}`, { json })).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'password' }] },
    });
    expect(await ask('POST', `/${id}/test`, { json })).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'password' }] },
    });
    expect(await ask('PUT', `/${id}`, { json: { ...json, password: 'new' } })).toMatchObject({
      status: 200,
    });
  });

  test('show when they were last seen, and what to do', async () => {
    const { id } = await create({ name: 'seen' });
    const error = { code: 'connection_failed' as const, message: 'connect ECONNREFUSED' };
    const observation = {
      endpointId: id,
      connected: false,
      error,
      probe: { latencyMs: 7, fingerprint: null },
    };
    await noteObservation(api.installation.sql, observation);
    const health = {
      failures_in_row: 1,
      latency_ms: 7,
      error: { ...error, advice: expect.stringContaining('firewall') },
    };
    expect((await ask('GET', `/${id}`)).body).toMatchObject({ health });
    expect((await ask('GET', '')).body.data).toContainEqual(
      expect.objectContaining({ id, health: expect.objectContaining(health) }),
    );
    const since = async () => (await ask('GET', `/${id}`)).body.health.error_since;
    const first = await since();
    expect(first).toEqual(expect.stringMatching(/Z$/));
    const other = { ...observation, error: { ...error, code: 'timeout' as const } };
    await noteObservation(api.installation.sql, other);
    expect(await since()).toBe(first);
    await noteObservation(api.installation.sql, { ...observation, connected: true, error: null });
    expect(await since()).toBeNull();
    await noteObservation(api.installation.sql, observation);
    expect(Date.parse(await since())).toBeGreaterThan(Date.parse(first));
  });

  test('are paused and resumed, and a repetition changes nothing', async () => {
    const { id } = await create({ name: 'switched' });
    for (const paused of [true, true, false, false]) {
      expect(await ask('POST', `/${id}/${paused ? 'pause' : 'resume'}`)).toMatchObject({
        status: 200,
        body: { paused },
      });
    }
    expect((await ask('GET', `/${id}`)).body.revision).toBe(2);
  });

  test('are not removed while open transfers use them, and the answer names these', async () => {
    const { id } = await create({ name: 'busy' });
    const json = { source_uri: 'sftp://elsewhere/a', destination_uri: 'sftp://busy/a' };
    const { body: transfer } = await api.ask('POST', '/v1/transfers', { json });
    expect(await ask('DELETE', `/${id}`)).toMatchObject({
      status: 409,
      body: {
        code: 'endpoint_in_use',
        transfer_ids: [transfer.id],
        detail: expect.stringContaining(transfer.id),
      },
    });
    const stale = { headers: { 'If-Match': '"7"' } };
    expect(await ask('DELETE', `/${id}`, stale)).toMatchObject({
      status: 412,
      body: { code: 'precondition_failed' },
    });
    await api.ask('DELETE', `/v1/transfers/${transfer.id}`);
    expect(await ask('DELETE', `/${id}`)).toMatchObject({ status: 204 });
  });

  test('are not removed before the movers have read which transfers use them', async () => {
    const { id } = await create({ name: 'fresh' });
    // As a mover in another process does that is behind.
    const mover = await api.installation.locks.tryAcquire(lockOf('dispatch'));
    const json = { source_uri: 'sftp://elsewhere/a', destination_uri: 'sftp://fresh/a' };
    const { body: transfer } = await api.ask('POST', '/v1/transfers', { json });
    const removal = ask('DELETE', `/${id}`);
    expect(await Promise.race([removal, pause(500, 'waits')])).toBe('waits');
    await mover?.release();
    expect(await removal).toMatchObject({
      status: 409,
      body: { code: 'endpoint_in_use', transfer_ids: [transfer.id] },
    });
  });

  test('are not removed while active flows use them, and the answer names these', async () => {
    const { id: source } = await create({ name: 'inbound' });
    const { id: destination } = await create({ name: 'outbound' });
    const json = {
      name: 'nightly',
      source: { uri: 'sftp://inbound/out/' },
      trigger: { every: '31d' },
      destination_uri: 'sftp://outbound/{date:yyyy}/',
    };
    const { body: flow } = await api.ask('POST', '/v1/flows', { key: admin, json });
    for (const id of [source, destination])
      expect(await ask('DELETE', `/${id}`)).toMatchObject({
        status: 409,
        body: {
          code: 'endpoint_in_use',
          detail: `Active flows use this endpoint: nightly (${flow.id}). Pause or remove them, then remove it`,
        },
      });
    await api.ask('POST', `/v1/flows/${flow.id}/pause`, { key: admin });
    for (const id of [source, destination])
      expect(await ask('DELETE', `/${id}`)).toMatchObject({ status: 204 });
  });

  test.each([
    ['no credentials', { password: undefined }, 'password'],
    ['a text that is no key beside a password', { private_key: 'k' }, 'private_key'],
    ['an invalid name', { name: 'Not this' }, 'name'],
    ['a field of another protocol', { bucket: 'b' }, 'bucket'],
    ['a path that leaves its base', { base_path: '/a/../b' }, 'base_path'],
    ['no protocol', { protocol: undefined }, 'protocol'],
  ])('are rejected with %s', async (_, changes, field) => {
    const json = { ...SFTP, name: 'refused', ...changes };
    const errors = expect.arrayContaining([expect.objectContaining({ field })]);
    expect(await ask('POST', '', { json })).toMatchObject({ status: 400, body: { errors } });
    expect(await ask('POST', '/test', { json })).toMatchObject({ status: 400, body: { errors } });
  });

  describe('a private key', () => {
    const CANNOT_BE_READ =
      /^must be a private key in the format of OpenSSH, PEM .* cannot be read$/;
    const key = newHostKey();
    const { public: publicKey, private: encrypted } = newEncryptedKey(CANARY);
    let saves = 0;
    const pkcs8 = generateKeyPairSync('ed25519').privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    });

    test.each([
      ['is another text', { private_key: CANARY }, 'private_key', CANNOT_BE_READ],
      ['is cut off', { private_key: key.slice(0, 200) }, 'private_key', CANNOT_BE_READ],
      ['is in PKCS #8', { private_key: pkcs8 }, 'private_key', CANNOT_BE_READ],
      ['is a public key', { private_key: publicKey }, 'private_key', /^must be the private key/],
      ['is encrypted', { private_key: encrypted }, 'passphrase', /^is required/],
    ])('is rejected if it %s', async (_what, secrets, field, message) => {
      const answer = {
        status: 400,
        body: {
          code: 'validation_failed',
          errors: [{ field, message: expect.stringMatching(message) }],
        },
      };
      const saved = await create({ name: `unread-${saves++}` });
      const json = { ...SFTP, name: saved.name, password: undefined, ...secrets };
      expect(await ask('POST', '', { json: { ...json, name: 'unread' } })).toMatchObject(answer);
      expect(await ask('POST', '/test', { json })).toMatchObject(answer);
      expect(await ask('PUT', `/${saved.id}`, { json })).toMatchObject(answer);
      expect(await ask('POST', `/${saved.id}/test`, { json })).toMatchObject(answer);
      const via = { type: 'ssh', host: 'jump.example.com', username: 'me', ...secrets };
      expect(await ask('POST', '', { json: { ...SFTP, name: 'unread', via } })).toMatchObject({
        status: 400,
        body: { errors: [{ field: `via.${field}` }] },
      });
    });

    test.each([
      ['is not encrypted', { private_key: key }],
      ['has a passphrase', { private_key: encrypted, passphrase: CANARY }],
      ['stands beside a password', { private_key: key, password: CANARY }],
    ])('is accepted if it %s', async (what, secrets) => {
      const name = `key-${what.replaceAll(' ', '-')}`;
      const { has_credentials } = await create({ name, password: undefined, ...secrets });
      expect(has_credentials).toBe(
        'password' in secrets ? 'private_key_and_password' : 'private_key',
      );
    });
  });

  test.each([
    ['GET', '', 'observe'],
    ['POST', '', 'admin'],
    ['POST', '/test', 'admin'],
    ['GET', '/ID', 'observe'],
    ['PUT', '/ID', 'admin'],
    ['DELETE', '/ID', 'admin'],
    ['POST', '/ID/test', 'operate'],
    ['POST', '/ID/accept-host-key', 'admin'],
    ['POST', '/ID/pause', 'operate'],
    ['POST', '/ID/resume', 'operate'],
    ['GET', '/ID/files', 'operate'],
  ])('%s %s needs the scope %s and an existing endpoint', async (method, path, required_scope) => {
    const json =
      method === 'GET' || method === 'DELETE'
        ? undefined
        : path.endsWith('key')
          ? { host_key_sha256: `SHA256:${'a'.repeat(43)}` }
          : { ...SFTP, name: 'nobody' };
    const request = json && !/pause|resume/.test(path) ? { json } : {};
    expect(await ask(method, path, { ...request, key: api.key })).toMatchObject({
      status: 403,
      body: { required_scope },
    });
    expect(await ask(method, path, { ...request, key: null })).toMatchObject({ status: 401 });
    if (!path.includes('ID')) return;
    for (const id of ['nonsense', '%00', 'end_01JZ8Q6W3N5V4T2R1P0M9K8J7H']) {
      expect(await ask(method, path.replace('ID', id), request)).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
    }
  });

  test('reject other methods', async () => {
    const { status, headers } = await ask('PATCH', '');
    expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS, POST']);
  });

  test("put no secret into the process's log or the read models", async () => {
    await create({ name: 'secretive' });
    const rows = await api.installation.sql`
        select state::text from read.endpoints
        union all
        select answer::text from work.idempotency_keys`;
    expect(JSON.stringify([...rows]) + api.logged.join('')).not.toContain(CANARY);
  });

  test('report the error of a server that is not there', async () => {
    const { id } = await create({ name: 'gone', host: '127.0.0.1', port: await freePort() });
    const tested = lines(await ask('POST', `/${id}/test`));
    expect(tested).toMatchObject([
      { type: 'step', step: 'resolve', ok: true },
      {
        type: 'step',
        step: 'connect',
        ok: false,
        code: 'connection_failed',
        message: expect.any(String),
        advice: expect.any(String),
      },
      { type: 'result', ok: false, fingerprint: null, write_bps: null },
    ]);
    expect((await ask('GET', `/${id}`)).body.health).toMatchObject({
      failures_in_row: 1,
      last_success_at: null,
      last_probe_at: expect.any(String),
      error: {
        code: 'connection_failed',
        message: expect.stringContaining('connection refused: nothing listens'),
      },
    });
    const draft = { json: { ...SFTP, name: 'gone', host: '127.0.0.1', port: await freePort() } };
    expect(lines(await ask('POST', `/${id}/test`, draft)).at(-1)).toMatchObject({ ok: false });
    expect((await ask('GET', `/${id}`)).body.health).toMatchObject({ failures_in_row: 1 });
    expect(await ask('GET', `/${id}/files`)).toMatchObject({
      status: 502,
      body: {
        code: 'endpoint_failed',
        endpoint_error: { code: 'connection_failed', advice: expect.any(String) },
      },
    });
    const json = { host_key_sha256: `SHA256:${'a'.repeat(43)}` };
    expect(await ask('POST', `/${id}/accept-host-key`, { json })).toMatchObject({
      status: 502,
      body: { code: 'endpoint_failed' },
    });
  });

  test.each(['relative', '/..', '/a/../b', '/a//b', '/a\\b', '/a%00', '/%E2%80%AEb'])(
    'list no folder %s',
    async (path) => {
      const { body } = await ask('GET', '');
      const { id } = body.data.find(({ name }: { name: string }) => name === 'archive');
      expect(await ask('GET', `/${id}/files?path=${path.replaceAll('\\', '%5C')}`)).toMatchObject({
        status: 400,
        body: { code: 'invalid_parameter', errors: [{ field: 'path' }] },
      });
    },
  );

  describe.each(ENDPOINT_NAMES.filter((name) => name !== 's3-ceph'))(
    'on a real %s server',
    (kind) => {
      const { whyNot, protocol, start } = ENDPOINT_KINDS[kind];
      const rename = protocol === 's3' || protocol === 'azure' ? [] : ['rename'];
      let server: TestEndpoint;
      let id: string;
      beforeAll(async () => {
        if (whyNot !== null) return;
        server = await start();
        const answer = await ask('POST', '', { json: { ...server.request, name: `real-${kind}` } });
        expect(answer.status).toBe(201);
        id = answer.body.id;
      });
      afterAll(() => server?.stop());

      test('pass every step of a test, before and after they are saved', async (context) => {
        if (whyNot !== null) return context.skip(whyNot);
        const { name: _, ...changes } = { ...server.request, name: '' };
        const tests: [string, Ask][] = [
          [`/${id}/test`, {}],
          [`/${id}/test`, { json: { ...changes, name: `real-${kind}`, max_connections: 2 } }],
          ['/test', { json: { ...changes, name: 'unsaved' } }],
        ];
        expect((await ask('GET', `/${id}`)).body.health).toBeNull();
        for (const [path, request] of tests) {
          const answer = await ask('POST', path, request);
          expect(answer.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
          const steps = lines(answer);
          expect(steps.map(({ step, ok }) => [step, ok])).toEqual([
            ...['resolve', 'connect', 'sign_in', 'list', 'write', ...rename, 'read', 'remove'].map(
              (step) => [step, true],
            ),
            [undefined, true],
          ]);
          expect(steps.at(-1)).toMatchObject({
            type: 'result',
            write_bps: expect.any(Number),
            read_bps: expect.any(Number),
          });
          // Only the test of the saved settings counts as a probe.
          expect((await ask('GET', `/${id}`)).body.health).toMatchObject({
            successes_in_row: 1,
            last_success_at: expect.any(String),
            error: null,
          });
        }
      });

      test('list their folders', async (context) => {
        if (whyNot !== null) return context.skip(whyNot);
        const odd = 'a b%c+d.csv';
        await server.put('folder/deep/x.txt', Buffer.from('x'));
        await server.put(`folder/${odd}`, Buffer.from('12345'));
        const files = async (path: string) => {
          const { status, body } = await ask(
            'GET',
            `/${id}/files?path=${encodeURIComponent(path)}`,
          );
          expect({ status, path: body.path }).toEqual({ status: 200, path });
          return body;
        };
        for (const path of ['/folder', '/folder/']) {
          expect(await files(path)).toMatchObject({
            data: [
              { name: odd, type: 'file', size: 5, modified_at: expect.stringMatching(/Z$/) },
              { name: 'deep', type: 'directory', size: null },
            ],
            truncated: false,
          });
        }
        expect((await files('/')).data).toContainEqual(
          expect.objectContaining({ name: 'folder', type: 'directory' }),
        );
      });
    },
  );

  describe('on a real SFTP server', () => {
    const { whyNot, start } = ENDPOINT_KINDS.sftp;
    let server: TestEndpoint;
    beforeAll(async () => {
      if (whyNot === null) server = await start();
    });
    afterAll(() => server?.stop());

    test("accept the server's host key, and no other", async (context) => {
      if (whyNot !== null) return context.skip(whyNot);
      const { host_key_sha256: shown, ...request } = server.request;
      const { body } = await ask('POST', '', { json: { ...request, name: 'first-sight' } });
      const result = lines(await ask('POST', `/${body.id}/test`));
      expect(result.at(-2)).toMatchObject({
        step: 'connect',
        ok: false,
        code: 'host_key_mismatch',
      });
      expect(result.at(-1)).toMatchObject({ type: 'result', ok: false, fingerprint: shown });

      const accept = (host_key_sha256: unknown) =>
        ask('POST', `/${body.id}/accept-host-key`, { json: { host_key_sha256 } });
      expect(await accept(`SHA256:${'a'.repeat(43)}`)).toMatchObject({
        status: 400,
        body: {
          errors: [{ field: 'host_key_sha256', message: expect.stringContaining(String(shown)) }],
        },
      });
      expect(await accept('md5:of-old')).toMatchObject({ status: 400 });
      expect(await accept(shown)).toMatchObject({ status: 200, body: { host_key_sha256: shown } });
      expect(lines(await ask('POST', `/${body.id}/test`)).at(-1)).toMatchObject({
        type: 'result',
        ok: true,
      });
    });

    test('report a folder that is not there', async (context) => {
      if (whyNot !== null) return context.skip(whyNot);
      const { body } = await ask('POST', '', { json: { ...server.request, name: 'no-folder' } });
      expect(await ask('GET', `/${body.id}/files?path=/none`)).toMatchObject({
        status: 404,
        body: { code: 'not_found', endpoint_error: { code: 'source_not_found' } },
      });
    });
  });
});
