import { RestError } from '@azure/storage-blob';
import type { TransferErrorCode } from '../../../domain/transfer-errors.ts';
import { connectionError } from '../http/connection-error.ts';
import { FileError, type FileStep, type Side } from '../port.ts';

const MISSING: Record<Side, TransferErrorCode> = { source: 'source_not_found', destination: 'destination_not_found' };
const UNMET: Record<Side, TransferErrorCode> = { source: 'source_changed', destination: 'destination_exists' };

/** By the codes of the service ("Blob service error codes", "Common REST API error codes"). */
const BY_CODE: Record<string, TransferErrorCode | Record<Side, TransferErrorCode>> = {
  BlobNotFound: MISSING,
  ContainerNotFound: MISSING,
  ContainerBeingDeleted: MISSING,
  ContainerDisabled: MISSING,
  ResourceNotFound: MISSING,
  InvalidResourceName: MISSING,
  InvalidUri: MISSING,
  OutOfRangeInput: MISSING,
  AuthenticationFailed: 'auth_failed',
  InvalidAuthenticationInfo: 'auth_failed',
  NoAuthenticationInformation: 'auth_failed',
  ConditionNotMet: UNMET,
  BlobAlreadyExists: UNMET,
  InvalidRange: 'source_changed',
  Md5Mismatch: 'checksum_mismatch',
  Crc64Mismatch: 'checksum_mismatch',
  InvalidBlobOrBlock: 'permission_denied',
  RequestBodyTooLarge: 'file_too_large',
  BlockCountExceedsLimit: 'file_too_large',
  BlockListTooLong: 'file_too_large',
  // Another transfer has committed the name meanwhile and so discarded our blocks: sending them again is all that is needed.
  InvalidBlockList: 'connection_failed',
  // Azurite has no more room in memory.
  MemoryExtentStoreAtSizeLimit: 'disk_full',
  InternalError: 'connection_failed',
  OperationTimedOut: 'timeout',
  ServerBusy: 'timeout',
};

/** Where the code says nothing, or stands for one of many: a lease, an archived blob, an immutable one. */
const BY_STATUS: Record<number, keyof typeof BY_CODE | TransferErrorCode> = {
  401: 'NoAuthenticationInformation',
  403: 'permission_denied',
  404: 'ResourceNotFound',
  408: 'OperationTimedOut',
  409: 'permission_denied',
  412: 'permission_denied',
  413: 'RequestBodyTooLarge',
  416: 'InvalidRange',
  429: 'ServerBusy',
  503: 'ServerBusy',
  504: 'OperationTimedOut',
  507: 'disk_full',
};

/** What the service says in words that help nobody. */
const EXPLAINED: Record<string, string> = {
  InvalidBlobOrBlock:
    'another program has begun to write this blob, and its blocks do not go with others: finish or discard it there, choose another name, or wait a week until they vanish',
};

/** The code of the service's answer, empty where it gave none; null where it is not an answer. */
export function serverAnswer(error: unknown): string | null {
  if (!(error instanceof RestError) || error.statusCode === undefined) return null;
  return error.response?.headers.get('x-ms-error-code') ?? '';
}

/** Whether the service knows the credentials not, or not for this. */
export function isRefused(error: unknown): error is RestError {
  return error instanceof RestError && error.statusCode === 403;
}

/** Whether the credentials are good and only don't permit this. */
export function isForbidden(error: unknown): boolean {
  return isRefused(error) && codeOf(error, 'destination') === 'permission_denied';
}

/**
 * The FileError for whatever went wrong in a step. `subject` is what it was about: a blob. It has no cause: an error of
 * the SDK holds the request, and its URL a SAS. A refused sign-in has one message: the service answers it with what
 * was to be signed.
 */
export function fileError(error: unknown, step: FileStep, subject: string, side: Side): FileError {
  if (!(error instanceof RestError) || error.statusCode === undefined) return connectionError(error, step, subject);
  const code = codeOf(error, side);
  if (code === 'auth_failed') return new FileError(code, 'sign_in', 'Authentication failed');
  return new FileError(code, step, `${subject}: ${wordsOf(error)}`);
}

function codeOf(error: RestError, side: Side): TransferErrorCode {
  const status = error.statusCode ?? 0;
  // Azurite has one code for what the service says by two.
  if (status === 403 && /failed to authenticate/i.test(error.message)) return 'auth_failed';
  const byStatus = BY_STATUS[status] ?? (status >= 500 ? 'connection_failed' : 'internal_error');
  const code = BY_CODE[serverAnswer(error) ?? ''] ?? BY_CODE[byStatus] ?? (byStatus as TransferErrorCode);
  return typeof code === 'string' ? code : code[side];
}

/** The first line: request id and time follow it. An answer that is no document of the service has no words of use. */
function wordsOf(error: RestError): string {
  const answer = serverAnswer(error);
  if (!answer) return `HTTP status ${error.statusCode}`;
  const isDocument = error.response?.bodyAsText?.includes('<Error>') ?? false;
  const [words = ''] = isDocument ? error.message.split('\n') : [];
  const said = words === '' ? answer : `${words} (${answer})`;
  const explained = EXPLAINED[answer];
  return explained === undefined ? said : `${explained}; ${said}`;
}
