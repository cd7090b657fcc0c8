import { afterAll, beforeAll, expect, test } from 'vitest';
import { EventStoreUnavailable } from '../../src/adapters/event-store/port.ts';
import { connect } from '../../src/adapters/postgres/connect.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { exchange, sendRaw } from '../support/http/raw-http.ts';
import { startTcpProxy } from '../support/network/tcp-proxy.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const BODY = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};
const REQUEST_ID = /^req_[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
const UNKNOWN = '/v1/transfers/txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H';

describeWithPostgres('HTTP', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  const post = (body: NonNullable<RequestInit['body']>, type: string | null = 'application/json') =>
    api.ask('POST', '/v1/transfers', {
      body,
      headers: type === null ? {} : { 'content-type': type },
    });

  test('the routes may take any time to load', () => {
    expect(api.app.initialConfig.pluginTimeout).toBe(0);
  });

  test('every answer has its own request id, which errors repeat', async () => {
    const mine = 'req_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
    const answer = await api.ask('GET', UNKNOWN, {
      headers: { 'x-request-id': mine, 'request-id': mine },
    });
    expect(answer.status).toBe(404);
    expect(answer.headers.get('x-request-id')).toMatch(REQUEST_ID);
    expect(answer.headers.get('x-request-id')).not.toBe(mine);
    expect(answer.body.request_id).toBe(answer.headers.get('x-request-id'));
    expect(
      (await api.ask('GET', '/health/live', { key: null })).headers.get('x-request-id'),
    ).toMatch(REQUEST_ID);
  });

  test('errors have the form of RFC 9457', async () => {
    const answer = await api.ask('GET', UNKNOWN);
    expect(answer.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
    expect(answer.body).toEqual({
      type: 'urn:waybill:problem:not_found',
      title: expect.any(String),
      status: 404,
      detail: 'There is no such transfer',
      code: 'not_found',
      request_id: expect.stringMatching(REQUEST_ID),
    });
  });

  test.each([
    '/v1',
    '/v1/',
    '/v1/nothing',
    '/v1/transfers/',
    `/v1/transfers/${'x'.repeat(300)}`,
    '/v1/transfers/a%2Fb',
    '/v1/transfers/:transfer_id',
    '/%761/nothing',
  ])('nothing exists at %s', async (path) => {
    expect(await api.ask('GET', path)).toMatchObject({ status: 404, body: { code: 'not_found' } });
    expect(await api.ask('GET', path, { key: null })).toMatchObject({
      status: 401,
      body: { code: 'api_key_missing' },
    });
  });

  test('a path without an id is no path of a transfer', async () => {
    for (const method of ['GET', 'DELETE', 'PATCH', 'POST'])
      expect(await api.ask(method, '/v1/transfers/')).toMatchObject({
        status: 404,
        body: { detail: expect.stringContaining('/docs lists all paths') },
      });
  });

  test('nothing exists outside /v1 either, with any key', async () => {
    expect(await api.ask('GET', '/nothing', { key: null })).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    });
    expect(await api.ask('POST', '/v1beta', { key: null, body: 'x' })).toMatchObject({
      status: 404,
    });
  });

  test.each([
    ['/v1/transfers', 'PUT', 'GET, HEAD, OPTIONS, POST'],
    ['/v1/transfers', 'PATCH', 'GET, HEAD, OPTIONS, POST'],
    [UNKNOWN, 'POST', 'DELETE, GET, HEAD, OPTIONS, PATCH'],
    [`${UNKNOWN}/events`, 'DELETE', 'GET, HEAD, OPTIONS'],
    ['/v1/transfers/bulk', 'PUT', 'OPTIONS, POST'],
    ['/v1/transfers/bulk', 'GET', 'OPTIONS, POST'],
    ['/v1/transfers/%62ulk', 'DELETE', 'OPTIONS, POST'],
    ['/v1/transfers/summary', 'PATCH', 'GET, HEAD, OPTIONS'],
    ['/v1/%74ransfers', 'PUT', 'GET, HEAD, OPTIONS, POST'],
    ['/%761/transfers', 'PUT', 'GET, HEAD, OPTIONS, POST'],
    ['/v1/openapi.json', 'PROPFIND', 'GET, HEAD, OPTIONS'],
    ['/console/transfers', 'POST', 'GET, HEAD, OPTIONS'],
  ])('%s rejects %s', async (path, method, allow) => {
    const answer = await api.ask(method, path, method === 'GET' ? {} : { body: 'whatever' });
    expect(answer).toMatchObject({ status: 405, body: { code: 'method_not_allowed' } });
    expect(answer.headers.get('allow')).toBe(allow);
  });

  test('OPTIONS of a fixed path leaves out the methods of a path with an id', async () => {
    const answer = await api.ask('OPTIONS', '/v1/transfers/bulk', { key: null });
    expect(answer.headers.get('allow')).toBe('OPTIONS, POST');
  });

  test('OPTIONS is answered without a key, and without CORS', async () => {
    const answer = await api.ask('OPTIONS', '/v1/transfers', {
      key: null,
      headers: { origin: 'https://example.com', 'access-control-request-method': 'POST' },
    });
    expect(answer).toMatchObject({ status: 204, body: '' });
    expect(answer.headers.get('allow')).toBe('GET, HEAD, OPTIONS, POST');
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual(
      [],
    );
    expect(answer.headers.get('x-ratelimit-limit')).toBe('60');
    expect(await api.ask('OPTIONS', '/v1/nothing', { key: null })).toMatchObject({ status: 404 });
    expect(await api.ask('OPTIONS', '/v1/%74ransfers', { key: null })).toMatchObject({
      status: 204,
    });
  });

  test('HEAD is answered as GET, without a body', async () => {
    const got = await api.ask('GET', '/v1/transfers');
    const head = await api.ask('HEAD', '/v1/transfers');
    expect(head).toMatchObject({ status: 200, body: '' });
    expect(head.headers.get('content-length')).toBe(got.headers.get('content-length'));
    expect(await api.ask('HEAD', UNKNOWN)).toMatchObject({ status: 404, body: '' });
  });

  test('a body may have 64 KiB, and no more', async () => {
    const limit = 64 * 1024;
    expect(await post(`"${'x'.repeat(limit - 2)}"`)).toMatchObject({
      status: 400,
      body: { code: 'validation_failed' },
    });
    expect(await post(`"${'x'.repeat(limit - 1)}"`)).toMatchObject({
      status: 413,
      body: { code: 'payload_too_large' },
    });
    expect(await post('x'.repeat(4 << 20))).toMatchObject({ status: 413 });
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
    const head =
      'POST /v1/transfers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n' +
      `Authorization: Bearer ${api.key}\r\nContent-Type: application/json\r\n`;
    expect(
      await sendRaw(
        api.port,
        `${head}Transfer-Encoding: chunked\r\n\r\n`,
        chunk,
        chunk,
        '0\r\n\r\n',
      ),
    ).toMatchObject({
      status: 413,
      headers: {
        'x-ratelimit-limit': '10000',
        'content-type': 'application/problem+json; charset=utf-8',
      },
    });
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/json; charset=iso-8859-1',
    'application/jsonx',
    'nonsense',
  ])('a body of type %s is rejected', async (type) => {
    expect(await post(JSON.stringify(BODY), type)).toMatchObject({
      status: 415,
      body: { code: 'unsupported_media_type' },
    });
  });

  test.each([
    ['application/json', 'text/plain'],
    ['text/plain', 'application/json'],
    ['application/json', 'application/json; charset=utf-16'],
  ])('a body of the types %s and %s is rejected', async (first, second) => {
    const json = JSON.stringify(BODY);
    const request = (...types: string[]) =>
      'POST /v1/transfers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n' +
      `Authorization: Bearer ${api.key}\r\nContent-Length: ${json.length}\r\n` +
      `${types.map((type) => `Content-Type: ${type}\r\n`).join('')}\r\n${json}`;
    expect(await sendRaw(api.port, request(first, second))).toMatchObject({
      status: 415,
      body: expect.stringContaining('"unsupported_media_type"'),
    });
    const repeated = request('application/json', 'application/json');
    expect(await sendRaw(api.port, repeated)).toMatchObject({ status: 201 });
  });

  test('the type of a body is not guessed', async () => {
    const json = JSON.stringify(BODY);
    const head =
      'POST /v1/transfers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n' +
      `Authorization: Bearer ${api.key}\r\n`;
    expect(
      await sendRaw(api.port, `${head}Content-Length: ${json.length}\r\n\r\n${json}`),
    ).toMatchObject({ status: 415 });
    expect(await sendRaw(api.port, `${head}Content-Length: 0\r\n\r\n`)).toMatchObject({
      status: 400,
      body: expect.stringContaining('the body must be a JSON object'),
    });
  });

  test.each([
    ['without a type', ''],
    ['with a type', 'Content-Type: text/plain\r\n'],
    ['with 100-continue', 'Expect: 100-continue\r\n'],
  ])('an empty body in chunks is no body, %s', async (_, extra) => {
    const request = (method: string, path: string, body: string) =>
      `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.key}\r\n${extra}` +
      `Transfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`;
    const last = `GET ${UNKNOWN} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
    const send = async (first: string) => {
      const answers = await exchange({ port: api.port }, first, last);
      return answers.map(({ status }) => status).filter((status) => status !== 100);
    };
    expect(await send(request('DELETE', UNKNOWN, ''))).toEqual([404, 401]);
    expect(await send(request('POST', `${UNKNOWN}/retry`, ''))).toEqual([404, 401]);
    expect(await send(request('POST', '/v1/transfers', ''))).toEqual([400, 401]);
    expect(await send(request('DELETE', UNKNOWN, '2\r\n{}\r\n'))).toEqual([415, 401]);
  });

  test.each(['UTF-8', 'utf8', '"utf-8"'])(
    'JSON with the charset %s is accepted',
    async (charset) => {
      const type = `application/json; charset=${charset}`;
      expect(await post(JSON.stringify(BODY), type)).toMatchObject({ status: 201 });
    },
  );

  test.each([
    ['cut off', '{"source_uri":'],
    ['not JSON', 'source_uri=x'],
    ['not UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['endlessly nested', '['.repeat(60_000)],
  ])('a body that is %s is rejected', async (_what, body) => {
    expect(await post(body)).toMatchObject({ status: 400, body: { code: 'invalid_json' } });
  });

  test.each([
    [`{"password":"hidden","port":'22'}`, /: Unexpected token '''$/],
    ['{"password":"hidden",}', /: Expected .* at position 21 \(line 1 column 22\)$/],
  ])('a body that is not JSON gets the reason, without its own text: %s', async (body, reason) => {
    const { detail } = (await post(body)).body;
    expect(detail).toMatch(/^The body must be JSON in UTF-8: /);
    expect(detail).toMatch(reason);
    expect(detail).not.toMatch(/hid|port/);
  });

  test.each(['null', '[]', '"text"', '1', ''])('the body %s is rejected', async (body) => {
    expect(await post(body)).toMatchObject({
      status: 400,
      body: { code: 'validation_failed', errors: [{ field: '' }] },
    });
  });

  test('__proto__ is rejected at any depth', async () => {
    for (const [body, field] of [
      ['{"__proto__":{}}', '__proto__'],
      ['{"_\\u005fproto__":{}}', '__proto__'],
      [
        `{"source_uri":"sftp://h/f","destination_uri":"s3://archive/","metadata":{"__proto__":"x"}}`,
        'metadata.__proto__',
      ],
    ] as const) {
      expect(await post(body)).toMatchObject({
        status: 400,
        body: { code: 'validation_failed', errors: [{ field }] },
      });
    }
  });

  test('fields are rejected on requests without a body', async () => {
    const { body } = await api.ask('POST', '/v1/transfers', { json: BODY });
    const cancel = (json: unknown) => api.ask('DELETE', `/v1/transfers/${body.id}`, { json });
    expect(await cancel({ reason: 'late' })).toMatchObject({
      status: 400,
      body: { code: 'unknown_field', errors: [{ field: 'reason' }] },
    });
    expect(await cancel([])).toMatchObject({ status: 400, body: { code: 'validation_failed' } });
    expect(await cancel({})).toMatchObject({ status: 200 });
  });

  test('all faults of a request are listed at once', async () => {
    const faultsOf = async (method: string, path: string, json: unknown, key = 'k') => {
      const headers = { 'idempotency-key': key };
      const { status, body } = await api.ask(method, path, { json, headers });
      const faults = body.errors.map((error: { field: string; code: string }) => [
        error.field,
        error.code,
      ]);
      return [status, body.code, Object.fromEntries(faults), body.detail];
    };
    expect(await faultsOf('POST', '/v1/transfers?bogus=1', { ...BODY, priority: 1 }, '')).toEqual([
      400,
      'validation_failed',
      {
        priority: 'validation_failed',
        bogus: 'unknown_field',
        'Idempotency-Key': 'invalid_parameter',
      },
      expect.stringMatching(/^priority: .*; bogus: .*; Idempotency-Key: /),
    ]);
    expect(await faultsOf('POST', '/v1/transfers?bogus=1', BODY, '')).toMatchObject([
      400,
      'invalid_parameter',
      { bogus: 'unknown_field', 'Idempotency-Key': 'invalid_parameter' },
      expect.any(String),
    ]);
    expect(await faultsOf('DELETE', `${UNKNOWN}?bogus=1`, { reason: 'late' })).toMatchObject([
      400,
      'unknown_field',
      { reason: 'unknown_field', bogus: 'unknown_field' },
      expect.any(String),
    ]);
    const many = Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`f${i}`, 1]));
    const [, , errors, detail] = await faultsOf('POST', '/v1/transfers?bogus=1', many);
    expect(Object.keys(errors)).toHaveLength(100);
    expect(detail).toMatch(/; and 23 more$/);
  });

  test.each(['GET', 'HEAD'])(
    'the body of a %s is ignored, as the document says',
    async (method) => {
      const { body } = await api.ask('GET', '/v1/openapi.json', { key: null });
      expect(body.info.description.replace(/\s+/g, ' ')).toContain(
        'The body of a `GET` or `HEAD` is ignored.',
      );
      const request = (connection: string) =>
        `${method} /v1/transfers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.key}\r\n` +
        `Content-Type: text/plain\r\nContent-Encoding: gzip\r\nConnection: ${connection}\r\n` +
        'Content-Length: 3\r\n\r\n{"x';
      expect(await sendRaw(api.port, request('close'))).toMatchObject({ status: 200 });
      const answers = await exchange({ port: api.port }, request('keep-alive') + request('close'));
      expect(answers[0]).toMatchObject({ status: 200 });
    },
  );

  test.each(['application/json', 'application/x-www-form-urlencoded', 'text/plain; charset=utf-8'])(
    'a missing body has no type, although the client names %s',
    async (type) => {
      const headers = { 'content-type': type, 'content-encoding': 'gzip' };
      const { body } = await api.ask('POST', '/v1/transfers', { json: BODY });
      const path = `/v1/transfers/${body.id}`;
      expect(await api.ask('DELETE', path, { headers })).toMatchObject({ status: 200 });
      expect(await api.ask('POST', `${path}/retry`, { headers, body: '' })).toMatchObject({
        status: 201,
      });
    },
  );

  test.each(['http://waybill.example.com/v1/transfers', '/%76%31/transfers'])(
    '%s is recognized',
    async (target) => {
      const request = (key: string) =>
        `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key}\r\n`;
      const headers = { 'x-ratelimit-limit': '10000', 'cache-control': 'no-store' };
      expect(
        await sendRaw(api.port, request(`Authorization: Bearer ${api.key}\r\n`)),
      ).toMatchObject({ status: 200, headers });
      expect(await sendRaw(api.port, request(''))).toMatchObject({
        status: 401,
        headers: { 'x-ratelimit-limit': '60' },
      });
    },
  );

  test('a path that is not UTF-8 is rejected', async () => {
    const answer = await api.ask('GET', '/v1/transfers/%zz');
    expect(answer).toMatchObject({ status: 400, body: { code: 'malformed_request' } });
    expect(answer.headers.get('x-ratelimit-limit')).toBe('10000');
    expect(await api.ask('GET', '/v1/transfers/%ff', { key: null })).toMatchObject({ status: 401 });
  });

  test('a query that is not UTF-8 is rejected', async () => {
    const list = (query: string) => api.ask('GET', `/v1/transfers?${query}`);
    for (const query of ['q=%ff', 'destination=sftp://a/%c3', 'q=%c3%28', '%ff=1'])
      expect(await list(query)).toMatchObject({ status: 400, body: { code: 'malformed_request' } });
    for (const query of ['q=%C3%A4', 'q=100%', 'q=a%2Fb+c'])
      expect(await list(query)).toMatchObject({ status: 200 });
  });

  test.each([
    ['no request at all', 'hello\r\n\r\n', 400, 'malformed_request'],
    [
      'a header without a colon',
      'GET /v1/transfers HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n',
      400,
      'malformed_request',
    ],
    [
      'two lengths',
      'POST /v1/transfers HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx',
      400,
      'malformed_request',
    ],
    [
      'a header of 20 KiB',
      `GET /v1/transfers HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
  ])('%s gets a problem as its answer', async (_what, request, status, code) => {
    const answer = await sendRaw(api.port, request);
    expect(answer).toMatchObject({
      status,
      headers: {
        'content-type': 'application/problem+json; charset=utf-8',
        date: expect.stringMatching(/^\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT$/),
        'x-ratelimit-limit': '60',
      },
    });
    expect(JSON.parse(answer.body)).toMatchObject({
      status,
      code,
      request_id: answer.headers['x-request-id'],
    });
  });

  test('answers are kept out of caches and browsers', async () => {
    const { headers } = await api.ask('GET', '/v1/transfers');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(headers.get('x-powered-by')).toBeNull();
    expect(headers.get('server')).toBeNull();
  });

  test('a server error shows only the request id, which identifies it in the log', async () => {
    const commands = {
      ...api.installation.commands,
      store: {
        ...api.installation.store,
        append: () => Promise.reject(new Error('the inner workings')),
      },
    };
    const server = await api.startServer({ commands });
    const answer = await server.ask('POST', '/v1/transfers', { json: BODY });
    expect(answer).toMatchObject({ status: 500, body: { code: 'internal_error' } });
    expect(JSON.stringify(answer.body)).not.toContain('inner workings');
    const line = api.logged.find(
      (logged) => logged.includes(answer.body.request_id) && logged.includes('the inner workings'),
    );
    expect(JSON.parse(line ?? '{}')).toMatchObject({
      level: 50,
      request_id: answer.body.request_id,
    });
  });

  test('an event store that does not answer is reported', async () => {
    const store = {
      ...api.installation.store,
      read: () => Promise.reject(new EventStoreUnavailable('esdb.internal:2113 does not answer')),
    };
    const server = await api.startServer({ store });
    const answer = await server.ask('GET', `${UNKNOWN}/events`);
    expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable' } });
    expect(answer.headers.get('retry-after')).toBe('5');
    expect(JSON.stringify(answer.body)).not.toContain('esdb.internal');
    const line = api.logged.find((logged) => logged.includes('esdb.internal'));
    expect(JSON.parse(line ?? '{}')).toMatchObject({
      level: 40,
      reason: 'esdb.internal:2113 does not answer',
    });
    expect(line).not.toContain('stack');
  });

  test('a Postgres that does not answer is reported until it answers again', async () => {
    const url = new URL(api.installation.environment.DATABASE_URL as string);
    const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
    url.hostname = proxy.host;
    url.port = String(proxy.port);
    const sql = connect(url.href);
    try {
      const server = await api.startServer({ sql, derived: sql });
      expect(await server.ask('GET', '/v1/transfers')).toMatchObject({ status: 200 });
      await proxy.refuse(true);
      proxy.cut();
      const answer = await server.ask('GET', '/v1/transfers');
      expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable' } });
      expect(answer.headers.get('retry-after')).toBe('5');
      expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
      expect(answer.headers.get('x-ratelimit-reset')).toMatch(/^\d+$/);
      await proxy.refuse(false);
      await expect
        .poll(async () => (await server.ask('GET', '/v1/transfers')).status, { timeout: 30_000 })
        .toBe(200);
    } finally {
      await sql.end({ timeout: 1 });
      await proxy.close();
    }
  });

  test('each request is logged once, and no secret is', async () => {
    const before = api.logged.length;
    const answer = await api.ask('GET', `/v1/transfers/${api.key}?token=${api.key}`, {
      headers: { 'idempotency-key': 'a-secret-of-the-client' },
    });
    await expect.poll(() => api.logged.length).toBe(before + 1);
    expect(JSON.parse(api.logged[before] as string)).toMatchObject({
      request_id: answer.body.request_id,
      method: 'GET',
      route: '/v1/transfers/:transfer_id',
      path: '/v1/transfers/wb_...',
      status: 400,
      duration_ms: expect.any(Number),
      key_id: expect.stringMatching(/^key_/),
      account_id: 'acc_default',
    });
    expect(api.logged.join('')).not.toContain(api.key);
    expect(api.logged.join('')).not.toContain('a-secret-of-the-client');
  });
});
