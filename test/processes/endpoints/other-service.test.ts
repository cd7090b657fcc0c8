import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openFileEndpoint } from '../../../src/adapters/files/open.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { testEndpoint } from '../../../src/processes/endpoints/endpoint-test.ts';
import { accessOf } from '../../../src/processes/endpoints/open-endpoint.ts';

const PAGE =
  '<!DOCTYPE html><html><head><meta charset="utf-8"><title>Welcome</title></head><body><p>It works<br></body></html>';

const ANSWERS: [what: string, status: number, type: string, body: string][] = [
  ['a web page', 200, 'text/html', PAGE],
  ['a page of XHTML', 200, 'application/xhtml+xml', '<html><body><p>It works</p></body></html>'],
  ['an empty answer', 200, 'text/plain', ''],
  ['JSON', 200, 'application/json', '{"status":"ok"}'],
  ['a page that says 404', 404, 'text/html', PAGE],
  ['an empty 404', 404, 'text/plain', ''],
  ['a page that says 403', 403, 'text/html', PAGE],
  ['a page that asks to sign in', 401, 'text/html', PAGE],
  ['a redirect to a page', 302, 'text/html', ''],
];

describe('the test of an endpoint', () => {
  let server: Server;
  let url: string;
  let answer: (typeof ANSWERS)[number];
  beforeAll(async () => {
    server = createServer((_request, response) => {
      const [, status, type, body] = answer;
      response.writeHead(status, { 'content-type': type, location: '/login' }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  const requests = () => ({
    s3: {
      protocol: 's3',
      bucket: 'archive',
      endpoint_url: url,
      force_path_style: true,
      access_key_id: 'id',
      secret_access_key: 'secret',
    },
    azure: {
      protocol: 'azure',
      account: 'archive',
      container: 'archive',
      endpoint_url: `${url}/archive`,
      account_key: Buffer.alloc(32).toString('base64'),
    },
  });

  async function signIn(protocol: 's3' | 'azure') {
    const { definition, credentials } = accessOf(
      endpointRequest.parse({ name: 'patient', ...requests()[protocol] }),
    );
    const endpoint = await openFileEndpoint(definition, credentials);
    const { steps } = await testEndpoint(
      { settings: definition.settings, endpoint },
      () => undefined,
    );
    return steps.slice(2);
  }

  describe.each([
    ['s3', 'is not an S3 service'],
    ['azure', 'is not Azure Blob Storage'],
  ] as const)('of %s', (protocol, words) => {
    test.each(ANSWERS)('recognizes another service by %s', async (...given) => {
      answer = given;
      expect(await signIn(protocol)).toEqual([
        {
          step: 'sign_in',
          ok: false,
          ms: expect.any(Number),
          code: 'connection_failed',
          message: expect.stringContaining(`${new URL(url).host} ${words}: it answered with`),
          advice: expect.stringContaining('Check `endpoint_url`'),
        },
      ]);
    });

    test('does not blame the service if a proxy may have answered', async () => {
      answer = ['a proxy', 502, 'text/html', PAGE];
      expect(await signIn(protocol)).toMatchObject([
        { step: 'sign_in', ok: true },
        { step: 'list', code: 'connection_failed', message: 'archive: HTTP status 502' },
      ]);
    });
  });
});
