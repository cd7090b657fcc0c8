import { expect, test } from 'vitest';
import { FileError } from '../../../../src/adapters/files/port.ts';
import { fileError } from '../../../../src/adapters/files/s3/errors.ts';
import { explainError } from '../../../../src/adapters/files/system-error.ts';
import { newId } from '../../../../src/domain/ids.ts';
import { startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import { endpointOn } from './endpoint-on.ts';

/** Builds the error that the SDK makes of an answer. */
const answer = (
  name: string,
  httpStatusCode: number,
  message = 'in the words of the server',
  headers = {},
) =>
  Object.assign(new Error(message), {
    name,
    $metadata: { httpStatusCode },
    $response: { headers },
  });
const system = (code: string, given: object = {}) =>
  Object.assign(new Error(`failed ${code}`), { code, ...given });

test.each([
  [answer('NoSuchKey', 404), 'source', 'source_not_found'],
  [answer('NoSuchBucket', 404), 'source', 'source_not_found'],
  [answer('NoSuchBucket', 404), 'destination', 'destination_not_found'],
  [answer('KeyTooLongError', 400), 'source', 'source_not_found'],
  [answer('KeyTooLong', 400), 'destination', 'permission_denied'],
  [answer('AccessDenied', 403), 'destination', 'permission_denied'],
  [answer('403', 403), 'source', 'permission_denied'],
  [answer('KMS.DisabledException', 400), 'destination', 'permission_denied'],
  [answer('EntityTooLarge', 400), 'destination', 'file_too_large'],
  [answer('QuotaExceeded', 403), 'destination', 'disk_full'],
  [answer('XMinioStorageFull', 507), 'destination', 'disk_full'],
  [answer('XMinioParentIsObject', 400), 'destination', 'destination_exists'],
  [answer('XMinioObjectExistsAsDirectory', 409), 'destination', 'destination_exists'],
  [answer('XMinioInvalidObjectName', 400), 'destination', 'permission_denied'],
  [answer('BadDigest', 400), 'destination', 'checksum_mismatch'],
  [answer('XAmzContentChecksumMismatch', 400), 'destination', 'checksum_mismatch'],
  [answer('PreconditionFailed', 412), 'source', 'source_changed'],
  [answer('PreconditionFailed', 412), 'destination', 'destination_exists'],
  [answer('InvalidRange', 416), 'source', 'source_changed'],
  [answer('NoSuchUpload', 404), 'destination', 'connection_failed'],
  [answer('SlowDown', 503), 'destination', 'timeout'],
  [answer('ServiceUnavailable', 503), 'source', 'connection_failed'],
  [answer('InternalError', 500), 'source', 'connection_failed'],
  [answer('NewInvention', 400), 'source', 'internal_error'],
] as const)('%s on the %s side is %s', (given, side, code) => {
  const error = fileError(given, 'transfer', 'a/key', side);
  expect(error).toMatchObject({ name: 'FileError', code, step: 'transfer' });
  expect(error.message).toContain('a/key: in the words of the server');
});

test('an archived object says what to do about it', () => {
  expect(fileError(answer('InvalidObjectState', 403), 'open', 'a/key', 'source')).toMatchObject({
    code: 'permission_denied',
    message: expect.stringMatching(/: restore the archived object, then retry the transfer$/),
  });
});

test('an object with a key of its owner says what to do about it', () => {
  const said =
    'The object was stored using a form of Server Side Encryption. The correct parameters must be ' +
    'provided to retrieve the object.';
  expect(fileError(answer('InvalidRequest', 400, said), 'open', 'a/key', 'source')).toMatchObject({
    code: 'permission_denied',
    message: expect.stringMatching(/^a\/key: The object was stored .*\(SSE-C\): store a copy/),
  });
});

test.each([
  ['ECONNREFUSED', { syscall: 'connect' }, 'connection_failed', 'connect'],
  ['ENOTFOUND', { syscall: 'getaddrinfo' }, 'connection_failed', 'connect'],
  ['ECONNRESET', { syscall: 'read' }, 'connection_failed', 'transfer'],
  ['ETIMEDOUT', { syscall: 'connect' }, 'timeout', 'connect'],
  ['SELF_SIGNED_CERT_IN_CHAIN', {}, 'tls_error', 'connect'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', {}, 'tls_error', 'connect'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', {}, 'tls_error', 'connect'],
  ['HPE_INVALID_CONSTANT', {}, 'connection_failed', 'transfer'],
  ['ERR_INVALID_ARG_TYPE', {}, 'internal_error', 'transfer'],
] as const)('%s is %j', (name, given, code, step) => {
  expect(fileError(system(name, given), 'transfer', 'a/key', 'source')).toMatchObject({
    code,
    step,
    message: `a/key: ${explainError(system(name, given))}`,
  });
});

test.each([
  ['CERT_HAS_EXPIRED', 'has expired'],
  ['CERT_NOT_YET_VALID', 'is not valid yet'],
])('%s says by which clock', (name, words) => {
  const error = fileError(system(name, {}), 'transfer', 'a/key', 'source');
  expect(error).toMatchObject({ code: 'tls_error', step: 'connect' });
  const [, said, clock = ''] = /^a\/key: the certificate (.+) by the clock .+ \((.+)\)$/.exec(
    error.message,
  ) as string[];
  expect(said).toBe(words);
  expect(Math.abs(Date.parse(clock) - Date.now())).toBeLessThan(60_000);
});

test('a proxy that limits the size of requests is no limit of S3', () => {
  const answered = answer('413', 413, 'UnknownError');
  expect(fileError(answered, 'transfer', 'a/key', 'destination')).toMatchObject({
    code: 'file_too_large',
    message:
      'a/key: HTTP status 413: a proxy before the server limits the size of a request. ' +
      'Remove that limit (in nginx, client_max_body_size 0)',
  });
  const ofS3 = answer('EntityTooLarge', 413, 'Your proposed upload exceeds the maximum');
  expect(fileError(ofS3, 'transfer', 'a/key', 'destination').message).not.toContain('proxy');
});

test('the refusal of all addresses of a host is a failed connection', () => {
  const all = Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' });
  expect(fileError(all, 'open', 'a/key', 'source')).toMatchObject({
    code: 'connection_failed',
    step: 'connect',
    message: 'a/key: connection refused: nothing listens at this address and port',
  });
});

test.each([
  ['InvalidAccessKeyId', 403, /^Authentication failed: .*does not know this access key$/],
  ['SignatureDoesNotMatch', 403, /^Authentication failed: .*The secret key is wrong, or a proxy/],
  ['ExpiredToken', 400, /^Authentication failed: .*has expired$/],
  // Cloudflare R2 answers this for a wrong or revoked key.
  ['Unauthorized', 401, /^Authentication failed$/],
])('%s has one message, without the signed text', (name, status, message) => {
  const error = fileError(
    Object.assign(answer(name, status), { StringToSign: 'canary' }),
    'open',
    'a/key',
    'source',
  );
  expect(error).toMatchObject({
    code: 'auth_failed',
    step: 'sign_in',
    message: expect.stringMatching(message),
  });
  expect(error.cause).toBeUndefined();
});

test.each([
  [
    answer('PermanentRedirect', 301, 'moved', { 'x-amz-bucket-region': 'eu-west-1' }),
    'destination_not_found',
  ],
  [
    answer('301', 301, 'UnknownError', { 'x-amz-bucket-region': 'eu-west-1' }),
    'destination_not_found',
  ],
  [answer('AuthorizationHeaderMalformed', 400, "expecting 'eu-west-1'"), 'destination_not_found'],
])('%s names the region of the bucket', (given, code) => {
  const error = fileError(given, 'open', 'a/key', 'destination');
  expect(error).toMatchObject({
    code,
    message: expect.stringMatching(/another region.*eu-west-1/),
  });
});

test.each([
  [answer('Unknown', 404, 'UnknownError'), 'a/key: HTTP status 404'],
  [answer('NoSuchKey', 404, 'UnknownError'), 'a/key: NoSuchKey'],
  [
    answer(
      'SyntaxError',
      502,
      "char 'h' is not expected.:1:1\n  Deserialization error: to see the raw response",
    ),
    'a/key: HTTP status 502',
  ],
])('%s without a message is reported by what is known', (given, message) => {
  expect(fileError(given, 'open', 'a/key', 'source')).toMatchObject({ message });
});

test('a FileError stays as it is', () => {
  const given = new FileError('source_changed', 'verify', 'changed');
  expect(fileError(given, 'transfer', 'a/key', 'source')).toBe(given);
});

test('nothing is left to clean up in a bucket that is gone', async () => {
  const server = await startS3Server();
  const endpoint = endpointOn({ ...server, bucket: 'gone' });
  try {
    const leftovers = {
      transferId: newId('txr'),
      resume: { bytes: 0, state: { upload_id: 'upload', parts: [] } },
      since: new Date(),
      signal: new AbortController().signal,
    };
    await expect(endpoint.removeLeftovers('key', leftovers)).resolves.toBeUndefined();
  } finally {
    await endpoint.close();
    await server.stop();
  }
});
