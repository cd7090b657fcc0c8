import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTransfer } from '../../src/commands/create-transfer.ts';
import { cancelTransfer } from '../../src/commands/transfers.ts';
import type { AuditItem } from '../../src/contract/audit.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { rebuildProjection } from '../../src/projections/rebuild/rebuild.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

const ENDPOINT = {
  name: 'bank',
  protocol: 'sftp',
  host: 'sftp.bank.example',
  username: 'u',
  password: 'a secret password',
};
const TRANSFER = {
  source_uri: 'sftp://bank/out/report.csv',
  destination_uri: 's3://archive/in/',
};
const PERSON = 'person:ann@example.com (248289761001)';

describeWithPostgres('GET /v1/audit', () => {
  let api: TestApi;
  let admin: { id: string; key: string };
  let auditor: string;
  let leaked: { id: string; key: string };
  let endpoint: string;
  let webhook: string;
  let transfer: string;
  /** Everything that the log has, newest first. */
  let all: AuditItem[];

  const ask = (query = '', key = auditor) => api.ask('GET', `/v1/audit${query}`, { key });
  const titles = async (query: string) => {
    const { status, body } = await ask(query);
    expect({ status, body }).toMatchObject({ status: 200 });
    return body.data.map(({ title }: AuditItem) => title);
  };

  beforeAll(async () => {
    api = await startApi();
    admin = await api.createKey(['admin']);
    const post = async (path: string, json?: unknown, method = 'POST') => {
      const answer = await api.ask(method, path, { key: admin.key, ...(json ? { json } : {}) });
      expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
      return answer.body;
    };
    auditor = (await post('/v1/keys', { name: 'the auditor', role: 'auditor' })).key;
    leaked = await post('/v1/keys', { name: '=leaked', scopes: ['transfers:read'] });
    await post(`/v1/keys/${leaked.id}/revoke`);
    endpoint = (await post('/v1/endpoints', ENDPOINT)).id;
    await post(`/v1/endpoints/${endpoint}/pause`);
    await post(`/v1/endpoints/${endpoint}/resume`);
    const url = 'https://hooks.example.com/in';
    webhook = (await post('/v1/webhooks', { url, events: ['transfer.failed'] })).id;
    transfer = (await post('/v1/transfers', TRANSFER)).id;
    await post(`/v1/transfers/${transfer}`, undefined, 'DELETE');
    await post(`/v1/transfers/${transfer}/retry`);
    const { commands } = api.installation;
    const request = transferRequest.parse(TRANSFER);
    const made = await createTransfer(commands, 'acc_other', request, CAUSE);
    const { position } = await cancelTransfer(commands, made.state.facts.transfer_id, {
      ...CAUSE,
      actor: PERSON,
    });
    await commands.waitFor('audit', position);
    all = (await ask('?limit=100')).body.data;
  });
  afterAll(() => api?.close());

  test('shows what people and keys did, newest first, and no transfer that was only created', () => {
    expect(all.map(({ title }) => title)).toEqual([
      'Transfer cancelled',
      'Transfer retried',
      'Transfer cancelled',
      'Webhook created',
      'Endpoint resumed',
      'Endpoint paused',
      'Endpoint created',
      'API key revoked',
      'API key created',
      'API key created',
      // Those of the test's own installation.
      'API key created',
      'Endpoint created',
      'API key created',
    ]);
    expect(all[5]).toEqual({
      id: expect.stringMatching(/^evt_/),
      occurred_at: expect.stringMatching(/Z$/),
      actor: `key:${admin.id}`,
      actor_name: 'test',
      client_address: '127.0.0.1',
      type: 'endpoint.paused',
      title: 'Endpoint paused',
      subject: { kind: 'endpoint', id: endpoint, name: 'bank' },
      account: null,
      data: {},
      stream: `endpoint-${endpoint}`,
      revision: 1,
      position: expect.stringMatching(/^\d+$/),
    });
    expect(all[0]).toMatchObject({
      actor: PERSON,
      actor_name: 'ann@example.com',
      account: 'acc_other',
      subject: { kind: 'transfer', name: 'report.csv' },
    });
    expect(all[1]?.data.retry_of).toBe(transfer);
    expect(all[3]?.subject).toEqual({
      kind: 'webhook',
      id: webhook,
      name: 'https://hooks.example.com/in',
    });
  });

  test('is a part of the log, and holds no secret', async () => {
    const { body } = await api.ask('GET', '/v1/events', { key: auditor });
    const log = new Map<string, Record<string, unknown>>(
      body
        .trim()
        .split('\n')
        .map((line: string) => JSON.parse(line))
        .map((event: { id: string }) => [event.id, event]),
    );
    for (const { id, stream, revision, position, type, data } of all) {
      const event = log.get(id);
      const rest = { ...(event?.data as object), sha256: undefined };
      expect(event).toMatchObject({ stream, revision, position, type });
      expect(data).toEqual(rest);
    }
    const text = JSON.stringify(all);
    for (const secret of [ENDPOINT.password, leaked.key, '"sha256"'])
      expect(text).not.toContain(secret);
  });

  describe('filters', () => {
    test.each<[string, () => string, string[]]>([
      ['an endpoint by name', () => 'subject=BANK&type=endpoint.paused', ['Endpoint paused']],
      ['a subject by id', () => `subject=${leaked.id}`, ['API key revoked', 'API key created']],
      ['a key by name', () => 'subject=%3Dleaked&type=key.revoked', ['API key revoked']],
      ['a webhook by URL', () => 'subject=https://hooks.example.com/in', ['Webhook created']],
      ['a person by email', () => 'actor=ann@example.com', ['Transfer cancelled']],
      ['a whole actor', () => `actor=${encodeURIComponent(PERSON)}`, ['Transfer cancelled']],
      ['a key by id', () => `actor=${admin.id}&kind=webhook`, ['Webhook created']],
      ['a key as actor by name', () => 'actor=Test&type=webhook.registered', ['Webhook created']],
      ['a kind', () => 'kind=webhook', ['Webhook created']],
      ['a kind and a type that exclude each other', () => 'kind=key&type=endpoint.paused', []],
      ['an unknown actor', () => 'actor=ann', []],
      ['an unknown subject', () => 'subject=ban', []],
      [
        'times',
        () => `from_date=${all[5]?.occurred_at}&kind=endpoint&to_date=2100-01-01`,
        ['Endpoint resumed', 'Endpoint paused'],
      ],
      ['a time before all', () => 'to_date=2020-01-01', []],
    ])('by %s', async (_, query, expected) => {
      expect(await titles(`?${query()}`)).toEqual(expected);
    });

    test('by the name of a flow', async () => {
      const { key } = await api.createKey(['admin'], { account: 'acc_flows' });
      const source = { uri: 's3://archive/out/' };
      const json = { name: 'Nightly', source, destination_uri: 's3://archive/in/{path}' };
      const { body } = await api.ask('POST', '/v1/flows', { key, json });
      const found = async () => (await ask('?subject=nightly')).body.data;
      await expect.poll(found).toMatchObject([{ subject: { id: body.id, name: 'Nightly' } }]);
    });

    test.each([
      ['kind=file', 'kind'],
      ['type=transfer.queued', 'type'],
      ['actor=', 'actor'],
      ['from_date=yesterday', 'from_date'],
      ['from_date=2026-02-01&to_date=2026-01-01', 'from_date'],
      ['limit=101', 'limit'],
    ])('reject %s', async (query, field) => {
      expect(await ask(`?${query}`)).toMatchObject({
        status: 400,
        body: { code: 'invalid_parameter', errors: [{ field }] },
      });
    });
  });

  test('has pages', async () => {
    // Other tests export, which is recorded.
    const until = `to_date=${all[0]?.occurred_at}`;
    const first = (await ask(`?${until}&limit=4`)).body;
    const second = (await ask(`?${until}&limit=4&offset=4`)).body;
    const last = (await ask(`?${until}&limit=4&offset=12`)).body;
    expect([...first.data, ...second.data]).toEqual(all.slice(0, 8));
    const total = all.length;
    expect(first.pagination).toEqual({ total, limit: 4, offset: 0, has_more: true });
    expect(last).toEqual({
      data: all.slice(12),
      pagination: { total, limit: 4, offset: 12, has_more: false },
    });
  });

  test('needs a key that may read the log of every account', async () => {
    const own = (await api.createKey(['audit:read', 'transfers:write'])).key;
    expect(await ask('', own)).toMatchObject({
      status: 403,
      body: { required_scope: 'audit:all' },
    });
    expect((await ask('', admin.key)).status).toBe(200);
  });

  test('as CSV, has all matches in cells that no spreadsheet takes for a formula', async () => {
    const { status, headers, body } = await api.ask('GET', '/v1/audit?kind=key&limit=1', {
      key: auditor,
      headers: { accept: 'text/csv' },
    });
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(headers.get('content-disposition')).toBe('attachment; filename="audit.csv"');
    const [names, ...lines] = body.split('\r\n');
    expect(names).toBe(
      'occurred_at,actor,actor_name,type,title,subject_kind,subject_id,subject_name,account,' +
        'data,id,stream,revision,position,client_address',
    );
    const keys = all.filter(({ subject }) => subject.kind === 'key');
    const times = lines.filter(Boolean).map((line: string) => line.split(',')[0]);
    // Another test may have created a key since.
    expect(times.slice(-keys.length)).toEqual(keys.map(({ occurred_at }) => occurred_at));
    expect(body).toContain(`,key,${leaked.id},'=leaked,acc_default,`);
  });

  test('shows the same after a rebuild', async () => {
    const { differences } = await rebuildProjection(api.installation, 'audit', () => undefined);
    expect(differences).toEqual([]);
    // Another test may have created a key since.
    const now = (await ask('?limit=100')).body.data;
    expect(now.slice(-all.length)).toEqual(all);
    await api.installation
      .sql`update read.audit set actor = 'x' where event_id = ${all[5]?.id as string}`;
    await api.installation.sql`delete from read.audit where event_id = ${all[6]?.id as string}`;
    const repaired = await rebuildProjection(api.installation, 'audit', () => undefined);
    expect(repaired.differences.toSorted()).toEqual([all[5]?.id, all[6]?.id].toSorted());
    expect((await ask('?limit=100')).body.data).toEqual(now);
  });
});
