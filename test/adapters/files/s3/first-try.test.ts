import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { upload } from '../contract.ts';
import { endpointOn, type Given } from './endpoint-on.ts';

/** Servers whose answer to the first try of a request sends it to the SDK. */

let server: Server | undefined;
let endpoint: FileEndpoint | undefined;
const content = Buffer.from('the content');
const etag = `"${createHash('md5').update(content).digest('hex')}"`;

afterEach(async () => {
  await endpoint?.close();
  server?.close();
  server?.closeAllConnections();
});

/** Returns the headers of the requests that the server gets. */
async function serving(
  answer: (number: number, request: IncomingMessage, response: ServerResponse) => void,
  given: Given = {},
) {
  const requests: IncomingMessage[] = [];
  server = createServer((request, response) => {
    const number = requests.push(request);
    request.resume().on('end', () => answer(number, request, response));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const endpointUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  endpoint = endpointOn(
    { endpointUrl, accessKeyId: 'id', secretAccessKey: 'secret', region: 'us-east-1' },
    given,
  );
  return { endpoint, requests };
}

const fails = (response: ServerResponse, status: number, code: string, headers = {}) =>
  response
    .writeHead(status, { 'content-type': 'application/xml', ...headers })
    .end(`<Error><Code>${code}</Code><Message>${code} it is</Message></Error>`);
const bySdk = ({ headers }: IncomingMessage) => 'amz-sdk-request' in headers;

test('a success needs no request of the SDK', async () => {
  const { endpoint, requests } = await serving((_number, _request, response) =>
    response.writeHead(200, { etag }).end(),
  );
  await upload(endpoint, 'key', content);
  expect(requests.map(bySdk)).toEqual([false]);
});

test('the SDK retries, and the first try counts', async () => {
  const { endpoint, requests } = await serving((number, _request, response) =>
    number < 3 ? fails(response, 503, 'SlowDown') : response.writeHead(200, { etag }).end(),
  );
  await upload(endpoint, 'key', content);
  expect(requests.map(bySdk)).toEqual([false, true, true]);
});

test('no more than three tries are sent', async () => {
  const { endpoint, requests } = await serving((_number, request) => request.socket.destroy());
  await expect(upload(endpoint, 'key', content)).rejects.toMatchObject({
    code: 'connection_failed',
  });
  expect(requests.map(bySdk)).toEqual([false, true, true]);
});

test('the error of an answer that is final has its text', async () => {
  const { endpoint, requests } = await serving((_number, _request, response) =>
    fails(response, 403, 'AccessDenied'),
  );
  await expect(upload(endpoint, 'key', content)).rejects.toMatchObject({
    code: 'permission_denied',
    message: 'key: AccessDenied it is (AccessDenied)',
  });
  expect(requests.map(bySdk)).toEqual([false]);
});

test('a wrong clock is corrected for later first tries', async () => {
  const hour = 3_600_000;
  const { endpoint, requests } = await serving((_number, { headers }, response) => {
    const date = { date: new Date(Date.now() + hour).toUTCString() };
    const [, day, time] = /^(\d{8})T(\d{6})Z$/.exec(String(headers['x-amz-date'])) ?? [];
    const signedAt = Date.parse(
      `${day}T${time}Z`.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'),
    );
    if (signedAt < Date.now() + hour / 2) fails(response, 403, 'RequestTimeTooSkewed', date);
    else response.writeHead(200, { etag, ...date }).end();
  });
  await upload(endpoint, 'first', content);
  await upload(endpoint, 'second', content);
  expect(requests.map(bySdk)).toEqual([false, true, false]);
});

test('a header that must be encoded is for the SDK alone', async () => {
  const { endpoint, requests } = await serving(
    (_number, _request, response) => response.writeHead(200, { etag }).end(),
    { settings: { storage_class: 'KÜHL' } },
  );
  await upload(endpoint, 'key', content);
  expect(requests.map(bySdk)).toEqual([true]);
});
