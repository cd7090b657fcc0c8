import { once } from 'node:events';
import net from 'node:net';
import tls from 'node:tls';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/http/api.ts';
import { createCertificates } from '../support/network/certificates.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

describeWithPostgres('health, metrics and documentation', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

  test('the service is live', async () => {
    expect(await api.ask('GET', '/health/live', { key: null })).toMatchObject({
      status: 200,
      body: { status: 'live' },
    });
  });

  test.each(['/health/live', '/health/ready', '/metrics'])(
    '%s ignores what a probe adds to its address',
    async (path) => {
      expect(await api.ask('GET', `${path}?probe=lb-1`)).toMatchObject({ status: 200 });
    },
  );

  test('the service is ready or reports why it is not', async () => {
    expect(await api.ask('GET', '/health/ready', { key: null })).toMatchObject({
      status: 200,
      body: { status: 'ready' },
    });
    const checks = { projections: { ok: false, detail: 'transfers does not keep up' } };
    const server = await api.startServer({
      health: { ready: async () => ({ ready: false, checks }) },
    });
    const answer = await server.ask('GET', '/health/ready', { key: null });
    expect(answer).toMatchObject({ status: 503, body: { status: 'not_ready', checks } });
    expect(answer.headers.get('content-type')).toContain('application/json');
  });

  test('metrics are shown to authorized clients', async () => {
    await api.ask('GET', '/v1/transfers');
    expect(await api.ask('GET', '/metrics', { key: null })).toMatchObject({ status: 401 });
    const answer = await api.ask('GET', '/metrics');
    expect(answer.headers.get('content-type')).toContain('text/plain');
    expect(answer.body).toMatch(
      /waybill_http_request_duration_seconds_count\{method="GET",route="\/v1\/transfers",status="200"\} \d/,
    );
  });

  test('the documentation loads nothing from elsewhere', async () => {
    const page = await api.ask('GET', '/docs', { key: null });
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain(
      "default-src 'none'; script-src 'self'",
    );
    expect(page.body).not.toMatch(/https?:\/\//);
    expect(page.body).not.toMatch(/<script(?![^>]*\bsrc=)/);
    const assets = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(
      ([, path]) => new URL(path as string, `${api.url}/docs`).pathname,
    );
    expect(assets.length).toBeGreaterThan(4);
    for (const path of assets)
      expect(await api.ask('GET', path, { key: null })).toMatchObject({ status: 200 });
    expect((await api.ask('GET', '/docs/json', { key: null })).body.openapi).toBe('3.1.0');
    for (const missing of ['/docs/static/missing', '/docs/static/..%2fpackage.json'])
      expect(await api.ask('GET', missing, { key: null })).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
  });

  test.each(['/docs/static/index.css', '/console'])(
    'the file at %s is sent whole, or not at all if its client asks for another one',
    async (path) => {
      const ask = (name: string, value: string) =>
        api.ask('GET', path, { key: null, headers: { [name]: value } });
      const { body } = await api.ask('GET', path, { key: null });
      for (const range of ['bytes=0-3', 'bytes=99999999-']) {
        const whole = await ask('range', range);
        expect(whole).toMatchObject({ status: 200, body });
        expect(whole.headers.get('accept-ranges')).toBeNull();
      }
      for (const condition of ['if-match', 'if-unmodified-since'])
        expect(await ask(condition, 'Thu, 01 Jan 1970 00:00:00 GMT')).toMatchObject({
          status: 412,
          body: { code: 'precondition_failed', detail: expect.stringMatching(/^The file/) },
        });
    },
  );

  test('requests in progress are answered during a shutdown', async () => {
    const { commands } = api.installation;
    const appended = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const append: typeof commands.store.append = async (...args) => {
      const result = await commands.store.append(...args);
      appended.resolve();
      await goOn.promise;
      return result;
    };
    const store = { ...commands.store, append };
    const server = await api.startServer({ commands: { ...commands, store } });
    const json = {
      source_uri: 'sftp://files.example.com/out/report.csv',
      destination_uri: 's3://archive/in/',
    };
    const answer = server.ask('POST', '/v1/transfers', { json });
    await appended.promise;
    const closed = server.app.close();
    goOn.resolve();
    expect(await answer).toMatchObject({ status: 201 });
    await closed;
    await expect(server.ask('GET', '/v1/transfers')).rejects.toThrow();
  });

  test.for(['http', 'https'])(
    'an idle %s connection does not delay a shutdown',
    async (scheme, context) => {
      const certificates =
        scheme === 'https'
          ? await createCertificates().catch((error: Error) => context.skip(error.message))
          : null;
      const server = await api.startServer(certificates ? { tls: certificates.valid } : {});
      const spare = certificates
        ? tls.connect({ port: server.port, host: '127.0.0.1', ca: certificates.caPem })
        : net.connect(server.port, '127.0.0.1');
      spare.on('error', () => undefined);
      await once(spare, certificates ? 'secureConnect' : 'connect');
      await server.app.close();
      spare.destroy();
    },
  );

  test('the service speaks https if it has a certificate', async (context) => {
    const certificates = await createCertificates().catch((error: Error) =>
      context.skip(error.message),
    );
    const server = await api.startServer({ tls: certificates.valid });
    expect(server.url).toMatch(/^https:/);
    const dispatcher = new Agent({ connect: { ca: certificates.caPem } });
    try {
      const { statusCode, headers } = await request(`${server.url}/v1/transfers`, {
        dispatcher,
        headers: { authorization: `Bearer ${api.key}` },
      });
      expect(statusCode).toBe(200);
      expect(headers['x-ratelimit-limit']).toBe('10000');
    } finally {
      await dispatcher.close();
    }
  });
});
