import type { TransferErrorCode } from '../../../domain/transfer-errors.ts';
import { connectionError } from '../http/connection-error.ts';
import { FileError, type FileStep, type Side } from '../port.ts';

/** An error as the SDK gives it for a server's answer; one of Node has a code instead. */
interface SdkError extends Error {
  code?: string;
  $metadata?: { httpStatusCode?: number; attempts?: number };
  $response?: { headers?: Record<string, string> };
}

const MISSING: Record<Side, TransferErrorCode> = { source: 'source_not_found', destination: 'destination_not_found' };

const BY_NAME: Record<string, TransferErrorCode | Record<Side, TransferErrorCode>> = {
  NoSuchBucket: MISSING,
  NoSuchKey: MISSING,
  NotFound: MISSING,
  InvalidObjectName: MISSING,
  KeyTooLong: MISSING,
  KeyTooLongError: MISSING,
  // The bucket is where the settings don't say it is.
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
  BadDigest: 'checksum_mismatch',
  InvalidDigest: 'checksum_mismatch',
  XAmzContentSHA256Mismatch: 'checksum_mismatch',
  XAmzContentChecksumMismatch: 'checksum_mismatch',
  InvalidRange: 'source_changed',
  PreconditionFailed: { source: 'source_changed', destination: 'destination_exists' },
  // Going on with a new upload is all that is needed.
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

const ELSEWHERE = /^(PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException)$/;

/** The name of the error that a server has answered with; null where it is not an answer. */
export function serverAnswer(error: unknown): string | null {
  const { name, $metadata } = error as SdkError;
  return $metadata?.httpStatusCode === undefined ? null : name;
}

/** Whether the server doesn't know an upload any more. Ceph speaks of a missing key then. */
export function isUploadGone(error: unknown): boolean {
  const answer = serverAnswer(error);
  return answer === 'NoSuchUpload' || answer === 'NoSuchKey';
}

/** Whether an earlier try of the same request may have been carried out, and only its answer was lost. */
export function wasRepeated(error: unknown): boolean {
  return ((error as SdkError).$metadata?.attempts ?? 1) > 1;
}

/**
 * The FileError for whatever went wrong in a step. `subject` is what it was about: a key. A refused signature
 * has one message: servers answer it with what was to be signed.
 */
export function fileError(error: unknown, step: FileStep, subject: string, side: Side): FileError {
  if (error instanceof FileError) return error;
  const given = error as SdkError;
  if (serverAnswer(error) === null) return connectionError(error, step, subject);
  const code = codeOf(given, side);
  if (code === 'auth_failed') return new FileError(code, 'sign_in', 'Authentication failed');
  return new FileError(code, step, `${subject}: ${wordsOf(given)}`, { cause: error });
}

function codeOf({ name, $metadata }: SdkError, side: Side): TransferErrorCode {
  const status = $metadata?.httpStatusCode ?? 0;
  if (name.startsWith('KMS.')) return 'permission_denied';
  const code = BY_NAME[name] ?? BY_NAME[BY_STATUS[status] ?? ''] ?? (status >= 500 ? 'connection_failed' : 'internal_error');
  return typeof code === 'string' ? code : code[side];
}

function wordsOf({ name, message, $metadata, $response }: SdkError): string {
  const status = $metadata?.httpStatusCode;
  // An answer without a document, or with one that is not of S3.
  const said = name === 'SyntaxError' || message === name || /^Unknown|Deserialization error/.test(message) ? '' : message;
  const known = name in BY_NAME ? name : `HTTP status ${status}`;
  const words = said === '' ? known : `${said} (${known})`;
  if (!ELSEWHERE.test(name) && status !== 301 && status !== 307) return words;
  const region = $response?.headers?.['x-amz-bucket-region'];
  return `the bucket is in another region or at another address than configured${region ? `: its region is ${region}` : ''}; ${words}`;
}
