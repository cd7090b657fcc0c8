import type { FastifyRequest } from 'fastify';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EventStore, EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { newApiKey } from '../../src/commands/api-key.ts';
import { revokeKey } from '../../src/commands/keys.ts';
import type { SignInFailed } from '../../src/domain/access.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import { newId } from '../../src/domain/ids.ts';
import { createAccessRecorder } from '../../src/http/access-log/recorder.ts';
import { createChainVerifier } from '../../src/processes/verification/chain.ts';
import { describeOnEventStoreDb } from '../support/event-store/eventstoredb.ts';
import { type Ask, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};

describeWithPostgres('the record of accesses', () => accesses(() => startApi(PROXIED)));

describeOnEventStoreDb('the record of accesses', (start) => {
  let stop: (() => Promise<void>) | undefined;
  accesses(async () => {
    const log = await start();
    stop = log.close;
    return startApi(PROXIED, log.settings);
  });
  afterAll(() => stop?.());
});

const SILENT = pino({ enabled: false });
/** Each test comes from its own address. */
const PROXIED = { trustedProxies: ['127.0.0.1'], accessGatherMs: 20 };

function accesses(start: () => Promise<TestApi>): void {
  let api: TestApi;
  let auditor: { id: string; key: string };
  let addresses = 0;
  beforeAll(async () => {
    api = await start();
    auditor = await api.createKey(['audit:all', 'observe', 'transfers:read']);
  });
  afterAll(() => api?.close());

  const newAddress = () => `198.51.100.${++addresses}`;
  const from = (address: string, more: Record<string, string> = {}) => ({
    headers: { 'x-forwarded-for': address, ...more },
  });

  /** Returns the whole log, from the store. */
  async function readLog(): Promise<StoredEvent[]> {
    const done = new AbortController();
    const events: StoredEvent[] = [];
    for await (const batch of api.installation.store.subscribe({
      from: null,
      signal: done.signal,
    })) {
      events.push(...batch.events);
      if (batch.caughtUp) break;
    }
    done.abort();
    return events;
  }
  /** Returns the recorded accesses from an address. */
  const accessesFrom = async (address: string) =>
    (await readLog()).filter(
      ({ stream, metadata }) => stream.startsWith('access-') && metadata.client_address === address,
    );
  const untilRecorded = (address: string, count: number) =>
    expect
      .poll(async () => (await accessesFrom(address)).map(({ type }) => type))
      .toHaveLength(count);

  const transferOf = async () => (await api.ask('POST', '/v1/transfers', { json: BODY })).body.id;

  describe('has an export before its first byte:', () => {
    test.each<[string, string, object, string | null]>([
      ['/v1/events?from=0', 'log', { from: '0' }, null],
      ['/v1/audit?kind=key', 'audit_log', { kind: 'key' }, null],
      ['/v1/transfers?status=failed', 'transfers', { status: 'failed' }, 'acc_default'],
    ])('%s', async (path, what, parameters, account_id) => {
      const address = newAddress();
      const options: Ask = { key: auditor.key, ...from(address, { accept: 'text/csv' }) };
      expect((await api.ask('GET', path, options)).status).toBe(200);
      expect(await accessesFrom(address)).toMatchObject([
        {
          type: 'access.exported',
          data: { export: what, parameters },
          metadata: { actor: `key:${auditor.id}`, account_id, client_address: address },
        },
      ]);

      const { store } = api.installation;
      const away: EventStore = {
        ...store,
        append: () => Promise.reject(new EventStoreUnavailable('the store is away')),
      };
      const server = await api.startServer({ store: away });
      const refused = await server.ask('GET', path, options);
      expect(refused).toMatchObject({ status: 503, body: { code: 'unavailable' } });
      expect(await accessesFrom(address)).toHaveLength(1);
    });

    test('the account of a key that may read one', async () => {
      const address = newAddress();
      const { key } = await api.createKey(['audit:read'], { account: 'acc_other' });
      await api.ask('GET', '/v1/events', { key, ...from(address) });
      expect(await accessesFrom(address)).toMatchObject([
        { metadata: { account_id: 'acc_other' } },
      ]);
    });

    test('with U+FFFD in place of what no table can hold', async () => {
      const { accessGatherMs } = PROXIED;
      const recorder = createAccessRecorder({
        ...api.installation,
        logger: SILENT,
        accessGatherMs,
      });
      const address = newAddress();
      const request = {
        ...{ id: newId('req'), method: 'GET', url: '/v1/audit?actor=a%00b&c%00=d' },
        ...{ ip: address, client: { actor: 'key:key_1' } },
      } as unknown as FastifyRequest;
      await recorder.exported(request, 'audit_log', null);
      await recorder.close();
      expect(await accessesFrom(address)).toMatchObject([
        { data: { parameters: { actor: 'a\ufffdb', 'c\ufffd': 'd' } } },
      ]);
    });

    test('not a list, and not the head of an export', async () => {
      const address = newAddress();
      const options = { key: auditor.key, ...from(address) };
      const server = await api.startServer();
      for (const path of ['/v1/transfers', '/v1/audit'])
        expect((await server.ask('GET', path, options)).status).toBe(200);
      expect((await server.ask('HEAD', '/v1/events', options)).status).toBe(200);
      // Records what waits.
      await server.app.close();
      expect(await accessesFrom(address)).toEqual([]);
    });
  });

  test('has each history that an operator reads, once in a while', async () => {
    const address = newAddress();
    const id = await transferOf();
    const other = await transferOf();
    const options = { key: auditor.key, ...from(address) };
    for (const path of [`${id}/events`, `${id}/events`, `${id}?as_of=0`, id, `${other}?as_of=0`])
      expect((await api.ask('GET', `/v1/transfers/${path}`, options)).status).toBe(200);
    await untilRecorded(address, 2);
    expect(await accessesFrom(address)).toMatchObject(
      [id, other].map((transfer_id) => ({
        type: 'access.history_read',
        data: { transfer_id },
        metadata: { actor: `key:${auditor.id}`, account_id: 'acc_default' },
      })),
    );
  });

  test('has no history that a program reads, or that does not exist', async () => {
    const address = newAddress();
    const id = await transferOf();
    const server = await api.startServer();
    const program = from(address);
    expect((await server.ask('GET', `/v1/transfers/${id}/events`, program)).status).toBe(200);
    const options = { key: auditor.key, ...from(address) };
    const unknown = `/v1/transfers/${id.slice(0, -1)}${id.endsWith('0') ? 1 : 0}/events`;
    expect((await server.ask('GET', unknown, options)).status).toBe(404);
    await server.app.close();
    expect(await accessesFrom(address)).toEqual([]);
  });

  test('has the receipt that a program takes', async () => {
    const address = newAddress();
    const id = await transferOf();
    expect((await api.ask('DELETE', `/v1/transfers/${id}`)).status).toBe(200);
    const path = `/v1/transfers/${id}/receipt`;
    const unsigned = await api.ask('GET', path, from(newAddress()));
    expect(unsigned.status).toBe(409);
    expect((await api.ask('POST', '/v1/checkpoints', { key: auditor.key })).status).toBe(200);
    expect((await api.ask('GET', path, from(address))).status).toBe(200);
    await untilRecorded(address, 1);
    expect(await accessesFrom(address)).toMatchObject([
      { type: 'access.receipt_read', data: { transfer_id: id } },
    ]);
  });

  test('has failed sign-ins: the first at once, the others with their number', async () => {
    const address = newAddress();
    const server = await api.startServer();
    const revoked = await api.createKey(['transfers:read']);
    await revokeKey(api.installation.commands, revoked.id, CAUSE);
    const unknown = newApiKey();
    const tries: [string, Ask, number][] = [
      ['GET /v1/transfers', { key: unknown }, 401],
      ['GET /v1/transfers', { key: unknown }, 401],
      ['GET /v1/transfers', { key: 'open sesame' }, 401],
      ['GET /v1/nothing', { key: revoked.key }, 401],
      ['POST /v1/session', { key: null, json: { api_key: unknown } }, 401],
      // A key that may not sign in to the console.
      ['POST /v1/session', { key: null, json: { api_key: api.key } }, 403],
      // No sign-in at all, and a valid key without the scope.
      ['GET /v1/transfers', { key: null }, 401],
      ['GET /v1/keys', { key: api.key }, 403],
    ];
    for (const [route, options, status] of tries) {
      const [method, path] = route.split(' ') as [string, string];
      const headers = from(address, { 'sec-fetch-site': 'same-origin' });
      expect((await server.ask(method, path, { ...options, ...headers })).status).toBe(status);
    }
    await untilRecorded(address, 1);
    // What was counted since is recorded at the end of the process.
    await server.app.close();
    const events = await accessesFrom(address);
    const [first, ...later] = events.map(({ data }) => data as SignInFailed);
    expect(first).toEqual({
      address,
      failures: 1,
      reasons: { api_key_invalid: 1 },
      key_ids: [],
      first_at: first?.last_at,
      last_at: expect.stringMatching(/Z$/),
    });
    // One event, unless the machine is so busy that a minute went by.
    const reasons: Record<string, number> = {};
    for (const failed of later)
      for (const [reason, count] of Object.entries(failed.reasons))
        reasons[reason] = (reasons[reason] ?? 0) + count;
    expect(reasons).toEqual({
      api_key_invalid: 2,
      api_key_malformed: 1,
      api_key_revoked: 1,
      insufficient_scope: 1,
    });
    expect(later.flatMap(({ key_ids }) => key_ids)).toEqual([revoked.id]);
    expect(events[0]?.metadata).toMatchObject({ actor: 'anonymous', account_id: null });
    const text = JSON.stringify((await readLog()).map(({ data, metadata }) => [data, metadata]));
    for (const secret of [unknown, revoked.key, 'open sesame']) expect(text).not.toContain(secret);
  });

  test('failed sign-ins are answered while the store is away, and recorded afterwards', async () => {
    const address = newAddress();
    const { store } = api.installation;
    let isAway = true;
    let tries = 0;
    const returning: EventStore = {
      ...store,
      append(...append) {
        tries++;
        return isAway ? Promise.reject(new EventStoreUnavailable('away')) : store.append(...append);
      },
    };
    const server = await api.startServer({ store: returning });
    const options = { key: newApiKey(), ...from(address) };
    expect((await server.ask('GET', '/v1/transfers', options)).status).toBe(401);
    await expect.poll(() => tries).toBeGreaterThan(1);
    isAway = false;
    await untilRecorded(address, 1);
  });

  test('names the client of each change', async () => {
    const address = '2001:db8::7';
    const admin = (await api.createKey(['admin'])).key;
    const json = { name: 'named', scopes: ['transfers:read'] };
    const { body } = await api.ask('POST', '/v1/keys', { key: admin, json, ...from(address) });
    const [created] = await api.installation.store.read(`key-${body.id}`);
    expect(created?.metadata.client_address).toBe(address);
    const query = `/v1/audit?subject=${body.id}`;
    await expect
      .poll(async () => (await api.ask('GET', query, { key: auditor.key })).body.data)
      .toMatchObject([{ title: 'API key created', client_address: address }]);
  });

  test('is in the audit log, in words', async () => {
    const address = newAddress();
    const id = await transferOf();
    const options = { key: auditor.key, ...from(address) };
    await api.ask('GET', `/v1/transfers/${id}/events`, options);
    await api.ask('GET', '/v1/transfers', { ...options, key: newApiKey() });
    await api.ask('GET', '/v1/transfers', { ...options, ...from(address, { accept: 'text/csv' }) });
    const titles = async (query: string) =>
      (await api.ask('GET', `/v1/audit?kind=access&${query}`, { key: auditor.key })).body.data.map(
        ({ title }: { title: string }) => title,
      );
    await expect.poll(() => titles(`subject=${id}`)).toEqual(['History read']);
    await expect.poll(() => titles(`subject=${address}`)).toEqual(['Sign-in failed']);
    expect(await titles('subject=transfers&limit=1')).toEqual(['Data exported']);
  });

  test('has intact chains', async () => {
    const verifier = createChainVerifier();
    const log = await readLog();
    expect(log.flatMap((event) => verifier.check(event).problems)).toEqual([]);
    expect(log.filter(({ stream }) => stream.startsWith('access-')).length).toBeGreaterThan(5);
  });
}
