import { request } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

interface Raw {
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

describeWithPostgres('answers', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi();
    const create = () =>
      api.ask('POST', '/v1/transfers', {
        json: { source_uri: 's3://archive/a.csv', destination_uri: 's3://archive/in/' },
      });
    for (let i = 0; i < 8; i++) expect(await create()).toMatchObject({ status: 201 });
  });
  afterAll(() => api?.close());

  /** Sends a request; node:http returns the body as it came. */
  function get(path: string, encoding?: string, method = 'GET'): Promise<Raw> {
    const headers = {
      authorization: `Bearer ${api.key}`,
      ...(encoding !== undefined && { 'accept-encoding': encoding }),
    };
    return new Promise((resolve, reject) => {
      request(`${api.url}${path}`, { method, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('end', () =>
          resolve({ headers: response.headers, body: Buffer.concat(chunks) }),
        );
      })
        .on('error', reject)
        .end();
    });
  }

  test.each(['/v1/transfers', '/v1/openapi.json', '/docs/json'])(
    'of %s are compressed if asked',
    async (path) => {
      const plain = await get(path);
      expect(plain.headers['content-encoding']).toBeUndefined();
      const whole = JSON.parse(plain.body.toString());
      for (const [asked, encoding, decode] of [
        ['gzip, deflate, br', 'br', brotliDecompressSync],
        ['gzip', 'gzip', gunzipSync],
        ['br;q=0.5, gzip', 'gzip', gunzipSync],
      ] as const) {
        const { headers, body } = await get(path, asked);
        expect(headers).toMatchObject({
          'content-encoding': encoding,
          vary: expect.stringContaining('accept-encoding'),
        });
        expect(body.length).toBeLessThan(plain.body.length / 2);
        expect(JSON.parse(decode(body).toString())).toEqual(whole);
      }
      for (const asked of ['identity', 'zstd', 'br;q=0, gzip;q=0', '']) {
        const { headers, body } = await get(path, asked);
        expect(headers['content-encoding']).toBeUndefined();
        expect(body.length).toBe(plain.body.length);
      }
    },
  );

  test.each([
    ['/v1/openapi.json', 'application/json'],
    ['/docs/json', 'application/json'],
    ['/docs/yaml', 'application/yaml'],
  ])('of %s are not sent to a client that has them', async (path, type) => {
    const { headers, body } = await get(path, 'gzip');
    expect(headers).toMatchObject({ 'content-type': expect.stringContaining(type) });
    expect(body.length).toBeLessThan(100_000);
    const asked = (tags: string) =>
      api.ask('GET', path, { key: null, headers: { 'if-none-match': tags } });
    const known = await asked(`"other", ${headers.etag}`);
    expect(known).toMatchObject({ status: 304, body: '' });
    expect(known.headers.get('etag')).toBe(headers.etag);
    expect((await asked('*')).status).toBe(304);
    expect((await asked('"other"')).status).toBe(200);
  });

  test('to HEAD have the headers of GET', async () => {
    for (const encoding of [undefined, 'gzip']) {
      const whole = await get('/v1/transfers', encoding);
      const head = await get('/v1/transfers', encoding, 'HEAD');
      expect(head.body).toHaveLength(0);
      for (const name of ['content-type', 'content-encoding', 'content-length', 'vary'])
        expect(head.headers[name], name).toBe(whole.headers[name]);
    }
  });

  test('that are small, or that arrive as things happen, stay plain', async () => {
    const { headers } = await get('/v1/webhooks', 'gzip');
    expect(headers['content-encoding']).toBeUndefined();
    const exported = await get('/v1/events', 'gzip');
    expect(exported.headers['content-encoding']).toBeUndefined();
    expect(exported.body.length).toBeGreaterThan(2_000);

    const { key } = await api.createKey(['admin']);
    const stopping = new AbortController();
    const response = await fetch(`${api.url}/v1/transfers/live`, {
      headers: { authorization: `Bearer ${key}`, 'accept-encoding': 'gzip, br' },
      signal: stopping.signal,
    });
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(response.headers.get('content-encoding')).toBeNull();
    expect(Buffer.from(value!).toString()).toMatch(/^event: snapshot\ndata: \{/);
    stopping.abort();
  });

  test('to requests with a Content-Encoding are rejections, as before', async () => {
    const answer = await api.ask('POST', '/v1/transfers', {
      headers: { 'content-encoding': 'gzip', 'content-type': 'application/json' },
      body: '{}',
    });
    expect(answer).toMatchObject({ status: 415 });
  });
});
