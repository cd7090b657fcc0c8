import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTransfer, reserveTransfer } from '../../src/commands/create-transfer.ts';
import { saveEndpoint } from '../../src/commands/save-endpoint.ts';
import { admitTransfer, endAttempt, startTransfer } from '../../src/commands/transfers.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import * as schemas from '../../src/contract/transfers/answers.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { newId } from '../../src/domain/ids.ts';
import { type AttemptFailure, TRANSFER_ERRORS } from '../../src/domain/transfers/errors.ts';
import { ARCHIVE, startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';

/** Creation times of the transfers of this test, oldest first. Two are in the same millisecond. */
const CREATED = [
  '2026-01-30T23:59:59.999Z',
  '2026-01-31T00:00:00.000Z',
  '2026-01-31T12:00:00.000Z',
  '2026-01-31T12:00:00.000Z',
  '2026-01-31T23:59:59.999Z',
  '2026-02-01T00:00:00.000Z',
];

describeWithPostgres('GET /v1/transfers', () => {
  let api: TestApi;
  /** Oldest first, as in CREATED. */
  const ids: string[] = [];

  beforeAll(async () => {
    api = await startApi();
    const { commands } = api.installation;
    let position: bigint | null = null;
    for (const [i, now] of CREATED.entries()) {
      const reserved = { ...reserveTransfer(), now };
      const request = transferRequest.parse({
        source_uri: 'sftp://files.example.com/out/report.csv',
        destination_uri: `s3://archive/in_${i % 2}/%25/`,
      });
      ({ position } = await createTransfer(commands, 'acc_default', request, CAUSE, reserved));
      ids.push(reserved.transferId);
    }
    // Ids of one millisecond have a random order: the later one of the two has the greater id.
    if ((ids[2] as string) > (ids[3] as string))
      [ids[2], ids[3]] = [ids[3] as string, ids[2] as string];
    ({ position } = await admitTransfer(commands, ids[0] as string, CAUSE));
    await commands.waitFor('transfers', position);
    await commands.waitFor('transfer_search', position);
  });
  afterAll(() => api?.close());

  /** Starts a new transfer and ends it with an error. */
  async function fail(id: string, code: 'timeout' | 'disk_full') {
    const claimId = `clm_${id}`;
    const started = { claimId, source: null, destination: null };
    await startTransfer(api.installation, id, started, CAUSE);
    const failure: AttemptFailure = { code, message: 'no', phase: 'write' };
    const figures = { transferred_bytes: 0, size_bytes: null, speed_bps: 0 };
    const outcome = { type: 'failed' as const, failure, figures, retryDelays: [] };
    return endAttempt(api.installation, id, claimId, outcome, CAUSE);
  }

  const newestFirst = (...places: number[]) => places.map((place) => ids[place]);
  const list = async (query: string) => {
    const answer = await api.ask('GET', `/v1/transfers${query}`);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return {
      ids: answer.body.data.map(({ id }: { id: string }) => id),
      pagination: answer.body.pagination,
      body: answer.body,
    };
  };

  test('lists the newest first, with exactly the fields of a list item', async () => {
    const { ids: listed, pagination, body } = await list('');
    expect(listed).toEqual(newestFirst(5, 4, 3, 2, 1, 0));
    expect(pagination).toEqual({ total: 6, limit: 25, offset: 0, has_more: false });
    expect(schemas.transferList.parse(body)).toEqual(body);
    expect(body.data[0]).toEqual({
      id: ids[5],
      file_name: 'report.csv',
      size_bytes: null,
      status: 'pending',
      source: 'sftp://files.example.com/out/report.csv',
      destination: 's3://archive/in_1/%25/report.csv',
      created_at: CREATED[5],
      completed_at: null,
      ended_at: null,
      error: null,
      retry_of: null,
      waiting_for: {
        reason: 'no_mover',
        message: 'No mover is running.',
        until: null,
        endpoint_id: null,
        in_use: null,
        limit: null,
      },
    });
  });

  test.each([
    ['?limit=2', [5, 4], { total: 6, limit: 2, offset: 0, has_more: true }],
    ['?limit=2&offset=4', [1, 0], { total: 6, limit: 2, offset: 4, has_more: false }],
    ['?limit=100&offset=5', [0], { total: 6, limit: 100, offset: 5, has_more: false }],
    ['?offset=6', [], { total: 6, limit: 25, offset: 6, has_more: false }],
    ['?sort=created_at&limit=2', [0, 1], { total: 6, limit: 2, offset: 0, has_more: true }],
    [
      '?sort=created_at&limit=2&offset=4',
      [4, 5],
      { total: 6, limit: 2, offset: 4, has_more: false },
    ],
    ['?sort=-created_at&offset=4', [1, 0], { total: 6, limit: 25, offset: 4, has_more: false }],
    [
      '?offset=9007199254740991',
      [],
      { total: 6, limit: 25, offset: 9007199254740991, has_more: false },
    ],
  ])('pages: %s', async (query, places, pagination) => {
    const page = await list(query);
    expect(page.ids).toEqual(newestFirst(...places));
    expect(page.pagination).toEqual(pagination);
  });

  test.each([
    ['?status=queued', [0]],
    ['?status=pending', [5, 4, 3, 2, 1]],
    ['?status=in_progress', []],
    ['?status=completed', []],
    ['?status=failed', []],
    ['?status=cancelled', []],
    ['?from_date=2026-01-31', [5, 4, 3, 2, 1]],
    ['?to_date=2026-01-31', [4, 3, 2, 1, 0]],
    ['?from_date=2026-01-31&to_date=2026-01-31', [4, 3, 2, 1]],
    ['?from_date=2026-01-31T12:00:00Z&to_date=2026-01-31T12:00:00.000Z', [3, 2]],
    ['?from_date=2026-01-31T12:00:00.0001Z', [5, 4]],
    ['?to_date=2026-01-31T12:00:00.0009Z', [3, 2, 1, 0]],
    ['?from_date=2026-01-31T13:00:00%2B01:00&to_date=2026-01-31t12:00:00z', [3, 2]],
    ['?from_date=2026-02-02', []],
    ['?from_date=2026-01-30T23:59:60Z&to_date=2026-01-31T23:59:60Z', [4, 3, 2, 1]],
    ['?to_date=9999-12-31', [5, 4, 3, 2, 1, 0]],
    ['?from_date=2026-01-31T12:00:00.001Z&to_date=9999-12-31T23:59:59.999Z', [5, 4]],
    ['?from_date=9999-12-31T23:30:00Z', []],
    ['?destination=s3://archive/in_0/&to_date=9999-12-31', [4, 2, 0]],
    ['?destination=s3://archive/in_0/', [4, 2, 0]],
    ['?destination=s3%3A%2F%2Farchive%2Fin_1%2F%2525%2Freport.csv', [5, 3, 1]],
    ['?destination=s3://archive/in%25', []],
    ['?destination=s3://archive/i__1', []],
    ['?destination=archive', []],
    ['?destination=s3://archive/in_0/&status=queued&from_date=2026-01-30', [0]],
  ])('filters: %s', async (query, places) => {
    const found = await list(query);
    // The two transfers of one millisecond differ in their destinations. Their order depends on
    // their ids.
    if (query.includes('destination')) expect(found.ids).toHaveLength(places.length);
    else expect(found.ids).toEqual(newestFirst(...places));
    expect(found.pagination.total).toBe(places.length);
  });

  test.each([
    ['?q=REPORT', [5, 4, 3, 2, 1, 0]],
    ['?q=port.c+example', [5, 4, 3, 2, 1, 0]],
    ['?q=in_0%2F', [4, 2, 0]],
    ['?q=in_1/+files&sort=created_at', [1, 3, 5]],
    ['?q=in_0&status=queued', [0]],
    ['?q=in_0&from_date=2026-01-31&to_date=2026-01-31', [4, 2]],
    ['?q=report&destination=s3://archive/in_1/', [5, 3, 1]],
    ['?q=report+nothing', []],
    ['?q=e_o', []],
  ])('searches: %s', async (query, places) => {
    const found = await list(query);
    if (places.length === CREATED.length) expect(found.ids).toEqual(newestFirst(...places));
    else expect(found.ids).toHaveLength(places.length);
    expect(found.pagination).toMatchObject({ total: places.length, total_is_exact: true });
    expect(schemas.transferList.parse(found.body)).toEqual(found.body);
  });

  test('finds a transfer by its id or a part of it, and none of another account', async () => {
    const id = ids[2] as string;
    for (const part of [id, id.toLowerCase(), id.slice(-9)])
      expect((await list(`?q=${part}`)).ids).toEqual([id]);
    const { key } = await api.createKey(['transfers:read'], { account: 'acc_other' });
    const { body } = await api.ask('GET', `/v1/transfers?q=${id}`, { key });
    expect(body).toMatchObject({ data: [], pagination: { total: 0, has_more: false } });
  });

  describe('as CSV', () => {
    const csv = (query: string, accept = 'text/csv') =>
      api.ask('GET', `/v1/transfers${query}`, { headers: { accept } });

    test('has all matches, whatever the page', async () => {
      const { status, headers, body } = await csv('?limit=1&q=in_1&sort=created_at');
      expect(status).toBe(200);
      expect(headers.get('content-type')).toBe('text/csv; charset=utf-8');
      expect(headers.get('content-disposition')).toBe('attachment; filename="transfers.csv"');
      expect(headers.get('vary')).toMatch(/accept/i);
      const lines = body.split('\r\n');
      expect(lines[0]).toBe(
        'id,file_name,size_bytes,status,source,destination,created_at,completed_at,retry_of,' +
          'error_code,error_message,metadata,ended_at',
      );
      expect(lines.slice(1, -1).map((line: string) => line.split(',')[6])).toEqual(
        [1, 3, 5].map((place) => CREATED[place]),
      );
      expect(lines.at(-1)).toBe('');
    });

    test('has a line of names alone if nothing matches', async () => {
      const { body } = await csv('?status=failed');
      expect(body.split('\r\n')).toHaveLength(2);
    });

    test.each([
      ['text/csv;q=0.5, application/json;q=0.4', 'text/csv'],
      ['text/csv; charset=utf-8', 'text/csv'],
      ['text/csv, */*;q=0.1', 'text/csv'],
      ['text/csv;q=0.5, application/json', 'application/json'],
      ['text/csv;q=0, */*', 'application/json'],
      ['*/*', 'application/json'],
      ['text/html', 'application/json'],
    ])('answers Accept: %s with %s', async (accept, type) => {
      const { headers } = await csv('', accept);
      expect(headers.get('content-type')).toContain(type);
      expect(headers.get('vary')).toMatch(/accept/i);
    });

    test.each(['status=done', 'retry_of=', 'batch_id=', 'destination='])(
      'rejects the wrong parameter %s as a problem',
      async (wrong) => {
        const { status, body } = await csv(`?${wrong}`);
        expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_parameter' });
      },
    );

    test('breaks the connection if the rest cannot be read', async () => {
      const { sql } = api.installation;
      let batches = 0;
      const failing = new Proxy(sql, {
        get(target, name, self) {
          if (name !== 'begin') return Reflect.get(target, name, self);
          return (...args: Parameters<typeof sql.begin>) => {
            if (++batches === 2) throw new Error('Postgres is away');
            return target.begin(...args);
          };
        },
      });
      await sql`
        insert into read.transfers
        select 'txr_' || n, 'acc_many', status, created_at, destination, revision, position, state
          from read.transfers, generate_series(1, 2000) n where transfer_id = ${ids[0] as string}`;
      const { key } = await api.createKey(['transfers:read'], { account: 'acc_many' });
      const server = await api.startServer({ sql: failing });
      await expect(
        server.ask('GET', '/v1/transfers', { key, headers: { accept: 'text/csv' } }),
      ).rejects.toThrow(/terminated/);
      expect(batches).toBe(2);
      const whole = await api.ask('GET', '/v1/transfers', { key, headers: { accept: 'text/csv' } });
      expect(whole.body.split('\r\n')).toHaveLength(2_002);
    });
  });

  test.each([
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1.0', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=%2B5', 'limit'],
    ['limit=05', 'limit'],
    ['limit=', 'limit'],
    ['limit=5&limit=5', 'limit'],
    ['offset=-1', 'offset'],
    ['offset=x', 'offset'],
    ['offset=9007199254740992', 'offset'],
    ['retry_of=txr_%00', 'retry_of'],
    ['retry_of=', 'retry_of'],
    ['retry_of=4711', 'retry_of'],
    ['retry_of=bat_01JZ8Q6W3N5V4T2R1P0M9K8J7H', 'retry_of'],
    ['batch_id=', 'batch_id'],
    ['batch_id=bat_1', 'batch_id'],
    ['batch_id=txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H', 'batch_id'],
    ['status=done', 'status'],
    ['status=', 'status'],
    ['status=PENDING', 'status'],
    ['status=pending&status=queued', 'status'],
    ['error_code=', 'error_code'],
    ['error_code=TIMEOUT', 'error_code'],
    ['error_code=timeout&error_code=stalled', 'error_code'],
    ['from_date=2026-02-30', 'from_date'],
    ['from_date=2026-13-01', 'from_date'],
    ['from_date=20260131', 'from_date'],
    ['from_date=2026-01-31T00:00:00', 'from_date'],
    ['from_date=2026-01-31T24:00:00Z', 'from_date'],
    ['from_date=2026-01-31T00:00:00+01:00', 'from_date'],
    ['from_date=0000-01-01', 'from_date'],
    ['from_date=1769817600', 'from_date'],
    ['to_date=tomorrow', 'to_date'],
    ['to_date=9999-12-31T23:59:59-23:59', 'to_date'],
    ['from_date=2026-02-01&to_date=2026-01-31', 'from_date'],
    ['sort=name', 'sort'],
    ['sort=', 'sort'],
    ['q=', 'q'],
    ['q=%20%20', 'q'],
    ['q=%00', 'q'],
    [`q=${'a'.repeat(257)}`, 'q'],
    ['q=1+2+3+4+5+6+7+8+9+10+11', 'q'],
    ['q=abc&offset=9976', 'offset'],
    ['destination=', 'destination'],
    ['destination=%00', 'destination'],
    ['destination=a&destination=b', 'destination'],
  ])('rejects %s', async (query, field) => {
    const { status, body } = await api.ask('GET', `/v1/transfers?${query}`);
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_parameter' });
    expect(body.errors.map((error: { field: string }) => error.field)).toEqual([field]);
  });

  test.each(['page', 'Q', 'Status', '__proto__', 'constructor', 'destination%5B%5D'])(
    'rejects the unknown parameter %s',
    async (name) => {
      const { status, body } = await api.ask('GET', `/v1/transfers?${name}=1`);
      expect({ status, code: body.code }).toEqual({ status: 400, code: 'unknown_field' });
      expect(body.errors).toEqual([
        { field: decodeURIComponent(name), code: 'unknown_field', message: expect.any(String) },
      ]);
    },
  );

  test('reports all errors at once', async () => {
    const { body } = await api.ask(
      'GET',
      '/v1/transfers?limit=0&offset=x&status=done&from_date=x&page=2',
    );
    expect(body.code).toBe('invalid_parameter');
    expect(
      body.errors
        .map(({ field, code }: { field: string; code: string }) => `${field} ${code}`)
        .sort(),
    ).toEqual([
      'from_date invalid_parameter',
      'limit invalid_parameter',
      'offset invalid_parameter',
      'page unknown_field',
      'status invalid_parameter',
    ]);
  });

  test.each([
    ['', 6],
    ['?from_date=2026-01-31&to_date=2026-01-31', 4],
    ['?from_date=2026-01-31T12:00:00.000Z', 4],
    ['?from_date=2026-01-31T12:00:00.001Z&to_date=2026-01-31T23:59:59.998Z', 0],
    ['?to_date=2026-01-30T23:59:59.999Z', 1],
  ])('a summary counts the transfers of the list: %s', async (query, total) => {
    const { status, body } = await api.ask('GET', `/v1/transfers/summary${query}`);
    expect(status).toBe(200);
    expect(schemas.transferSummary.parse(body)).toEqual(body);
    expect(body).toMatchObject({ total, failures: [] });
    for (const [name, transfers] of Object.entries(body.by_status)) {
      const { pagination } = await list(`${query === '' ? '?' : `${query}&`}status=${name}`);
      expect(pagination.total, name).toBe(transfers);
    }
  });

  test.each([
    '',
    '?from_date=2026-01-31&to_date=2026-01-31',
    '?from_date=2026-01-31T12:00:00.000Z',
    '?from_date=2026-01-31T12:00:00.001Z&to_date=2026-01-31T23:59:59.998Z',
    '?to_date=2026-01-30T23:59:59.999Z',
  ])('a series counts the transfers of the list by hour: %s', async (query) => {
    const { status, body } = await api.ask('GET', `/v1/transfers/series${query}`);
    expect(status).toBe(200);
    expect(schemas.transferSeries.parse(body)).toEqual(body);
    const { body: page } = await list(`${query === '' ? '?' : `${query}&`}limit=100`);
    const expected = new Map<string, Record<string, number>>();
    for (const { created_at, status } of (page as schemas.TransferList).data) {
      const at = `${created_at.slice(0, 13)}:00:00.000Z`;
      const counts = expected.get(at) ?? {};
      expected.set(at, { ...counts, [status]: (counts[status] ?? 0) + 1 });
    }
    const series = (body as schemas.TransferSeries).data.map(({ at, by_status }) => [
      at,
      Object.fromEntries(Object.entries(by_status).filter(([, transfers]) => transfers > 0)),
    ]);
    expect(series).toEqual([...expected].sort());
  });

  test('a summary counts the failed transfers that were retried, each once', async () => {
    const { key } = await api.createKey(['transfers:write'], { account: 'acc_retried' });
    const { commands } = api.installation;
    const summary = async () =>
      (await api.ask('GET', '/v1/transfers/summary', { key })).body as schemas.TransferSummary;
    const create = async () => {
      const json = {
        source_uri: 's3://archive/out/report.csv',
        destination_uri: 's3://archive/failed/',
      };
      return (await api.ask('POST', '/v1/transfers', { key, json })).body.id as string;
    };
    const [first, second] = [await create(), await create()];
    for (const id of [first, second]) {
      const { position } = await fail(id, 'timeout');
      await commands.waitFor('transfers', position);
    }
    expect(await summary()).toMatchObject({ by_status: { failed: 2 }, retried: 0 });
    const retry = (id: string) => api.ask('POST', `/v1/transfers/${id}/retry`, { key });
    const again = (await retry(first)).body.id as string;
    await retry(first);
    expect(await summary()).toMatchObject({ by_status: { failed: 2, pending: 2 }, retried: 1 });
    const { position } = await fail(again, 'timeout');
    await commands.waitFor('transfers', position);
    expect(await summary()).toMatchObject({ by_status: { failed: 3, pending: 1 }, retried: 1 });
    const ids = async (query: string) => {
      const { body } = await api.ask('GET', `/v1/transfers?status=failed&${query}`, { key });
      expect(body.pagination.total).toBe(body.data.length);
      return (body as schemas.TransferList).data.map(({ id }) => id);
    };
    expect(await ids('retried=true')).toEqual([first]);
    expect(await ids('retried=false')).toEqual([again, second]);
    expect(await ids('retried=false&error_code=timeout&limit=5')).toEqual([again, second]);
    expect(await ids('retried=false&destination=s3://archive/')).toEqual([again, second]);
    expect(await ids(`retried=true&q=${first}`)).toEqual([first]);
    const wrong = await api.ask('GET', '/v1/transfers?retried=1', { key });
    expect(wrong).toMatchObject({ status: 400, body: { errors: [{ field: 'retried' }] } });
    const json = { action: 'retry', filter: { retried: false, q: 'report' } };
    const bulk = await api.ask('POST', '/v1/transfers/bulk', { key, json });
    expect(bulk.body).toMatchObject({ done: 2 });
  });

  test('a summary counts the failed transfers by error and by endpoint', async () => {
    const { commands, sql } = api.installation;
    const at = '2026-03-01T00:00:00.000Z';
    let position: bigint | null = null;
    for (const code of ['timeout', 'disk_full', 'timeout'] as const) {
      const reserved = { ...reserveTransfer(), now: at };
      const request = transferRequest.parse({
        source_uri: 'sftp://files.example.com/out/report.csv',
        destination_uri: 's3://archive/failed/',
      });
      await createTransfer(commands, 'acc_default', request, CAUSE, reserved);
      ({ position } = await fail(reserved.transferId, code));
    }
    await commands.waitFor('transfers', position);
    await commands.waitFor('transfer_search', position);
    const { body } = await api.ask('GET', '/v1/transfers/summary?from_date=2026-03-01');
    const [archive] = await sql<{ endpoint_id: string }[]>`
      select endpoint_id from read.endpoints where name = 'archive'`;
    const endpointId = archive?.endpoint_id as string;
    const failed = sql`
      select state -> 'facts' -> 'error' ->> 'occurred_at' as at from read.transfers
       where status = 'failed' and created_at = ${at} order by at`;
    const times = (await failed).map((row) => row.at as string);
    const atEndpoint = {
      endpoint_id: endpointId,
      name: 'archive',
      transfers: 3,
      first_failed_at: times.at(0),
      last_failed_at: times.at(-1),
    };
    expect(body).toEqual({
      total: 3,
      by_status: { pending: 0, queued: 0, in_progress: 0, completed: 0, failed: 3, cancelled: 0 },
      failures: [
        {
          code: 'timeout',
          transfers: 2,
          first_failed_at: times.at(0),
          last_failed_at: times.at(2),
        },
        {
          code: 'disk_full',
          transfers: 1,
          first_failed_at: times.at(1),
          last_failed_at: times.at(1),
        },
      ],
      failures_by_endpoint: [atEndpoint],
      retried: 0,
    });
    const listed = await list('?from_date=2026-03-01&limit=1');
    expect(listed.body.data[0]).toMatchObject({ status: 'failed', error: { message: 'no' } });

    for (const { code, transfers } of body.failures) {
      const found = await list(`?from_date=2026-03-01&error_code=${code}`);
      expect(found.pagination.total).toBe(transfers);
      expect(found.body.data.map(({ error }: schemas.TransferListItem) => error?.code)).toEqual(
        Array(transfers).fill(code),
      );
    }
    for (const [query, total] of [
      [`error_endpoint_id=${endpointId}`, 3],
      [`error_endpoint_id=${endpointId}&error_code=timeout`, 2],
      [`error_endpoint_id=${endpointId}&status=completed`, 0],
      [`error_endpoint_id=${endpointId}&q=report`, 3],
      [`error_endpoint_id=${newId('end')}`, 0],
      ['error_code=timeout', 2],
      ['error_code=timeout&status=failed', 2],
      ['error_code=timeout&status=completed', 0],
      ['error_code=timeout&destination=s3://archive/failed/', 2],
      ['error_code=timeout&destination=s3://archive/in', 0],
      ['error_code=timeout&q=report', 2],
      ['error_code=timeout&to_date=2026-02-28', 0],
      ['error_code=stalled', 0],
    ] as const) {
      const found = await list(`?${query}`);
      expect({ query, total: found.pagination.total, found: found.ids.length }).toEqual({
        query,
        total,
        found: total,
      });
      const headers = { accept: 'text/csv' };
      const csv = await api.ask('GET', `/v1/transfers?${query}`, { headers });
      expect(csv.body.split('\r\n')).toHaveLength(total + 2);
    }
  });

  test('a summary names no endpoint that the account may not use any more', async () => {
    const { commands } = api.installation;
    const names: (string | null)[] = [];
    for (const accounts of [['acc_other'], ['acc_default'], null]) {
      const { position } = await saveEndpoint(
        commands,
        endpointRequest.parse({ ...ARCHIVE, accounts }),
        CAUSE,
      );
      await commands.waitFor('catalog', position);
      const { body } = await api.ask('GET', '/v1/transfers/summary?from_date=2026-03-01');
      names.push(body.failures_by_endpoint[0].name);
    }
    expect(names).toEqual([null, 'archive', 'archive']);
  });

  test('names the error codes if it knows another', async () => {
    const { status, body } = await api.ask('GET', '/v1/transfers?error_code=oops');
    expect(status).toBe(400);
    expect(body).toMatchObject({
      code: 'invalid_parameter',
      errors: [
        {
          field: 'error_code',
          code: 'invalid_parameter',
          message: `must be one of ${Object.keys(TRANSFER_ERRORS).join(', ')}`,
        },
      ],
    });
  });

  test.each([
    ['from_date=2026-02-01&to_date=2026-01-01', 'from_date'],
    ['from_date=yesterday', 'from_date'],
    ['status=failed', 'status'],
  ])('a summary rejects %s', async (query, field) => {
    const { status, body } = await api.ask('GET', `/v1/transfers/summary?${query}`);
    expect(status).toBe(400);
    expect(body.errors).toEqual([expect.objectContaining({ field })]);
  });
});
