import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type FileEndpoint, FileError } from '../../../../src/adapters/files/port.ts';
import { endpointOn } from './endpoint-on.ts';

/**
 * Servers whose answers to a range are broken. Their first answer, which opens the object, is good.
 */

const never = new AbortController().signal;
const CONTENT = Buffer.from('0123456789');

let server: Server | undefined;
let endpoint: FileEndpoint | undefined;
afterEach(async () => {
  await endpoint?.close();
  server?.close();
  server?.closeAllConnections();
});

async function read(answer: (response: ServerResponse) => void): Promise<string | FileError> {
  server = createServer((request, response) => {
    const first = { etag: '"v1"', 'content-range': 'bytes 0-1/10', 'content-length': 2 };
    if (request.headers.range === 'bytes=0-65535')
      response.writeHead(206, first).end(CONTENT.subarray(0, 2));
    else answer(response);
  });
  endpoint = endpointOn(await listening(server), { timeouts: { stallMs: 500 } });
  const source = await endpoint.openSource('key', never);
  const target = Buffer.alloc(4);
  try {
    await source.read(3, target);
    return target.toString();
  } catch (error) {
    if (error instanceof FileError) return error;
    throw error;
  } finally {
    await source.close();
  }
}

async function listening(on: Server) {
  await once(on.listen(0, '127.0.0.1'), 'listening');
  const endpointUrl = `http://127.0.0.1:${(on.address() as AddressInfo).port}`;
  return { endpointUrl, accessKeyId: 'id', secretAccessKey: 'secret', region: 'us-east-1' };
}

const range = { 'content-range': 'bytes 3-6/10' };

test('a good answer is read', async () => {
  expect(
    await read((response) =>
      response.writeHead(206, { ...range, 'content-length': 4 }).end('3456'),
    ),
  ).toBe('3456');
});

test('a good answer in small pieces is read, from a server that then hangs up', async () => {
  const answer = (response: ServerResponse) => {
    response.writeHead(206, { ...range, 'content-length': 4, connection: 'close' }).write('3');
    setImmediate(() => response.end('456'));
  };
  expect(await read(answer)).toBe('3456');
});

test.each([
  ['3456', '3456'],
  ['345', { code: 'connection_failed' }],
  ['34567', { code: 'connection_failed' }],
])(
  'the chunked answer %s, without a length, counts only if it is complete',
  async (sent, expected) => {
    const answer = (response: ServerResponse) =>
      response.writeHead(206, { ...range, 'transfer-encoding': 'chunked' }).end(sent);
    const came = await read(answer);
    if (typeof expected === 'string') expect(came).toBe(expected);
    else expect(came).toMatchObject(expected);
  },
);

test('the whole object in place of the range fails the read', async () => {
  const answer = (response: ServerResponse) =>
    response.writeHead(200, { 'content-length': 10 }).end(CONTENT);
  expect(await read(answer)).toMatchObject({
    code: 'source_changed',
    message: expect.stringContaining('no range'),
  });
});

test('another range is rejected', async () => {
  const answer = (response: ServerResponse) =>
    response.writeHead(206, { 'content-range': 'bytes 0-3/10', 'content-length': 4 }).end('0123');
  expect(await read(answer)).toMatchObject({ code: 'source_changed' });
});

test('a part of the range is rejected', async () => {
  const answer = (response: ServerResponse) => {
    response.writeHead(206, { ...range, 'content-length': 4 }).write('345');
    setImmediate(() => response.destroy());
  };
  expect(await read(answer)).toMatchObject({ code: 'connection_failed' });
});

test('a part of the range, then silence, is a stall', async () => {
  const answer = (response: ServerResponse) =>
    void response.writeHead(206, { ...range, 'content-length': 4 }).write('345');
  expect(await read(answer)).toMatchObject({ code: 'stalled' });
});

test('a head without an end is rejected', async () => {
  const answer = (response: ServerResponse) => {
    const { socket } = response;
    socket?.write(`HTTP/1.1 206 Partial Content\r\nx-filler: ${'x'.repeat(200_000)}`);
  };
  expect(await read(answer)).toBeInstanceOf(FileError);
});

test('an answer that is not HTTP is rejected', async () => {
  expect(
    await read((response) => void response.socket?.end('SSH-2.0-OpenSSH_9.2\r\n\r\n')),
  ).toMatchObject({ code: 'connection_failed' });
});

test('a page of a proxy is rejected', async () => {
  const answer = (response: ServerResponse) =>
    response.writeHead(407, { 'content-type': 'text/html' }).end('<html>Sign in</html>');
  expect(await read(answer)).toMatchObject({ message: expect.stringContaining('407') });
});

test('the bytes of a first answer that breaks off are read again', async () => {
  const asked: (string | undefined)[] = [];
  server = createServer(({ headers }, response) => {
    const broken = asked.push(headers.range) === 1;
    response.writeHead(206, {
      etag: '"v1"',
      'content-range': 'bytes 0-9/10',
      'content-length': 10,
    });
    if (broken) response.write('01234', () => response.destroy());
    else response.end(CONTENT);
  });
  endpoint = endpointOn(await listening(server));
  const source = await endpoint.openSource('key', never);
  const target = Buffer.alloc(10);
  await source.read(0, target);
  expect(target).toEqual(CONTENT);
  expect(source.identity).toEqual({ size: 10, version: '"v1"' });
  expect(asked.length).toBe(2);
});

test('a server without ranges is asked only for the size', async () => {
  const asked: (string | undefined)[] = [];
  server = createServer(({ method }, response) => {
    asked.push(method);
    response
      .writeHead(200, { etag: '"v1"', 'content-length': 10 })
      .end(method === 'HEAD' ? '' : CONTENT);
  });
  endpoint = endpointOn(await listening(server));
  expect((await endpoint.openSource('key', never)).identity).toEqual({ size: 10, version: '"v1"' });
  expect(asked.at(-1)).toBe('HEAD');
});

test.each([
  ['a page', 'Back soon'],
  ['an empty page', ''],
])('%s of a proxy in place of an object is not its content', async (_name, page) => {
  server = createServer((_request, response) =>
    response.writeHead(200, { 'content-length': page.length }).end(page),
  );
  endpoint = endpointOn(await listening(server));
  await expect(endpoint.openSource('key', never)).rejects.toMatchObject({
    code: 'connection_failed',
    message: expect.stringContaining('a proxy'),
  });
});

test('a page of a proxy in place of a listing is rejected', async () => {
  server = createServer((_request, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<html><p>Sign in</html>'),
  );
  const error = await endpointOn(await listening(server))
    .list('', never)
    .catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(FileError);
});

// A service that decompresses what it sends does not know the size before the end.
test('an object of unknown size is neither read nor deleted', async () => {
  const asked: (string | undefined)[] = [];
  server = createServer(({ method }, response) => {
    asked.push(method);
    response.writeHead(200, { etag: '"v1"', 'transfer-encoding': 'chunked' });
    response.end(method === 'HEAD' ? undefined : CONTENT);
  });
  endpoint = endpointOn(await listening(server));
  await expect(endpoint.openSource('key', never)).rejects.toMatchObject({ code: 'size_unknown' });
  const disposed = endpoint.dispose('key', {
    transferId: 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H',
    identity: { size: 0, version: '"v1"' },
    moveTo: null,
    signal: never,
  });
  await expect(disposed).rejects.toMatchObject({ code: 'size_unknown' });
  expect(asked).not.toContain('DELETE');
});

const xml = (text: string) => `<?xml version="1.0" encoding="UTF-8"?>${text}`;

test.each([
  ['has no token of the next page', ''],
  ['repeats a page', '<NextContinuationToken>next</NextContinuationToken>'],
])('a listing that %s is not taken for the whole folder', async (_name, token) => {
  const object = '<Contents><Key>in/a</Key><Size>1</Size></Contents>';
  const page = `<Name>bucket</Name><IsTruncated>true</IsTruncated>${token}${object}`;
  server = createServer((_request, response) => {
    response.end(xml(`<ListBucketResult>${page}</ListBucketResult>`));
  });
  endpoint = endpointOn(await listening(server));
  await expect(endpoint.list('in', never)).rejects.toMatchObject({
    code: 'connection_failed',
    message: expect.stringContaining('the server lists only the first objects'),
  });
});

test('the clean-up aborts an upload whose server repeats the pages of its lists', async () => {
  const asked: string[] = [];
  const part = '<Part><PartNumber>1</PartNumber><ETag>"aa"</ETag></Part>';
  const lists: [string, string][] = [
    [
      'uploads',
      '<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>key</NextKeyMarker>' +
        '<NextUploadIdMarker>id</NextUploadIdMarker></ListMultipartUploadsResult>',
    ],
    [
      'uploadId',
      '<ListPartsResult><IsTruncated>true</IsTruncated>' +
        `<NextPartNumberMarker>1</NextPartNumberMarker>${part}</ListPartsResult>`,
    ],
  ];
  server = createServer(({ method, url }, response) => {
    const { searchParams } = new URL(url as string, 'http://a.example');
    const [kind, list] = lists.find(([name]) => searchParams.has(name)) ?? [];
    asked.push(`${method} ${kind}`);
    if (method === 'DELETE') response.writeHead(204).end();
    else if (list) response.end(xml(list));
    else response.writeHead(404).end();
  });
  endpoint = endpointOn(await listening(server));
  const state = { upload_id: 'id', part_size: 8 << 20, checksum: 'md5', digests: '' };
  await endpoint.removeLeftovers('key', {
    transferId: 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H',
    resume: { bytes: 0, state },
    since: new Date(0),
    signal: AbortSignal.timeout(20_000),
  });
  expect(asked).toContain('DELETE uploadId');
  expect(asked.length).toBeLessThan(10);
});

test('an error of any length is shortened', async () => {
  server = createServer((_request, response) => {
    const message = `We${' '.repeat(200_000)}failed`;
    response
      .writeHead(500)
      .end(xml(`<Error><Code>InternalError</Code><Message>${message}</Message></Error>`));
  });
  endpoint = endpointOn(await listening(server));
  const error = await endpoint.list('', never).catch((thrown: unknown) => thrown as FileError);
  expect((error as FileError).message).toHaveLength(4_001);
});
