import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Server, startApi, type TestApi } from '../support/http/api.ts';
import { exchange, type RawAnswer } from '../support/http/raw-http.ts';
import { createCertificates, type TestCertificates } from '../support/network/certificates.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const BODY = JSON.stringify({
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
});
const MALFORMED = { status: 400, body: expect.stringContaining('"malformed_request"') };
const CREATED = { status: 201 };

describeWithPostgres('a connection', () => {
  let api: TestApi;
  let certificates: TestCertificates;
  let encrypted: Server;
  beforeAll(async () => {
    api = await startApi();
    certificates = await createCertificates();
    encrypted = await api.startServer({ tls: certificates.valid });
  });
  afterAll(() => api?.close());

  const host = 'Host: waybill.example.com\r\n';
  const authorization = () => `Authorization: Bearer ${api.key}\r\n`;
  const post = (headers = '', body = BODY) =>
    `POST /v1/transfers HTTP/1.1\r\n${host}${authorization()}` +
    `Content-Type: application/json\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const get = (headers = '', target = '/v1/transfers', version = '1.1') =>
    `GET ${target} HTTP/${version}\r\n${authorization()}${headers}\r\n`;
  const total = async () => (await api.ask('GET', '/v1/transfers')).body.pagination.total;
  const send = (...chunks: string[]) => exchange({ port: api.port }, ...chunks);
  const codes = (answers: RawAnswer[]) => answers.map(({ status }) => status);

  test.each([
    ['headers', () => post().slice(0, 40)],
    ['a body', () => post().slice(0, -1)],
  ])('ends if the rest of %s does not arrive in time', async (_what, request) => {
    const impatient = await api.startServer({ requestTimeoutMs: 200 });
    const answers = await exchange({ port: impatient.port }, request());
    expect(answers).toMatchObject([
      { status: 408, body: expect.stringContaining('"request_timeout"') },
    ]);
  });

  test.each(['plain', 'encrypted'])(
    'that is %s and silent ends without an answer, which its next request would take',
    async (kind) => {
      const tls = kind === 'plain' ? undefined : certificates.valid;
      const { port } = await api.startServer({ requestTimeoutMs: 200, tls });
      expect(await exchange({ port, caPem: tls && certificates.caPem })).toEqual([]);
    },
  );

  test.each([
    ['nothing', 0],
    ['a part of the headers', 40],
    ['all but the end of the body', -1],
  ])('is answered if the rest came while the service was busy, after %s', async (_what, until) => {
    const requestTimeoutMs = 2_000;
    const { app, port } = await api.startServer({ requestTimeoutMs });
    const accepted = once(app.server, 'connection') as Promise<[Socket]>;
    const client = connect(port, '127.0.0.1');
    const [socket] = await accepted;
    const request = post();
    client.write(request.slice(0, until));
    while (socket.bytesRead < request.slice(0, until).length) await sleep(1);
    client.end(request.slice(until));
    // Blocks the event loop until the server looks for late requests, before it reads.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, requestTimeoutMs + 1_100);
    expect((await text(client)).match(/^HTTP.*/gm)).toEqual(['HTTP/1.1 201 Created']);
  });

  describe.each(['plain', 'encrypted'])('that is %s', (kind) => {
    const over = (...chunks: string[]) =>
      kind === 'plain'
        ? exchange({ port: api.port }, ...chunks)
        : exchange({ port: encrypted.port, caPem: certificates.caPem }, ...chunks);

    test.each([
      ['no HTTP', 'garbage\r\n\r\n'],
      ['bytes', '\x00\x01\x02'],
      ['the head of a TLS connection', '\x16\x03\x01\x02\x00'],
      ['a header without a colon', `GET / HTTP/1.1\r\n${host}nonsense\r\n\r\n`],
    ])('answers a request before it answers %s in the same packet', async (_what, rest) => {
      const before = await total();
      const answers = await over(post() + rest);
      expect(answers).toMatchObject([CREATED, MALFORMED]);
      expect(answers[1]?.headers).toMatchObject({
        connection: 'close',
        'content-type': 'application/problem+json; charset=utf-8',
        'x-ratelimit-limit': '60',
      });
      expect(await total()).toBe(before + 1);
    });

    test('answers a request without a body before garbage in the same packet', async () => {
      expect(codes(await over(`${get(host)}garbage\r\n\r\n`))).toEqual([200, 400]);
    });

    test('answers every request before the broken one, in order', async () => {
      const bad = '{"priority":1}';
      const answers = await over(`${post() + post('', bad) + post() + get(host)}garbage\r\n\r\n`);
      expect(codes(answers)).toEqual([201, 400, 201, 200, 400]);
      expect(answers[4]).toMatchObject(MALFORMED);
    });

    test.each([
      ['garbage', () => 'garbage\r\n\r\n'],
      ['a request', () => post()],
    ])('answers a request with Connection: close, and ignores %s after it', async (_what, rest) => {
      const before = await total();
      expect(await over(post('Connection: close\r\n') + rest())).toMatchObject([CREATED]);
      expect(await total()).toBe(before + 1);
    });

    test('answers a request with broken chunks, after the requests before it', async () => {
      const head =
        `POST /v1/transfers HTTP/1.1\r\n${host}${authorization()}` +
        'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
      expect(await over(`${post() + head}zz\r\n`)).toMatchObject([CREATED, MALFORMED]);
    });

    test('answers a client that has closed its sending side', async () => {
      const connection =
        kind === 'plain'
          ? { port: api.port, end: true }
          : { port: encrypted.port, caPem: certificates.caPem, end: true };
      expect(await exchange(connection, post())).toMatchObject([CREATED]);
      expect(await exchange(connection, post() + get(host))).toMatchObject([
        CREATED,
        { status: 200 },
      ]);
      expect(await exchange(connection, post().slice(0, -1))).toMatchObject([MALFORMED]);
    });
  });

  test('answers a request that was rejected before its broken body once', async () => {
    const socket = connect(api.port, '127.0.0.1');
    let text = '';
    socket.on('data', (data) => {
      text += data;
    });
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(`POST /v1/transfers HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`);
    await expect.poll(() => text).toContain('api_key_missing');
    socket.write('zz\r\n');
    await closed;
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401']);
  });

  test('is closed by the server although the client continues to send', async () => {
    const socket = connect(api.port, '127.0.0.1');
    socket.on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const timer = setInterval(() => socket.write('garbage\r\n\r\n'), 20);
    expect(await Promise.race([closed.then(() => 'closed'), sleep(10_000, 'open')])).toBe('closed');
    clearInterval(timer);
  });

  const LARGE = 'x'.repeat(1 << 20);
  test.each([
    ['that is too large', 'payload_too_large', () => post('', LARGE)],
    [
      'that is too large, and closes then',
      'payload_too_large',
      () => post('Connection: close\r\n', LARGE),
    ],
    [
      'of another type, and closes then',
      'unsupported_media_type',
      () => post('Connection: close\r\n', LARGE).replace('application/json', 'text/plain'),
    ],
  ])('takes all of a body %s', async (_what, code, request) => {
    const text = request();
    const socket = connect({ port: api.port, host: '127.0.0.1', allowHalfOpen: true });
    const errors: Error[] = [];
    socket.on('error', (error) => errors.push(error));
    let answer = '';
    socket.on('data', (data) => {
      answer += data;
    });
    for (let sent = 0; sent < text.length; sent += 1 << 14) {
      socket.write(text.slice(sent, sent + (1 << 14)));
      await sleep(5);
    }
    await expect.poll(() => answer).toContain(`"${code}"`);
    socket.destroy();
    expect(errors).toEqual([]);
  });

  test.each([
    ['plain', () => api.port],
    ['encrypted', () => encrypted.port],
  ])('answers before the rest of a body that is too large (%s)', async (kind, port) => {
    const connection = { port: port(), host: '127.0.0.1', ca: certificates.caPem };
    const socket = kind === 'plain' ? connect(connection) : connectTls(connection);
    const errors: Error[] = [];
    socket.on('error', (error) => errors.push(error));
    let answer = '';
    socket.on('data', (data) => {
      answer += data;
    });
    const ended = once(socket, 'end');
    const text = post('', LARGE);
    const sent = text.length - LARGE.length / 2;
    socket.write(text.slice(0, sent));
    await expect
      .poll(() => answer, { timeout: 20_000 })
      .toMatch(/^HTTP\/1.1 413 .*"payload_too_l/s);
    // The rest may be under way already.
    socket.write(text.slice(sent));
    await ended;
    expect(errors).toEqual([]);
  });

  test('logs no service error when a client goes away within its body', async () => {
    const before = api.logged.length;
    const socket = connect(api.port, '127.0.0.1');
    socket.write(post().slice(0, -5));
    await sleep(100);
    socket.resetAndDestroy();
    await sleep(500);
    const levels = api.logged.slice(before).map((line) => JSON.parse(line).level);
    expect(levels.filter((level) => level > 30)).toEqual([]);
  });

  test.each([
    ['no Host', ''],
    ['two Hosts', 'Host: a.example\r\nHost: b.example\r\n'],
    ['one Host twice', 'Host: a.example\r\nhost: a.example\r\n'],
    ['a Host with a path', 'Host: a.example/v1\r\n'],
    ['a Host with a space', 'Host: a b\r\n'],
    ['a Host with a user', 'Host: me@a.example\r\n'],
    ['a Host with an invalid port', 'Host: a.example:http\r\n'],
    ['a Host with a port above 65535', 'Host: a.example:99999\r\n'],
    ['a Host with a broken escape', 'Host: %zz\r\n'],
  ])('rejects %s, for every method and path', async (_what, headers) => {
    const rest = `${authorization()}${headers}\r\n`;
    for (const path of ['/v1/transfers', '/v1/nothing', '/health/live', '/docs']) {
      const [answer] = await send(`GET ${path} HTTP/1.1\r\n${rest}`);
      expect(answer).toMatchObject({ ...MALFORMED, headers: { connection: 'close' } });
      expect(JSON.parse(answer?.body ?? '').detail).toContain('Host');
    }
    // Without a key, or with a wrong one, the connection must not stay open either.
    for (const key of ['', 'Authorization: Bearer wb_x\r\n'])
      expect(await send(`GET /v1/transfers HTTP/1.1\r\n${key}${headers}\r\n`)).toMatchObject([
        { ...MALFORMED, headers: { connection: 'close' } },
      ]);
    expect(await send(`OPTIONS /v1/transfers HTTP/1.1\r\n${rest}`)).toMatchObject([MALFORMED]);
    expect(await send(`HEAD /v1/transfers HTTP/1.1\r\n${rest}`)).toMatchObject([
      { status: 400, body: '', headers: { 'x-ratelimit-limit': '10000' } },
    ]);
    const before = await total();
    const target = 'POST http://waybill.example.com/v1/transfers HTTP/1.1\r\n';
    const body = `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
    expect(await send(`${target}${authorization()}${headers}${body}`)).toMatchObject([MALFORMED]);
    expect(await total()).toBe(before);
  });

  test.each([
    'waybill.example.com',
    'waybill.example.com:8080',
    '127.0.0.1:8080',
    '[::1]:8080',
    'a_b.example',
    'xn--bcher-kva.example.',
    '',
  ])('accepts the Host "%s"', async (name) => {
    expect(await send(get(`Host: ${name}\r\nConnection: close\r\n`))).toMatchObject([
      { status: 200 },
    ]);
  });

  test('requires no Host in HTTP/1.0', async () => {
    expect(await send(get('', '/v1/transfers', '1.0'))).toMatchObject([{ status: 200 }]);
    expect(await send(get('Host: a\r\nHost: b\r\n', '/v1/transfers', '1.0'))).toMatchObject([
      MALFORMED,
    ]);
  });

  test.each([
    'http://other.example/v1/transfers',
    'HTTP://other.example:8080/v1/transfers?limit=1',
  ])('accepts the absolute URL %s as target', async (target) => {
    expect(await send(get(`${host}Connection: close\r\n`, target))).toMatchObject([
      { status: 200 },
    ]);
  });

  test('requests the body that a client announces with Expect', async () => {
    const text = post('Connection: close\r\nExpect: 100-continue\r\n');
    const head = text.slice(0, text.indexOf('\r\n\r\n') + 4);
    const socket = connect(api.port, '127.0.0.1');
    let answer = '';
    socket.on('data', (data) => {
      answer += data;
    });
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(head);
    await expect.poll(() => answer).toContain('HTTP/1.1 100 Continue\r\n\r\n');
    socket.write(text.slice(head.length));
    await closed;
    expect(answer).toContain('HTTP/1.1 201 Created');
  });

  test.each([
    ['that is too large', 413, '/v1/transfers', 9_999_999],
    ['for no route', 404, '/nothing', 99],
    ['without a key', 401, '/v1/transfers', 99],
  ])('does not request a body %s', async (what, status, path, length) => {
    const [answer] = await send(
      `POST ${path} HTTP/1.1\r\n${host}${what === 'without a key' ? '' : authorization()}` +
        `Content-Type: application/json\r\nContent-Length: ${length}\r\n` +
        'Expect: 100-continue\r\n\r\n',
    );
    expect(answer).toMatchObject({ status, headers: { connection: 'close' } });
  });

  test('ignores another expectation, and an upgrade that it does not offer', async () => {
    const close = 'Connection: close\r\n';
    expect(await send(post(`${close}Expect: tea\r\n`))).toMatchObject([CREATED]);
    const upgrade = post('Connection: Upgrade\r\nUpgrade: h2c\r\n');
    expect(await send(upgrade + post(close))).toMatchObject([
      { status: 201, headers: { connection: 'close' } },
    ]);
    const rejected = upgrade.replace(authorization(), '');
    expect(await send(rejected)).toMatchObject([{ status: 401, headers: { connection: 'close' } }]);
  });

  test('answers CONNECT, and OPTIONS for the whole server', async () => {
    expect(await send(`CONNECT a.example:80 HTTP/1.1\r\n${host}\r\n`)).toMatchObject([
      { ...MALFORMED, body: expect.stringContaining('not a proxy') },
    ]);
    expect(await send(`OPTIONS * HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)).toMatchObject([
      { status: 204, headers: { allow: 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT' } },
    ]);
  });

  test.each(['gzip', 'br', 'identity, gzip', 'aws-chunked'])(
    'rejects a body with Content-Encoding: %s',
    async (coding) => {
      const before = await total();
      const text = post(`Connection: close\r\nContent-Encoding: ${coding}\r\n`);
      expect(await send(text)).toMatchObject([
        {
          status: 415,
          headers: { accept: 'application/json', 'accept-encoding': 'identity' },
          body: expect.stringContaining('"unsupported_media_type"'),
        },
      ]);
      expect(await total()).toBe(before);
    },
  );

  test.each(['Identity', ''])('accepts a body with Content-Encoding: %s', async (coding) => {
    const text = post(`Connection: close\r\nContent-Encoding: ${coding}\r\n`);
    expect(await send(text)).toMatchObject([CREATED]);
  });

  test.each(['gzip, chunked', 'identity, chunked'])(
    'ends after a request with Transfer-Encoding: %s, for every method and path',
    async (coding) => {
      const before = await total();
      const chunks = `\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
      const type = `Content-Type: application/json\r\nTransfer-Encoding: ${coding}\r\n`;
      for (const line of ['POST /v1/transfers', 'GET /v1/transfers', 'GET /health/live'])
        for (const key of [authorization(), ''])
          expect(await send(`${line} HTTP/1.1\r\n${host}${key}${type}${chunks}`)).toMatchObject([
            {
              status: 415,
              headers: { connection: 'close', 'accept-encoding': 'identity' },
              body: expect.stringContaining('"unsupported_media_type"'),
            },
          ]);
      expect(await total()).toBe(before);
    },
  );

  test.each([
    'Transfer-Encoding: gzip',
    'Transfer-Encoding: chunked, gzip',
    'Transfer-Encoding: chunked\r\nContent-Length: 5',
    'Content-Length: 5\r\nTransfer-Encoding: chunked',
    'Content-Length: 5\r\nContent-Length: 6',
    'Content-Length: -5',
  ])('says that the length of a body is not clear with %j', async (length) => {
    const type = `Content-Type: application/json\r\n${length}\r\n`;
    const text = `POST /v1/transfers HTTP/1.1\r\n${host}${authorization()}${type}\r\n`;
    expect(await send(`${text}0\r\n\r\n`)).toMatchObject([
      {
        status: 400,
        headers: { connection: 'close' },
        body: expect.stringContaining('The length of the body is not clear'),
      },
    ]);
  });

  test('accepts a body with Transfer-Encoding: Chunked', async () => {
    const head = post('Connection: close\r\nTransfer-Encoding: Chunked\r\n', '');
    const text = head.replace('Content-Length: 0\r\n', '');
    const chunks = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
    expect(await send(text + chunks)).toMatchObject([CREATED]);
  });

  test('rejects duplicate keys, and names them', async () => {
    const before = await total();
    const json = BODY.replace(
      '{',
      '{"metadata":{"order":"1","order":"2"},"source_uri":"sftp://x/",',
    );
    expect(
      await api.ask('POST', '/v1/transfers', {
        body: json,
        headers: { 'content-type': 'application/json' },
      }),
    ).toMatchObject({
      status: 400,
      body: {
        code: 'validation_failed',
        errors: [
          { field: 'metadata.order', message: 'must be given once' },
          { field: 'source_uri', message: 'must be given once' },
        ],
      },
    });
    expect(await total()).toBe(before);
  });

  test('answers every mutation of a valid request', { timeout: 120_000 }, async () => {
    const mutation = fc.record({
      at: fc.nat(),
      removed: fc.nat(12),
      added: fc.oneof(
        fc.string({ unit: 'binary-ascii', maxLength: 12 }),
        fc.constantFrom(
          '\r\n',
          '\n',
          '\r\n\r\n',
          '\0',
          ' ',
          ':',
          '\r\nTransfer-Encoding: chunked',
          post(),
        ),
      ),
    });
    await fc.assert(
      fc.asyncProperty(mutation, async ({ at, removed, added }) => {
        const first = post();
        const second = post('Connection: close\r\n');
        const start = at % second.length;
        const broken = second.slice(0, start) + added + second.slice(start + removed);
        const answers = await exchange({ port: api.port, end: true }, first + broken);
        expect(answers[0]?.status).toBe(201);
        for (const { status } of answers) {
          expect(status).toBeGreaterThanOrEqual(100);
          expect(status).toBeLessThan(500);
        }
      }),
      { numRuns: 150 },
    );
    expect(api.logged.filter((line) => JSON.parse(line).level >= 50)).toEqual([]);
  });
});
