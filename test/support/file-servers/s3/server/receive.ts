import { createHash, randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { type Body, writeBody } from './bodies.ts';
import { ALGORITHMS, type ChecksumAlgorithm, createChecksum } from './checksums.ts';
import { S3Error } from './errors.ts';
import { type Authentication, sha256 } from './signature.ts';

export interface Received {
  body: Body;
  md5: Buffer;
  algorithm: ChecksumAlgorithm;
  checksum: Buffer;
}

const MAX_BYTES = 5 * 2 ** 30;
const MIN_CHUNK_BYTES = 8192;
const SHA256_IN_HEX = /^[0-9a-f]{64}$/;

/** The header name of a checksum, which is also the name of its trailer. */
export function checksumHeader(algorithm: ChecksumAlgorithm): string {
  return `x-amz-checksum-${algorithm.toLowerCase()}`;
}

/** The one checksum algorithm that the headers of a request name, if any. */
export function algorithmOf(headers: IncomingHttpHeaders): ChecksumAlgorithm | undefined {
  const [algorithm, ...others] = ALGORITHMS.filter(
    (name) =>
      headers[checksumHeader(name)] !== undefined ||
      headers['x-amz-trailer'] === checksumHeader(name),
  );
  if (others.length > 0)
    throw new S3Error('InvalidRequest', 'Expecting a single x-amz-checksum- header');
  return algorithm;
}

/**
 * Reads the body of a request and checks every claim of the client about it: length, hash of the
 * signature, signatures of its chunks, Content-MD5, and a checksum of `algorithm` in a header or
 * trailer. On an error, throws `S3Error` and stores nothing.
 */
export async function receive(
  folder: string,
  content: AsyncIterable<Buffer>,
  headers: IncomingHttpHeaders,
  authentication: Authentication,
  algorithm: ChecksumAlgorithm,
): Promise<Received> {
  const streaming = authentication.payload.startsWith('STREAMING-');
  const length = headers[streaming ? 'x-amz-decoded-content-length' : 'content-length'];
  if (length === undefined) throw notMeasured(headers);
  if (Number(length) > MAX_BYTES) throw new S3Error('EntityTooLarge');
  const expectedMd5 = headers['content-md5'];
  if (expectedMd5 !== undefined && Buffer.from(String(expectedMd5), 'base64').length !== 16)
    throw new S3Error('InvalidDigest');

  const trailers: Record<string, string> = {};
  const payload = SHA256_IN_HEX.test(authentication.payload) ? createHash('sha256') : null;
  const md5 = createHash('md5');
  const checksum = createChecksum(algorithm);
  const writer = await writeBody(folder, randomUUID());
  try {
    let size = 0;
    for await (const chunk of streaming
      ? decodeChunks(content, authentication, trailers)
      : content) {
      size += chunk.length;
      payload?.update(chunk);
      md5.update(chunk);
      checksum.update(chunk);
      await writer.write(chunk);
    }
    if (size !== Number(length))
      throw new S3Error('IncompleteBody', `${size} bytes came of ${length}`);
    if (payload && payload.digest('hex') !== authentication.payload)
      throw new S3Error('XAmzContentSHA256Mismatch');
    const digests = { md5: md5.digest(), checksum: checksum.digest() };
    if (expectedMd5 !== undefined && digests.md5.toString('base64') !== expectedMd5)
      throw new S3Error(
        'BadDigest',
        'The Content-MD5 you specified did not match what we received',
      );
    const declared = headers['x-amz-trailer'];
    if (declared !== undefined && !(String(declared) in trailers))
      throw new S3Error('InvalidRequest', `The trailer ${declared} is missing`);
    const expected = headers[checksumHeader(algorithm)] ?? trailers[checksumHeader(algorithm)];
    if (expected !== undefined && expected !== digests.checksum.toString('base64'))
      throw new S3Error(
        'BadDigest',
        `The ${algorithm} you specified did not match the calculated checksum`,
      );
    return { body: await writer.finish(), algorithm, ...digests };
  } catch (error) {
    await writer.discard();
    throw error;
  }
}

function notMeasured(headers: IncomingHttpHeaders): S3Error {
  if (headers['transfer-encoding'] === undefined) return new S3Error('MissingContentLength');
  return new S3Error(
    'NotImplemented',
    'A header you provided implies functionality that is not implemented',
    {
      Header: 'Transfer-Encoding',
    },
  );
}

/**
 * Yields the content of an aws-chunked body. Checks its signatures, and puts its trailers into
 * `trailers`.
 */
async function* decodeChunks(
  content: AsyncIterable<Buffer>,
  { payload, signature, sign }: Authentication,
  trailers: Record<string, string>,
): AsyncGenerator<Buffer> {
  const signed = payload.startsWith('STREAMING-AWS4-HMAC-SHA256-PAYLOAD');
  const reader = createReader(content);
  try {
    let previous = signature;
    let last = false;
    for (;;) {
      const [, digits, given] =
        /^([0-9a-f]+)(?:;chunk-signature=([0-9a-f]{64}))?$/i.exec(await reader.line()) ?? [];
      if (digits === undefined)
        throw new S3Error('IncompleteBody', 'The chunks of the body are malformed');
      const size = Number.parseInt(digits, 16);
      if (size > 0 && last)
        throw new S3Error(
          'InvalidChunkSizeError',
          `Only the last chunk is allowed to have less than ${MIN_CHUNK_BYTES} bytes`,
        );
      last = size < MIN_CHUNK_BYTES;
      const hash = createHash('sha256');
      for await (const part of reader.take(size)) {
        hash.update(part);
        yield part;
      }
      if (signed) {
        previous = sign('PAYLOAD', previous, sha256(''), hash.digest('hex'));
        if (previous !== given)
          throw new S3Error('SignatureDoesNotMatch', 'The signature of a chunk does not match');
      }
      if (size === 0) break;
      if ((await reader.line()) !== '')
        throw new S3Error('IncompleteBody', 'A chunk is longer than it says');
    }

    let signedTrailers = '';
    for (let line = await reader.line(); line !== ''; line = await reader.line()) {
      const colon = line.indexOf(':');
      const name = line.slice(0, colon).toLowerCase();
      trailers[name] = line.slice(colon + 1).trim();
      if (name !== 'x-amz-trailer-signature') signedTrailers += `${name}:${trailers[name]}\n`;
    }
    if (
      payload.endsWith('PAYLOAD-TRAILER') &&
      signed &&
      trailers['x-amz-trailer-signature'] !== sign('TRAILER', previous, sha256(signedTrailers))
    )
      throw new S3Error('SignatureDoesNotMatch', 'The signature of the trailers does not match');
  } finally {
    await reader.close();
  }
}

function createReader(content: AsyncIterable<Buffer>) {
  const chunks = content[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);

  async function more(): Promise<void> {
    const { done, value } = await chunks.next();
    if (done) throw new S3Error('IncompleteBody');
    rest = rest.length > 0 ? Buffer.concat([rest, value]) : value;
  }

  return {
    async line(): Promise<string> {
      for (;;) {
        const end = rest.indexOf('\r\n');
        if (end >= 0) {
          const line = rest.toString('latin1', 0, end);
          rest = rest.subarray(end + 2);
          return line;
        }
        await more();
      }
    },
    async *take(size: number): AsyncGenerator<Buffer> {
      for (let left = size; left > 0; ) {
        if (rest.length === 0) await more();
        const part = rest.subarray(0, left);
        rest = rest.subarray(part.length);
        left -= part.length;
        yield part;
      }
    },
    async close(): Promise<void> {
      await chunks.return?.();
    },
  };
}
