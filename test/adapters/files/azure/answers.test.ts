import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createAzureEndpoint } from '../../../../src/adapters/files/azure/endpoint.ts';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { options, upload } from '../contract.ts';

/**
 * Answers that Azurite never gives, as the service's documentation words them, and one that only a
 * full Azurite gives.
 */

const never = new AbortController().signal;
const servers: Server[] = [];
const open: FileEndpoint[] = [];

afterEach(async () => {
  for (const endpoint of open.splice(0)) await endpoint.close();
  for (const server of servers.splice(0)) server.close();
});

/** In the headers of an answer: the scheme, host and port of the server. */
const ORIGIN = '{origin}';

interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: string;
}

/**
 * Returns an endpoint on a server that gives these answers in turn, the last one repeatedly, and
 * the requests that it got.
 */
async function answering(
  ...answers: [Answer, ...Answer[]]
): Promise<{ endpoint: FileEndpoint; asked: IncomingMessage[] }> {
  const asked: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    const {
      status,
      headers = {},
      body = '',
    } = answers[Math.min(asked.push(request), answers.length) - 1] as Answer;
    const all = { 'content-length': Buffer.byteLength(body), ...headers };
    for (const [name, value] of Object.entries(all))
      response.setHeader(name, String(value).replace(ORIGIN, origin()));
    request
      .resume()
      .on('end', () => response.writeHead(status).end(request.method === 'HEAD' ? '' : body));
  }).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  const origin = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const endpoint = createAzureEndpoint({
    settings: {
      protocol: 'azure',
      account: 'account',
      container: 'container',
      prefix: '',
      endpoint_url: `${origin()}/`,
      ca_pem: null,
    },
    credentials: { sas_token: 'sp=rcw&sig=canary' },
    maxConnections: 2,
  });
  open.push(endpoint);
  return { endpoint, asked };
}

function refusal(status: number, code: string, message: string): Answer {
  const body = `\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>${code}</Code><Message>${message}\nRequestId:1\nTime:2</Message></Error>`;
  return { status, headers: { 'content-type': 'application/xml', 'x-ms-error-code': code }, body };
}

test('an archived blob says what to do about it', async () => {
  const { endpoint } = await answering(refusal(409, 'BlobArchived', 'Not permitted.'));
  await expect(endpoint.openSource('blob', never)).rejects.toMatchObject({
    code: 'permission_denied',
    message: expect.stringMatching(/the blob is archived: change its tier/),
  });
});

test.each([
  [412, 'LeaseIdMissing'],
  [409, 'LeaseIdMismatchWithBlobOperation'],
])('%i %s says what to do about the lease', async (status, code) => {
  const { endpoint } = await answering(refusal(status, code, 'There is a lease.'));
  await expect(put(endpoint)).rejects.toMatchObject({
    code: 'permission_denied',
    message: expect.stringMatching(/another program holds a lease .*There is a lease/),
  });
});

const put = (endpoint: FileEndpoint) => upload(endpoint, 'blob', Buffer.from('content'));

test.each([
  [
    409,
    'BlobImmutableDueToPolicy',
    'This operation is not permitted as the blob is immutable due to a policy.',
    'permission_denied',
  ],
  [
    403,
    'AuthorizationPermissionMismatch',
    'This request is not authorized to perform this operation.',
    'permission_denied',
  ],
  [
    403,
    'AuthorizationFailure',
    'This request is not authorized to perform this operation.',
    'permission_denied',
  ],
  [403, 'AccountIsDisabled', 'The specified account is disabled.', 'permission_denied'],
  [
    409,
    'ContainerBeingDeleted',
    'The specified container is being deleted. Try operation later.',
    'destination_not_found',
  ],
  [
    413,
    'RequestBodyTooLarge',
    'The request body is too large and exceeds the maximum permissible limit.',
    'file_too_large',
  ],
  [
    400,
    'Md5Mismatch',
    'The MD5 value specified in the request did not match with the MD5 value calculated ' +
      'by the server.',
    'checksum_mismatch',
  ],
  [
    409,
    'MemoryExtentStoreAtSizeLimit',
    'Cannot add an extent chunk to the in-memory store.',
    'disk_full',
  ],
  [400, 'InvalidInput', 'One of the request inputs is not valid.', 'internal_error'],
])('%i %s is reported in the words of the service', async (status, code, message, expected) => {
  const { endpoint, asked } = await answering(refusal(status, code, message));
  await expect(put(endpoint)).rejects.toMatchObject({
    code: expected,
    step: 'commit',
    message: `blob: ${message} (${code})`,
  });
  expect(asked.length).toBe(1);
});

test.each([
  [
    403,
    'AuthenticationFailed',
    'Server failed to authenticate the request.</Message><AuthenticationErrorDetail>The MAC ' +
      'signature is not the same as any computed signature: sig=canary' +
      '</AuthenticationErrorDetail><Message>',
  ],
  [
    403,
    'AuthenticationFailed',
    'Server failed to authenticate the request. Signature did not match: sig=canary',
  ],
  [
    401,
    'NoAuthenticationInformation',
    'Server failed to authenticate the request. Please refer to the information in the ' +
      'www-authenticate header.',
  ],
  [
    400,
    'InvalidAuthenticationInfo',
    'Authentication information is not given in the correct format.',
  ],
])('%i %s has one message', async (status, code, message) => {
  const { endpoint } = await answering(refusal(status, code, message));
  await expect(put(endpoint)).rejects.toMatchObject({
    code: 'auth_failed',
    step: 'sign_in',
    message: 'Authentication failed',
  });
  await expect(endpoint.openSource('blob', never)).rejects.toMatchObject({
    code: 'auth_failed',
    message: 'Authentication failed',
  });
});

test.each([
  'Signature not valid in the specified time frame: Start [Fri, 01 May 2026 08:00:00 GMT] - ' +
    'Expiry [Fri, 01 May 2026 09:00:00 GMT] - Current [Fri, 01 May 2026 09:00:01 GMT]',
  "Request date header too old: 'Fri, 01 May 2026 08:00:00 GMT'",
])('403 AuthenticationFailed says that the time is wrong: %s', async (detail) => {
  const answer = refusal(403, 'AuthenticationFailed', 'Server failed to authenticate the request.');
  const body = answer.body?.replace(
    '</Message>',
    `</Message><AuthenticationErrorDetail>${detail}</AuthenticationErrorDetail>`,
  );
  const { endpoint } = await answering({ ...answer, body } as Answer);
  await expect(endpoint.list('', never)).rejects.toMatchObject({
    code: 'auth_failed',
    step: 'sign_in',
    message: `Authentication failed: ${detail}`,
  });
});

test.each([
  [409, 'BlobBeingRehydrated', /retry the transfer when it is/],
  [409, 'InvalidBlobType', /has an append or page blob.*choose another name/],
  [409, 'BlockCountExceedsLimit', /attempts left as many blocks .*choose another name/],
  [409, 'BlobOperationNotSupported', /written with the Data Lake API.*remove it/],
  [400, 'InvalidUri', /takes no such name .*choose a shorter name/],
  [400, 'InvalidResourceName', /takes no such name .*choose a shorter name/],
  [400, 'OutOfRangeInput', /takes no such name .*correct the container of the endpoint/],
])('%i %s says what to do', async (status, code, words) => {
  const { endpoint } = await answering(refusal(status, code, 'Not permitted.'));
  await expect(put(endpoint)).rejects.toMatchObject({
    code: 'permission_denied',
    message: expect.stringMatching(words),
  });
});

test('a request to a service that is busy for a moment is retried', async () => {
  const { endpoint, asked } = await answering(
    refusal(
      503,
      'ServerBusy',
      'The server is currently unable to receive requests. Please retry your request.',
    ),
    refusal(
      500,
      'InternalError',
      'The server encountered an internal error. Please retry the request.',
    ),
    { status: 201 },
  );
  expect(await put(endpoint)).toEqual({
    size: 7,
    destinationChecksum: 'none',
    atomicReplace: true,
  });
  expect(asked.length).toBe(3);
});

test.each([
  [503, 'ServerBusy', 'timeout'],
  [500, 'InternalError', 'connection_failed'],
  [500, 'OperationTimedOut', 'timeout'],
])('%i %s is retried only a few times', async (status, code, expected) => {
  const { endpoint, asked } = await answering(refusal(status, code, 'Please retry.'));
  await expect(put(endpoint)).rejects.toMatchObject({
    code: expected,
    message: `blob: Please retry. (${code})`,
  });
  expect(asked.length).toBe(4);
});

test('a request that must not be carried out twice is sent once', async () => {
  const { endpoint, asked } = await answering(
    refusal(404, 'BlobNotFound', ''),
    refusal(503, 'ServerBusy', 'Please retry.'),
  );
  await expect(
    upload(endpoint, 'blob', Buffer.from('content'), { overwrite: false }),
  ).rejects.toMatchObject({ code: 'timeout' });
  expect(asked.map(({ method }) => method)).toEqual(['HEAD', 'PUT']);
});

test('an aborted request waits for no busy service', async () => {
  const { endpoint, asked } = await answering(refusal(503, 'ServerBusy', 'Please retry.'));
  const control = new AbortController();
  const file = await endpoint.openDestination('blob', options(0, { signal: control.signal }));
  const committing = file.commit({ size: 0, sha256: '' });
  committing.catch(() => {});
  while (asked.length < 2) await new Promise(setImmediate);
  control.abort();
  await expect(committing).rejects.toMatchObject({ name: 'FileError', message: 'Aborted' });
});

test.each([
  [
    'a page of a proxy',
    {
      status: 502,
      headers: { 'content-type': 'text/html' },
      body: '<html>/container/blob?sig=canary</html>',
    },
    'connection_failed',
  ],
  ['no content', { status: 507 }, 'disk_full'],
  [
    'a broken document',
    {
      status: 418,
      headers: { 'content-type': 'application/xml' },
      body: '<Error><Code>sig=canary',
    },
    'internal_error',
  ],
])('an answer with %s is reported by its status', async (_name, answer, code) => {
  const { endpoint } = await answering(answer);
  await expect(put(endpoint)).rejects.toMatchObject({
    code,
    message: `blob: HTTP status ${answer.status}`,
  });
});

test('the checksum in an answer is compared', async () => {
  const { endpoint } = await answering({
    status: 201,
    headers: { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' },
  });
  await expect(put(endpoint)).rejects.toMatchObject({ code: 'checksum_mismatch', step: 'commit' });
});

const opened: Answer = {
  status: 206,
  headers: { etag: '"1"', 'content-range': 'bytes 0-0/7' },
  body: 'c',
};

test.each([
  [
    'the whole blob in place of a range',
    { status: 200, headers: { etag: '"1"' }, body: 'content' },
    'source_changed',
  ],
  [
    'another range',
    { status: 206, headers: { etag: '"1"', 'content-range': 'bytes 1-6/8' }, body: 'ontent' },
    'source_changed',
  ],
  [
    'fewer bytes than announced',
    { status: 206, headers: { etag: '"1"', 'content-range': 'bytes 1-6/7' }, body: 'on' },
    'connection_failed',
  ],
  [
    'an error, because the blob has changed',
    refusal(412, 'ConditionNotMet', 'The condition specified is not met.'),
    'source_changed',
  ],
  [
    'an error, because the blob is gone',
    refusal(404, 'BlobNotFound', 'The specified blob does not exist.'),
    'source_changed',
  ],
  [
    'an error, because the blob is archived',
    refusal(409, 'BlobArchived', 'This operation is not permitted on an archived blob.'),
    'permission_denied',
  ],
] as [string, Answer, string][])(
  'a source that sends %s does not count as complete',
  async (_name, answer, code) => {
    const { endpoint } = await answering(opened, answer);
    const file = await endpoint.openSource('blob', never);
    await expect(file.read(0, new Uint8Array(7))).rejects.toMatchObject({
      name: 'FileError',
      code,
    });
  },
);

describe.each([
  ['a page', 'Back soon'],
  ['an empty page', ''],
])('%s of a proxy with status 200', (_name, body) => {
  const failed = { name: 'FileError', code: 'connection_failed' };

  test('is not the content of a blob', async () => {
    const { endpoint } = await answering({ status: 200, body });
    await expect(endpoint.openSource('blob', never)).rejects.toMatchObject(failed);
  });

  test('is not the answer to an upload', async () => {
    const { endpoint } = await answering({ status: 200, body });
    await expect(put(endpoint)).rejects.toMatchObject(failed);
  });

  test('is not a blob that must not be replaced', async () => {
    const { endpoint } = await answering({ status: 200, body });
    const kept = upload(endpoint, 'blob', Buffer.from('content'), { overwrite: false });
    await expect(kept).rejects.toMatchObject(failed);
  });

  test('is not another source', async () => {
    const { endpoint } = await answering({ status: 200, body });
    const identity = { size: body.length, version: '"1"' };
    const options = { transferId: newId('txr'), identity, moveTo: null, signal: never };
    await expect(endpoint.dispose('blob', options)).rejects.toMatchObject(failed);
  });
});

test('a blob that arrives whole with the first answer is requested once', async () => {
  const { endpoint, asked } = await answering({
    status: 206,
    headers: { etag: '"1"', 'content-range': 'bytes 0-6/7' },
    body: 'content',
  });
  const file = await endpoint.openSource('blob', never);
  const target = Buffer.alloc(7);
  await file.read(0, target);
  expect({ ...file.identity, readAtOnce: file.readAtOnce, content: target.toString() }).toEqual({
    size: 7,
    version: '"1"',
    readAtOnce: true,
    content: 'content',
  });
  expect(asked.length).toBe(1);
});

test('a service without ranges is asked only for the size', async () => {
  const { endpoint, asked } = await answering({
    status: 200,
    headers: { etag: '"1"' },
    body: 'content',
  });
  expect((await endpoint.openSource('blob', never)).identity).toEqual({ size: 7, version: '"1"' });
  expect(asked.at(-1)?.method).toBe('HEAD');
});

test('a folder of a hierarchical namespace is not a file', async () => {
  const { endpoint } = await answering(
    refusal(
      416,
      'InvalidRange',
      'The range specified is invalid for the current size of the resource.',
    ),
    { status: 200, headers: { etag: '"1"', 'x-ms-meta-hdi_isfolder': 'true' } },
  );
  await expect(endpoint.openSource('folder', never)).rejects.toMatchObject({
    code: 'source_not_found',
    message: 'folder is a directory',
  });
});

describe('a list', () => {
  const page = (blobs: string, nextMarker: string): Answer => ({
    status: 200,
    headers: { 'content-type': 'application/xml', 'x-ms-version': '2026-02-06' },
    body:
      '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="container">' +
      `<Blobs>${blobs}</Blobs><NextMarker>${nextMarker}</NextMarker></EnumerationResults>`,
  });
  const blob = (name: string, metadata = '') =>
    `<Blob><Name>${name}</Name><Properties><Last-Modified>Fri, 01 May 2026 08:00:00 GMT` +
    '</Last-Modified><Etag>1</Etag><Content-Length>2</Content-Length></Properties>' +
    `${metadata}</Blob>`;

  test('whose pages repeat their marker is an error', async () => {
    const { endpoint, asked } = await answering(page('', 'again'));
    await expect(endpoint.list('folder/', AbortSignal.timeout(5_000))).rejects.toMatchObject({
      code: 'connection_failed',
      message: expect.stringMatching(/^folder\/: .*repeats the marker/),
    });
    expect(asked.length).toBe(2);
  });

  test('requests only the page without metadata whose metadata cannot be read', async () => {
    const unreadable = '<Metadata><constructor>x</constructor></Metadata>';
    const { endpoint, asked } = await answering(
      page(blob('a'), 'second'),
      page(blob('b', unreadable), 'third'),
      page(blob('b'), 'third'),
      page(blob('c'), ''),
    );
    const listed = await endpoint.list('', never);
    expect(listed.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    const requested = asked.map(({ url }) => new URL(url ?? '', 'http://x').searchParams);
    expect(requested.map((each) => [each.get('marker'), each.get('include')])).toEqual([
      [null, 'metadata'],
      ['second', 'metadata'],
      ['second', null],
      ['third', 'metadata'],
    ]);
  });
});

test('every name is requested as it is', async () => {
  const { endpoint, asked } = await answering(opened);
  const names = ['a b+c', '100%', '%41', 'a#b?c=d&e', "it's", 'ends.', 'a//b', 'ü/文', '...'];
  for (const name of names) await endpoint.openSource(name, never);
  const paths = asked.map(({ url = '' }) =>
    decodeURIComponent(url.slice('/container/'.length, url.indexOf('?'))),
  );
  expect(paths).toEqual(names);
});

describe('a move that finds its copy', () => {
  const MD5 = Buffer.alloc(16, 'sum').toString('base64');
  const source: Answer = {
    status: 200,
    headers: { etag: '"1"', 'content-length': '7', 'content-md5': MD5 },
  };
  const missing = refusal(404, 'BlobNotFound', 'The specified blob does not exist.');
  const deleted: Answer = { status: 202 };

  /** Returns the properties of the copy in a state. It has bytes only if it has succeeded. */
  const copyIn = (state: string, of = 'in/a.csv'): Answer => ({
    status: 200,
    headers: {
      etag: '"2"',
      'content-length': state === 'success' ? '7' : '0',
      ...(state === 'success' && { 'content-md5': MD5 }),
      'x-ms-copy-id': 'copy-1',
      'x-ms-copy-status': state,
      'x-ms-copy-source': `${ORIGIN}/container/${of}?sig=hidden`,
    },
  });

  const moving = {
    transferId: 'txr_1',
    identity: { size: 7, version: '"1"' },
    moveTo: 'done/',
    signal: never,
  };

  async function move(...answers: [Answer, ...Answer[]]) {
    const { endpoint, asked } = await answering(...answers);
    const disposed = await endpoint.dispose('in/a.csv', moving);
    const requests = asked.map(({ method, url = '' }) => `${method} ${url.split('?', 1)}`);
    return { disposed, requests, asked };
  }

  test('pending waits for its end before it deletes the source', async () => {
    const pending = copyIn('pending');
    const { disposed, requests } = await move(source, pending, pending, copyIn('success'), deleted);
    expect(disposed).toEqual({ outcome: 'moved', name: 'a.csv' });
    expect(requests).toEqual([
      'HEAD /container/in/a.csv',
      ...Array(3).fill('HEAD /container/done/a.csv'),
      'DELETE /container/in/a.csv',
    ]);
  });

  const started: Answer = { status: 202, headers: { 'x-ms-copy-status': 'pending' } };
  const notYet: [Answer, ...Answer[]] = [source, missing, started, copyIn('pending')];

  test('that it began waits for its end', async () => {
    const { disposed, requests } = await move(...notYet, copyIn('success'), deleted);
    expect(disposed).toEqual({ outcome: 'moved', name: 'a.csv' });
    expect(requests.slice(2)).toEqual([
      'PUT /container/done/a.csv',
      ...Array(2).fill('HEAD /container/done/a.csv'),
      'DELETE /container/in/a.csv',
    ]);
  });

  test.each(['failed', 'aborted'])('that it began %s keeps the source', async (state) => {
    const { endpoint, asked } = await answering(...notYet, copyIn(state));
    await expect(endpoint.dispose('in/a.csv', moving)).rejects.toMatchObject({
      code: 'connection_failed',
      step: 'commit',
    });
    expect(asked.map(({ method }) => method)).not.toContain('DELETE');
  });

  test('that it began takes another name if another program has replaced it', async () => {
    const done: Answer = { status: 202, headers: { 'x-ms-copy-status': 'success' } };
    const other = copyIn('success', 'in/b.csv');
    const { disposed } = await move(...notYet, other, missing, done, deleted);
    expect(disposed).toEqual({ outcome: 'moved', name: 'a.txr_1.csv' });
  });

  test('that never ends does so for no longer than its caller waits', async () => {
    const { endpoint, asked } = await answering(...notYet);
    const control = new AbortController();
    const waiting = endpoint.dispose('in/a.csv', { ...moving, signal: control.signal });
    await vi.waitFor(() => expect(asked.length).toBeGreaterThan(3));
    control.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'connection_failed', message: 'Aborted' });
  });

  test.each(['failed', 'aborted'])('%s replaces it', async (state) => {
    const started: Answer = { status: 202, headers: { 'x-ms-copy-status': 'success' } };
    const { disposed, requests, asked } = await move(source, copyIn(state), started, deleted);
    expect(disposed).toEqual({ outcome: 'moved', name: 'a.csv' });
    expect(requests).toEqual([
      'HEAD /container/in/a.csv',
      'HEAD /container/done/a.csv',
      'PUT /container/done/a.csv',
      'DELETE /container/in/a.csv',
    ]);
    expect(asked[2]?.headers).toMatchObject({ 'if-match': '"2"' });
  });

  test('of another blob takes another name, whatever its state', async () => {
    const started: Answer = { status: 202, headers: { 'x-ms-copy-status': 'success' } };
    for (const state of ['pending', 'failed']) {
      const other = copyIn(state, 'in/b.csv');
      const { disposed, requests } = await move(source, other, missing, started, deleted);
      expect(disposed).toEqual({ outcome: 'moved', name: 'a.txr_1.csv' });
      expect(requests.at(-1)).toBe('DELETE /container/in/a.csv');
    }
  });

  test('pending of a source that another program deleted does not count as moved', async () => {
    const unmoved = { outcome: 'gone', movedAs: null };
    const pending = copyIn('pending');
    const whole = { ...pending, headers: { ...pending.headers, 'content-length': '7' } };
    expect((await move(missing, whole, missing)).disposed).toEqual(unmoved);
  });
});
