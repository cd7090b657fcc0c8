import { AUTHENTICATION_FAILED, type TransferErrorCode } from '../../../domain/transfers/errors.ts';
import { connectionError } from '../http/connection-error.ts';
import { mayBeOfProxy, OtherService } from '../http/other-service.ts';
import { FileError, type FileStep, type Side } from '../port.ts';

/** An error of the SDK for a server's answer. An error of Node has `code` instead. */
interface SdkError extends Error {
  code?: string;
  /** The code in the error document. S3 sends a document with every rejected GET. */
  Code?: string;
  $metadata?: { httpStatusCode?: number; attempts?: number };
  $response?: { headers?: Record<string, string> };
}

const MISSING: Record<Side, TransferErrorCode> = {
  source: 'source_not_found',
  destination: 'destination_not_found',
};

/** The server takes no such key. */
const UNUSABLE: Record<Side, TransferErrorCode> = {
  source: 'source_not_found',
  destination: 'permission_denied',
};

const BY_NAME: Record<string, TransferErrorCode | Record<Side, TransferErrorCode>> = {
  NoSuchBucket: MISSING,
  NoSuchKey: MISSING,
  NotFound: MISSING,
  InvalidObjectName: UNUSABLE,
  XMinioInvalidObjectName: UNUSABLE,
  KeyTooLong: UNUSABLE,
  KeyTooLongError: UNUSABLE,
  // The bucket is in another region than the settings say.
  PermanentRedirect: MISSING,
  TemporaryRedirect: MISSING,
  AuthorizationHeaderMalformed: MISSING,
  IllegalLocationConstraintException: MISSING,
  InvalidBucketName: MISSING,
  InvalidStorageClass: MISSING,
  AccessDenied: 'permission_denied',
  AllAccessDisabled: 'permission_denied',
  AccountProblem: 'permission_denied',
  InvalidObjectState: 'permission_denied',
  RequestTimeTooSkewed: 'permission_denied',
  Forbidden: 'permission_denied',
  InvalidAccessKeyId: 'auth_failed',
  SignatureDoesNotMatch: 'auth_failed',
  InvalidToken: 'auth_failed',
  ExpiredToken: 'auth_failed',
  EntityTooLarge: 'file_too_large',
  QuotaExceeded: 'disk_full',
  XMinioStorageFull: 'disk_full',
  XMinioAdminBucketQuotaExceeded: 'disk_full',
  InsufficientStorage: 'disk_full',
  // MinIO has folders: a key is either an object or the start of other keys.
  XMinioParentIsObject: 'destination_exists',
  XMinioObjectExistsAsDirectory: 'destination_exists',
  BadDigest: 'checksum_mismatch',
  InvalidDigest: 'checksum_mismatch',
  XAmzContentSHA256Mismatch: 'checksum_mismatch',
  XAmzContentChecksumMismatch: 'checksum_mismatch',
  InvalidRange: 'source_changed',
  PreconditionFailed: { source: 'source_changed', destination: 'destination_exists' },
  // A retry with a new upload is enough.
  NoSuchUpload: 'connection_failed',
  InvalidPart: 'connection_failed',
  ConditionalRequestConflict: 'connection_failed',
  OperationAborted: 'connection_failed',
  RequestTimeout: 'timeout',
  SlowDown: 'timeout',
  Throttling: 'timeout',
  TooManyRequests: 'timeout',
};

const BY_STATUS: Record<number, keyof typeof BY_NAME> = {
  301: 'PermanentRedirect',
  307: 'TemporaryRedirect',
  401: 'InvalidAccessKeyId',
  403: 'AccessDenied',
  404: 'NotFound',
  408: 'RequestTimeout',
  409: 'OperationAborted',
  412: 'PreconditionFailed',
  413: 'EntityTooLarge',
  416: 'InvalidRange',
  429: 'SlowDown',
  504: 'RequestTimeout',
  507: 'InsufficientStorage',
};

const ELSEWHERE =
  /^(PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException)$/;

/** Returns the name of the error that the server answered with; null if there was no answer. */
export function serverAnswer(error: unknown): string | null {
  const { name, $metadata } = error as SdkError;
  return $metadata?.httpStatusCode === undefined ? null : name;
}

/** Returns the error for an answer to a GET that shows no sign of S3; null for any other answer. */
export function otherService(error: unknown, url: URL): OtherService | null {
  const { Code, $metadata, $response } = error as SdkError;
  const status = $metadata?.httpStatusCode;
  if (status === undefined || Code !== undefined || mayBeOfProxy(status)) return null;
  const headers = Object.keys($response?.headers ?? {});
  if (headers.some((name) => name.startsWith('x-amz-'))) return null;
  return new OtherService('an S3 service', url, `HTTP status ${status} and no S3 error document`);
}

/**
 * Returns whether the server no longer knows an upload. Ceph reports a missing key in that case.
 */
export function isUploadGone(error: unknown): boolean {
  const answer = serverAnswer(error);
  return answer === 'NoSuchUpload' || answer === 'NoSuchKey';
}

/** Returns whether no object has the key. */
export function isMissing(error: unknown): boolean {
  return /^(NoSuchKey|NotFound)$/.test(serverAnswer(error) ?? '');
}

/** Returns whether the server lacks an operation, or the credentials may not use it. */
export function isRefused(error: unknown): boolean {
  const status = (error as SdkError).$metadata?.httpStatusCode ?? 0;
  return status === 403 || status === 405 || status === 501;
}

/** Returns whether the server may have rejected a request for a header that it does not know. */
export function isUnknownHeader(error: unknown): boolean {
  return /^(NotImplemented|Invalid(Argument|Request))$/.test(serverAnswer(error) ?? '');
}

/**
 * Returns whether the request was retried: an earlier try may have succeeded and lost its answer.
 */
export function wasRepeated(answer: unknown): boolean {
  return ((answer as SdkError).$metadata?.attempts ?? 1) > 1;
}

/** What a server's answer says about a rejected sign-in. The test of an endpoint shows it. */
const REJECTED: Record<string, string> = {
  InvalidAccessKeyId: ': the server does not know this access key',
  SignatureDoesNotMatch:
    ': the server computed another signature. The secret key is wrong, or a proxy before the ' +
    'server changes the host or the path of requests (in nginx, set proxy_set_header Host $http_host)',
  InvalidToken: ': the session token is not valid',
  ExpiredToken: ': the session token has expired',
};

/**
 * Returns the FileError for an error in a step. `subject` is the key. The message of a rejected
 * signature has nothing of the answer, because servers answer with the text that was to be signed.
 */
export function fileError(error: unknown, step: FileStep, subject: string, side: Side): FileError {
  if (error instanceof FileError) return error;
  const given = error as SdkError;
  if (serverAnswer(error) === null) return connectionError(error, step, subject);
  const code = codeOf(given, side);
  if (code === 'auth_failed')
    return new FileError(code, 'sign_in', AUTHENTICATION_FAILED + (REJECTED[given.name] ?? ''));
  return new FileError(code, step, `${subject}: ${wordsOf(given)}`, { cause: error });
}

function codeOf(error: SdkError, side: Side): TransferErrorCode {
  const { name, $metadata } = error;
  const status = $metadata?.httpStatusCode ?? 0;
  if (name.startsWith('KMS.') || needsKey(error)) return 'permission_denied';
  const code =
    BY_NAME[name] ??
    BY_NAME[BY_STATUS[status] ?? ''] ??
    (status >= 500 ? 'connection_failed' : 'internal_error');
  return typeof code === 'string' ? code : code[side];
}

/** Returns whether an object is encrypted with a key that each request must have ("SSE-C"). */
function needsKey({ name, message }: SdkError): boolean {
  return name === 'InvalidRequest' && /server side encryption/i.test(message);
}

function wordsOf(error: SdkError): string {
  const { name, message, $metadata, $response } = error;
  const status = $metadata?.httpStatusCode;
  // The answer has no document, or a document that is not from S3.
  const said =
    name === 'SyntaxError' || message === name || /^Unknown|Deserialization error/.test(message)
      ? ''
      : message;
  const known = name in BY_NAME ? name : `HTTP status ${status}`;
  const words = `${said === '' ? known : `${said} (${known})`}${adviceOn(error)}`;
  if (!ELSEWHERE.test(name) && status !== 301 && status !== 307) return words;
  const region = $response?.headers?.['x-amz-bucket-region'];
  const where = region ? `: its region is ${region}` : '';
  return `the bucket is in another region or at another address than configured${where}; ${words}`;
}

function adviceOn(error: SdkError): string {
  const { name, $metadata } = error;
  // S3 itself says EntityTooLarge.
  if ($metadata?.httpStatusCode === 413 && BY_NAME[name] === undefined)
    return (
      ': a proxy before the server limits the size of a request. Remove that limit ' +
      '(in nginx, client_max_body_size 0)'
    );
  if (needsKey(error))
    return ': Waybill cannot send the key of its encryption (SSE-C): store a copy without such a key';
  if (BY_NAME[name] === UNUSABLE) return ': the key may be too long';
  if (name === 'InvalidObjectState')
    return ': restore the archived object, then retry the transfer';
  return '';
}
