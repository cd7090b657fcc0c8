import { expect, test } from 'vitest';
import { createSigner } from '../../../../src/adapters/files/s3/signature.ts';

// The examples of "Signature Calculations for the Authorization Header: Transferring Payload in a
// Single Chunk", Amazon S3 API Reference.

const sign = createSigner({
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
  service: 's3',
});
const now = new Date('2013-05-24T00:00:00Z');
const host = 'examplebucket.s3.amazonaws.com';
const empty = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

test.each([
  [
    { method: 'GET', path: '/test.txt', query: '', headers: { host, range: 'bytes=0-9' } },
    empty,
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  ],
  [
    {
      method: 'PUT',
      path: '/test%24file.text',
      query: '',
      headers: {
        host,
        date: 'Fri, 24 May 2013 00:00:00 GMT',
        'x-amz-storage-class': 'REDUCED_REDUNDANCY',
      },
    },
    '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  ],
  [
    { method: 'GET', path: '/', query: 'max-keys=2&prefix=J', headers: { host } },
    empty,
    '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  ],
])('$method $path is signed as Amazon does', (request, payload, signature) => {
  const headers = sign(
    { ...request, headers: request.headers as Record<string, string>, payload },
    now,
  );
  expect(headers).toMatchObject(request.headers);
  expect(headers['x-amz-date']).toBe('20130524T000000Z');
  expect(headers.authorization).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE\/20130524\/us-east-1\/s3\/aws4_request, /,
  );
  expect(headers.authorization).toMatch(new RegExp(`, Signature=${signature}$`));
});

test('each day has a key of its own', () => {
  const request = { method: 'GET', path: '/', query: '', headers: { host }, payload: empty };
  const first = sign(request, now).authorization;
  const next = sign(request, new Date('2013-05-25T00:00:00Z')).authorization;
  expect(next).toContain('/20130525/');
  expect(next).not.toBe(first);
  expect(sign(request, now).authorization).toBe(first);
});
