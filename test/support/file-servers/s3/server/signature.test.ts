import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { receive } from './receive.ts';
import { authenticate, type SignedRequest } from './signature.ts';

// The examples of Amazon's documentation of Signature Version 4 for S3.
const credentials = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
};

const presigned: SignedRequest = {
  method: 'GET',
  path: '/test.txt',
  query: [
    ['X-Amz-Algorithm', 'AWS4-HMAC-SHA256'],
    ['X-Amz-Credential', 'AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request'],
    ['X-Amz-Date', '20130524T000000Z'],
    ['X-Amz-Expires', '86400'],
    ['X-Amz-SignedHeaders', 'host'],
    ['X-Amz-Signature', 'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404'],
  ],
  headers: { host: 'examplebucket.s3.amazonaws.com' },
};

const chunked: SignedRequest = {
  method: 'PUT',
  path: '/examplebucket/chunkObject.txt',
  query: [],
  headers: {
    host: 's3.amazonaws.com',
    'x-amz-date': '20130524T000000Z',
    'x-amz-storage-class': 'REDUCED_REDUNDANCY',
    authorization:
      'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,' +
      'SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class,' +
      'Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9',
    'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
    'content-encoding': 'aws-chunked',
    'x-amz-decoded-content-length': '66560',
    'content-length': '66824',
  },
};

let folder: string;

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2013, 4, 24), toFake: ['Date'] });
  folder = mkdtempSync(join(tmpdir(), 'waybill-s3-signature-'));
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true, force: true });
});

async function receiveChunks(letter: string) {
  const chunk = (size: number, signature: string) =>
    `${size.toString(16)};chunk-signature=${signature}\r\n${letter.repeat(size)}\r\n`;
  const body =
    chunk(65_536, 'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648') +
    chunk(1_024, '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497') +
    chunk(0, 'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9');
  async function* inPieces() {
    for (let at = 0; at < body.length; at += 1_000) yield Buffer.from(body.slice(at, at + 1_000));
  }
  return receive(folder, inPieces(), chunked.headers, authenticate(chunked, credentials), 'CRC32');
}

test('accepts a presigned URL until it expires', () => {
  expect(() => authenticate(presigned, credentials)).not.toThrow();
  expect(() => authenticate({ ...presigned, path: '/other.txt' }, credentials)).toThrow(
    expect.objectContaining({ code: 'SignatureDoesNotMatch' }),
  );
  vi.setSystemTime(Date.UTC(2013, 4, 25, 0, 0, 1));
  expect(() => authenticate(presigned, credentials)).toThrow('Request has expired');
});

test('accepts signed chunks, and no other content under their signatures', async () => {
  const { body } = await receiveChunks('a');
  expect(body.size).toBe(66_560);
  await expect(receiveChunks('b')).rejects.toMatchObject({ code: 'SignatureDoesNotMatch' });
});

test('rejects a request of another time, and one with an unsigned header', () => {
  const unsigned = { ...chunked, headers: { ...chunked.headers, 'x-amz-meta-a': 'b' } };
  expect(() => authenticate(unsigned, credentials)).toThrow(
    expect.objectContaining({ code: 'AccessDenied' }),
  );
  vi.setSystemTime(Date.UTC(2013, 4, 24, 0, 16));
  expect(() => authenticate(chunked, credentials)).toThrow(
    expect.objectContaining({ code: 'RequestTimeTooSkewed' }),
  );
});
