import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { S3Error } from './errors.ts';

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
}

export interface SignedRequest {
  method: string;
  /** As sent, with percent signs. */
  path: string;
  query: [name: string, value: string][];
  headers: IncomingHttpHeaders;
}

export interface Authentication {
  /**
   * `x-amz-content-sha256`: the hash of the body in hex, or the way in which the body is secured.
   */
  payload: string;
  signature: string;
  /** Signs the chunks of an aws-chunked body. */
  sign(kind: 'PAYLOAD' | 'TRAILER', previous: string, ...hashes: string[]): string;
}

const ALGORITHM = 'AWS4-HMAC-SHA256';
const MAX_SKEW_MS = 15 * 60_000;
const HASH_OR_MODE =
  /^([0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-(UNSIGNED-PAYLOAD-TRAILER|AWS4-HMAC-SHA256-PAYLOAD(-TRAILER)?))$/;

export const sha256 = (data: string | Buffer): string =>
  createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string): Buffer =>
  createHmac('sha256', key).update(data).digest();

interface Claim {
  credential: string;
  signedHeaders: string[];
  signature: string;
  date: string;
  payload: string;
}

/**
 * Verifies Signature Version 4, in the Authorization header or in the query, as S3 does. Throws
 * `S3Error`.
 */
export function authenticate(request: SignedRequest, credentials: Credentials): Authentication {
  const presigned = request.query.some(([name]) => name === 'X-Amz-Signature');
  const claim = presigned ? claimInQuery(request) : claimInHeader(request);
  const [accessKeyId, day, region, service, terminator] = claim.credential.split('/');
  const malformed = presigned
    ? 'AuthorizationQueryParametersError'
    : 'AuthorizationHeaderMalformed';
  if (accessKeyId !== credentials.accessKeyId)
    throw new S3Error('InvalidAccessKeyId', 'The access key does not exist in our records');
  if (region !== credentials.region)
    throw new S3Error(
      malformed,
      `the region '${region}' is wrong; expecting '${credentials.region}'`,
    );
  if (service !== 's3' || terminator !== 'aws4_request')
    throw new S3Error(malformed, 'the credential scope is wrong');
  if (day !== claim.date.slice(0, 8))
    throw new S3Error(malformed, 'the credential is not of the day of the request');
  requireSigned(request.headers, claim.signedHeaders);

  const scope = `${day}/${region}/s3/aws4_request`;
  const key = [day, region, 's3', 'aws4_request'].reduce<string | Buffer>(
    hmac,
    `AWS4${credentials.secretAccessKey}`,
  );
  const sign = (...lines: string[]) => hmac(key, lines.join('\n')).toString('hex');
  const canonicalRequest = canonical(request, claim);
  if (sign(ALGORITHM, claim.date, scope, sha256(canonicalRequest)) !== claim.signature)
    throw new S3Error('SignatureDoesNotMatch', 'The signature we calculated does not match', {
      CanonicalRequest: canonicalRequest,
    });
  return {
    payload: claim.payload,
    signature: claim.signature,
    sign: (kind, ...rest) => sign(`${ALGORITHM}-${kind}`, claim.date, scope, ...rest),
  };
}

function claimInHeader({ headers }: SignedRequest): Claim {
  const authorization = headers.authorization;
  if (authorization === undefined) throw new S3Error('AccessDenied', 'Access Denied');
  const match =
    /^AWS4-HMAC-SHA256 Credential=(\S+?), ?SignedHeaders=(\S+?), ?Signature=([0-9a-f]{64})$/.exec(
      authorization,
    );
  if (!match) throw new S3Error('AuthorizationHeaderMalformed');
  const [, credential, signedHeaders, signature] = match as unknown as string[];
  const date = String(headers['x-amz-date'] ?? '');
  if (Math.abs(Date.now() - parseDate(date)) > MAX_SKEW_MS)
    throw new S3Error('RequestTimeTooSkewed');
  const payload = headers['x-amz-content-sha256'];
  if (payload === undefined)
    throw new S3Error(
      'InvalidRequest',
      'Missing required header for this request: x-amz-content-sha256',
    );
  if (!HASH_OR_MODE.test(String(payload)))
    throw new S3Error('InvalidArgument', 'x-amz-content-sha256 is not valid');
  return {
    credential: credential!,
    signedHeaders: signedHeaders!.split(';'),
    signature: signature!,
    date,
    payload: String(payload),
  };
}

function claimInQuery({ query, headers }: SignedRequest): Claim {
  const given = new Map(query);
  const parameter = (name: string): string => {
    const value = given.get(name);
    if (value === undefined)
      throw new S3Error('AuthorizationQueryParametersError', `${name} is missing`);
    return value;
  };
  if (parameter('X-Amz-Algorithm') !== ALGORITHM)
    throw new S3Error('AuthorizationQueryParametersError');
  const date = parameter('X-Amz-Date');
  const seconds = Number(parameter('X-Amz-Expires'));
  const age = Date.now() - parseDate(date);
  if (!(seconds >= 1 && seconds <= 604_800))
    throw new S3Error('AuthorizationQueryParametersError', 'X-Amz-Expires is out of range');
  if (age > seconds * 1000) throw new S3Error('AccessDenied', 'Request has expired');
  if (age < -MAX_SKEW_MS) throw new S3Error('AccessDenied', 'Request is not yet valid');
  return {
    credential: parameter('X-Amz-Credential'),
    signedHeaders: parameter('X-Amz-SignedHeaders').split(';'),
    signature: parameter('X-Amz-Signature'),
    date,
    payload: String(headers['x-amz-content-sha256'] ?? 'UNSIGNED-PAYLOAD'),
  };
}

function parseDate(text: string): number {
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  if (!match)
    throw new S3Error(
      'AccessDenied',
      'AWS authentication requires a valid Date or x-amz-date header',
    );
  const [, year, month, day, hour, minute, second] = match.map(Number) as number[];
  return Date.UTC(year!, month! - 1, day, hour, minute, second);
}

function requireSigned(headers: IncomingHttpHeaders, signed: string[]): void {
  const unsigned = Object.keys(headers).filter(
    (name) => (name === 'host' || name.startsWith('x-amz-')) && !signed.includes(name),
  );
  if (unsigned.length > 0)
    throw new S3Error(
      'AccessDenied',
      `There were headers present which were not signed: ${unsigned}`,
    );
}

function canonical(
  { method, path, query, headers }: SignedRequest,
  { signedHeaders, payload }: Claim,
): string {
  const uri = path
    .split('/')
    .map((segment) => encode(decodeURIComponent(segment)))
    .join('/');
  const parameters = query
    .filter(([name]) => name !== 'X-Amz-Signature')
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .sort(([a, x], [b, y]) => (a === b ? order(x, y) : order(a, b)))
    .map((pair) => pair.join('='));
  const lines = signedHeaders.map(
    (name) =>
      `${name}:${String(headers[name] ?? '')
        .trim()
        .replace(/ +/g, ' ')}\n`,
  );
  return [method, uri, parameters.join('&'), lines.join(''), signedHeaders.join(';'), payload].join(
    '\n',
  );
}

function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
