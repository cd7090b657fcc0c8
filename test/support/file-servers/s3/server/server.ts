import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerCertificate } from '../../../network/certificates.ts';
import { S3Error } from './errors.ts';
import { createFaults, type Fault } from './faults.ts';
import { type Answer, type Operation, operationOf, operations } from './operations.ts';
import { authenticate, type Credentials, sha256 } from './signature.ts';
import type { Bucket, StoredObject } from './store.ts';
import { document } from './xml.ts';

export type { Fault } from './faults.ts';
export type { Operation } from './operations.ts';

export interface S3Request {
  operation: Operation | null;
  bucket: string;
  key: string;
  query: ReadonlyMap<string, string>;
  headers: IncomingHttpHeaders;
  /** Null if its connection was reset, or if it has no answer yet. */
  status: number | null;
}

export interface S3Server extends Credentials {
  endpointUrl: string;
  createBucket(name: string): void;
  /** Returns a stored object for a test; undefined if there is none. */
  object(bucket: string, key: string): StoredObject | undefined;
  /** Returns the ids of multipart uploads that are neither completed nor aborted. */
  uploads(bucket: string): string[];
  /** All requests since the start. */
  readonly requests: readonly S3Request[];
  /** Plans a fault. Of several for an operation, the oldest applies first. */
  fault(fault: Fault): void;
  clearFaults(): void;
  /** Ends it and removes all objects. */
  stop(): Promise<void>;
}

interface S3ServerOptions {
  tls?: ServerCertificate;
  /** The most entries of one listing; 1,000 by default, as in S3. */
  pageSize?: number;
  /** Rejects requests with such a header, as Backblaze B2 does with those of checksums. */
  refusedHeaders?: RegExp;
  /** Gives an object of parts a checksum and an ETag of a whole object, as some servers do. */
  wholeChecksums?: boolean;
}

const MAX_DOCUMENT_BYTES = 2 << 20;

/**
 * Starts a server on loopback that answers as S3 does in the areas where clients make mistakes:
 * signatures, checksums, preconditions, multipart uploads and their errors. It supports path-style
 * addresses only, and neither versions nor copies. Bodies are sparse files in a temporary folder.
 */
export async function startS3Server(options: S3ServerOptions = {}): Promise<S3Server> {
  const { pageSize = 1_000, wholeChecksums = false } = options;
  const folder = mkdtempSync(join(tmpdir(), 'waybill-s3-'));
  const buckets = new Map<string, Bucket>();
  const faults = createFaults();
  const requests: S3Request[] = [];
  const credentials = {
    accessKeyId: 'waybill',
    secretAccessKey: randomBytes(20).toString('hex'),
    region: 'eu-central-1',
  };
  const listener = (request: IncomingMessage, response: ServerResponse) =>
    void serve(request, response);
  const server = options.tls ? createTlsServer(options.tls, listener) : createServer(listener);
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const endpointUrl = `${options.tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = '/', search = ''] = request.url!.split('?', 2);
    response.setHeader('x-amz-request-id', randomBytes(8).toString('hex').toUpperCase());
    response.setHeader('server', 'AmazonS3');
    try {
      await answer(request, response, path, search);
    } catch (error) {
      if (request.socket.destroyed) return;
      if (response.headersSent) return void request.socket.destroy();
      const failure =
        error instanceof S3Error
          ? error
          : new S3Error('InternalError', String((error as Error).stack));
      // The rest of the body would look like the next request.
      if (!request.complete) response.setHeader('connection', 'close');
      const headless = request.method === 'HEAD' || failure.code === 'NotModified';
      response.writeHead(failure.status, headless ? {} : { 'content-type': 'application/xml' });
      response.end(headless ? undefined : errorDocument(failure, path, response));
      request.resume();
    }
  }

  async function answer(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    search: string,
  ): Promise<void> {
    const [bucketName = '', ...rest] = path.slice(1).split('/').map(decodeURIComponent);
    const key = rest.join('/');
    const pairs = parseQuery(search);
    const query = new Map(pairs);
    const method = request.method!;
    const { headers } = request;
    const operation = operationOf(method, key, query, 'x-amz-copy-source' in headers);
    const entry: S3Request = { operation, bucket: bucketName, key, query, headers, status: null };
    requests.push(entry);
    response.once('finish', () => {
      entry.status = response.statusCode;
    });

    const authentication = authenticate({ method, path, query: pairs, headers }, credentials);
    if (operation === null) throw new S3Error('NotImplemented', `${method} ${request.url}`);
    const refused = Object.keys(headers).find((name) => options.refusedHeaders?.test(name));
    if (refused)
      throw new S3Error(
        'InvalidArgument',
        `Unsupported header '${refused}' received for this API call.`,
      );
    const fault = faults.take(operation);
    if (fault?.kind === 'error') throw new S3Error(fault.code, 'Asked for by the test');
    if (fault?.kind === 'slow') await sleep(fault.delayMs);
    if (fault?.kind === 'error-in-success') {
      response.writeHead(200, { 'content-type': 'application/xml' });
      request.resume();
      return void response.end(
        errorDocument(new S3Error(fault.code, 'Asked for by the test'), path, response),
      );
    }
    if (fault?.kind === 'page') {
      response.writeHead(200, { 'content-type': 'text/html' });
      request.resume();
      return void response.end('<html><body><p>Back soon</p></body></html>');
    }
    const bucket = buckets.get(bucketName);
    if (!bucket)
      throw new S3Error('NoSuchBucket', 'The specified bucket does not exist', {
        BucketName: bucketName,
      });

    const cutAfter = fault?.kind === 'cut' ? fault.afterBytes : Infinity;
    const upwards = method === 'PUT' || method === 'POST';
    const upload = bucket.uploads.get(query.get('uploadId') ?? '');
    const content = () =>
      limited(request.iterator({ destroyOnReturn: false }), upwards ? cutAfter : Infinity, request);
    const result: Answer = await operations[operation]({
      bucket,
      bucketName,
      key,
      query,
      headers,
      content,
      text: () => readDocument(content(), authentication.payload),
      authentication,
      pageSize,
      wholeChecksums,
      folder,
      location: `${endpointUrl}${path}`,
    });
    const object = bucket.objects.get(key);
    if (fault?.kind === 'keep-upload' && upload && object) {
      bucket.uploads.set(upload.id, upload);
      bucket.objects.set(key, { ...object, lastModified: new Date() });
    }
    if (fault?.kind === 'lose-answer' || fault?.kind === 'keep-upload')
      return reset(request.socket);
    await send(response, result, method, upwards ? Infinity : cutAfter, request);
  }

  return {
    endpointUrl,
    ...credentials,
    requests,
    createBucket(name) {
      buckets.set(name, { objects: new Map(), uploads: new Map() });
    },
    object: (bucket, key) => buckets.get(bucket)?.objects.get(key),
    uploads: (bucket) => [...(buckets.get(bucket)?.uploads.keys() ?? [])],
    fault: faults.add,
    clearFaults: faults.clear,
    async stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function send(
  response: ServerResponse,
  { status, headers, body }: Answer,
  method: string,
  cutAfter: number,
  request: IncomingMessage,
) {
  const type = typeof body === 'string' ? { 'content-type': 'application/xml' } : {};
  response.writeHead(status, { ...type, ...headers });
  if (method === 'HEAD' || typeof body !== 'object')
    return void response.end(method === 'HEAD' ? undefined : body);
  const closed = once(response, 'close');
  for await (const chunk of limited(body, cutAfter, request)) {
    if (response.destroyed) return;
    await Promise.race([new Promise((written) => response.write(chunk, written)), closed]);
  }
  response.end();
}

function reset(socket: Socket): void {
  // TLS sockets cannot be reset.
  if ('encrypted' in socket) socket.destroy();
  else socket.resetAndDestroy();
}

/** Passes chunks on, and resets the request's connection after this many bytes. */
async function* limited(
  content: AsyncIterable<Buffer>,
  bytes: number,
  { socket }: IncomingMessage,
): AsyncGenerator<Buffer> {
  let left = bytes;
  for await (const chunk of content) {
    if (chunk.length >= left) {
      yield chunk.subarray(0, left);
      reset(socket);
      throw new Error('cut by the test');
    }
    left -= chunk.length;
    yield chunk;
  }
}

async function readDocument(content: AsyncIterable<Buffer>, payload: string): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of content) {
    size += chunk.length;
    if (size > MAX_DOCUMENT_BYTES) throw new S3Error('MalformedXML', 'The document is too long');
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks);
  if (payload !== 'UNSIGNED-PAYLOAD' && payload !== sha256(text))
    throw new S3Error('XAmzContentSHA256Mismatch');
  return text.toString();
}

function parseQuery(search: string): [string, string][] {
  const decode = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));
  return search
    .split('&')
    .filter(Boolean)
    .map((pair) => {
      const [name = '', ...value] = pair.split('=');
      return [decode(name), decode(value.join('='))];
    });
}

function errorDocument(error: S3Error, path: string, response: ServerResponse): string {
  const ids = { RequestId: String(response.getHeader('x-amz-request-id')), HostId: randomUUID() };
  return document(
    'Error',
    { Code: error.code, Message: error.message, ...error.details, Resource: path, ...ids },
    false,
  );
}
