import { RestError } from '@azure/storage-blob';
import { AUTHENTICATION_FAILED, type TransferErrorCode } from '../../../domain/transfers/errors.ts';
import { connectionError } from '../http/connection-error.ts';
import { mayBeOfProxy, OtherService } from '../http/other-service.ts';
import { FileError, type FileStep, type Side } from '../port.ts';

const MISSING: Record<Side, TransferErrorCode> = {
  source: 'source_not_found',
  destination: 'destination_not_found',
};
/** The service takes no such name. */
const UNUSABLE: Record<Side, TransferErrorCode> = {
  source: 'source_not_found',
  destination: 'permission_denied',
};
const UNMET: Record<Side, TransferErrorCode> = {
  source: 'source_changed',
  destination: 'destination_exists',
};

/**
 * Transfer errors by the error codes of the service ("Blob service error codes", "Common REST API
 * error codes").
 */
const BY_CODE: Record<string, TransferErrorCode | Record<Side, TransferErrorCode>> = {
  BlobNotFound: MISSING,
  ContainerNotFound: MISSING,
  ContainerBeingDeleted: MISSING,
  ContainerDisabled: MISSING,
  ResourceNotFound: MISSING,
  InvalidResourceName: UNUSABLE,
  InvalidUri: UNUSABLE,
  OutOfRangeInput: UNUSABLE,
  AuthenticationFailed: 'auth_failed',
  InvalidAuthenticationInfo: 'auth_failed',
  NoAuthenticationInformation: 'auth_failed',
  ConditionNotMet: UNMET,
  BlobAlreadyExists: UNMET,
  InvalidRange: 'source_changed',
  Md5Mismatch: 'checksum_mismatch',
  Crc64Mismatch: 'checksum_mismatch',
  InvalidBlobOrBlock: 'permission_denied',
  BlockCountExceedsLimit: 'permission_denied',
  RequestBodyTooLarge: 'file_too_large',
  BlockListTooLong: 'file_too_large',
  // Another transfer committed the name meanwhile, which discarded our blocks. A retry that sends
  // them again is enough.
  InvalidBlockList: 'connection_failed',
  // Azurite is out of memory.
  MemoryExtentStoreAtSizeLimit: 'disk_full',
  InternalError: 'connection_failed',
  OperationTimedOut: 'timeout',
  ServerBusy: 'timeout',
};

/**
 * Used if the code is missing or has several causes: a lease, an archived blob, an immutable blob.
 */
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

const LEASED =
  'another program holds a lease on this blob: let it release the lease, or break it ' +
  '(`az storage blob lease break`), then retry the transfer';

const UNUSABLE_NAME =
  'the service takes no such name of a container or blob: correct the container of the endpoint, ' +
  'or choose a shorter name with fewer folders';

/** Explanations for messages of the service that do not help the reader. */
const EXPLAINED: Record<string, string> = {
  LeaseIdMissing: LEASED,
  LeaseIdMismatchWithBlobOperation: LEASED,
  BlobArchived:
    'the blob is archived: change its tier (`az storage blob set-tier`) or remove it, ' +
    'then retry the transfer',
  BlobBeingRehydrated: 'the archived blob is not back yet: retry the transfer when it is',
  InvalidBlobType:
    'the name has an append or page blob, which no block blob can replace: ' +
    'remove it, or choose another name',
  InvalidBlobOrBlock:
    'another program has started to write this blob, ' +
    'and its blocks cannot be combined with ours: ' +
    'finish or discard that upload, choose another name, or wait a week until its blocks vanish',
  BlockCountExceedsLimit:
    'earlier attempts left as many blocks under this name as the service keeps: ' +
    'choose another name, upload and remove a small blob of this name to discard them, ' +
    'or wait a week until they vanish',
  BlobOperationNotSupported:
    'the name may have a file that was written with the Data Lake API, which no blocks can ' +
    'replace: remove it, or choose another name',
  InvalidResourceName: UNUSABLE_NAME,
  InvalidUri: UNUSABLE_NAME,
  OutOfRangeInput: UNUSABLE_NAME,
};

/** What the service says of a sign-in that came at the wrong time. The other details have secrets. */
const WRONG_TIME =
  /<AuthenticationErrorDetail>((Signature not valid in the specified time frame|Signed expiry time|Request date header too old)[^<]*)/;

/** Returns the code in the service's answer, empty if it has none; null if there was no answer. */
export function serverAnswer(error: unknown): string | null {
  if (!(error instanceof RestError) || error.statusCode === undefined) return null;
  return error.response?.headers.get('x-ms-error-code') ?? '';
}

/**
 * Returns the error for an answer to a list request that shows no sign of the service; null for any
 * other.
 */
export function otherService(error: unknown, url: URL): OtherService | null {
  const service = 'Azure Blob Storage';
  // The SDK reads the fields of a list even if the answer has no list.
  if (error instanceof TypeError && !('code' in error))
    return new OtherService(service, url, 'no list of blobs');
  if (!(error instanceof RestError) || error.statusCode === undefined) return null;
  if (mayBeOfProxy(error.statusCode)) return null;
  const headers = [...(error.response?.headers ?? [])];
  if (headers.some(([name]) => name.startsWith('x-ms-'))) return null;
  const answer = `HTTP status ${error.statusCode} and no Azure error document`;
  return new OtherService(service, url, answer);
}

/** Returns whether the SDK cannot parse the document of a success. */
export function isUnparsed(error: unknown): boolean {
  return (
    error instanceof RestError && error.statusCode === 200 && error.code === RestError.PARSE_ERROR
  );
}

/** Returns whether the service rejects the credentials, or does not permit them this request. */
export function isRefused(error: unknown): error is RestError {
  return error instanceof RestError && error.statusCode === 403;
}

/** Returns whether the credentials are valid but do not permit this request. */
export function isForbidden(error: unknown): boolean {
  return isRefused(error) && codeOf(error, 'destination') === 'permission_denied';
}

/**
 * Returns the FileError for an error in a step. `subject` is the blob. The FileError has no cause:
 * an error of the SDK holds the request, whose URL holds the SAS. The message of a rejected sign-in
 * has what the service says only if that is of the time: it may also be the text to be signed.
 */
export function fileError(error: unknown, step: FileStep, subject: string, side: Side): FileError {
  if (!(error instanceof RestError) || error.statusCode === undefined)
    return connectionError(error, step, subject);
  const code = codeOf(error, side);
  if (code === 'auth_failed') {
    const [, why] = WRONG_TIME.exec(error.response?.bodyAsText ?? '') ?? [];
    const words = why === undefined ? '' : `: ${why}`;
    return new FileError(code, 'sign_in', AUTHENTICATION_FAILED + words);
  }
  return new FileError(code, step, `${subject}: ${wordsOf(error)}`);
}

function codeOf(error: RestError, side: Side): TransferErrorCode {
  const status = error.statusCode ?? 0;
  // Azurite has one code where the service has two.
  if (status === 403 && /failed to authenticate/i.test(error.message)) return 'auth_failed';
  // A success that is none of the request: a proxy may have sent a page.
  const mayPass = status >= 500 || status < 300;
  const byStatus = BY_STATUS[status] ?? (mayPass ? 'connection_failed' : 'internal_error');
  const code =
    BY_CODE[serverAnswer(error) ?? ''] ?? BY_CODE[byStatus] ?? (byStatus as TransferErrorCode);
  return typeof code === 'string' ? code : code[side];
}

/**
 * Returns the first line of the message; the request id and the time follow it. An answer without
 * an error document has no useful text.
 */
function wordsOf(error: RestError): string {
  const answer = serverAnswer(error);
  if (!answer) return `HTTP status ${error.statusCode}`;
  const isDocument = error.response?.bodyAsText?.includes('<Error>') ?? false;
  const [words = ''] = isDocument ? error.message.split('\n') : [];
  const said = words === '' ? answer : `${words} (${answer})`;
  const explained = EXPLAINED[answer];
  return explained === undefined ? said : `${explained}; ${said}`;
}
