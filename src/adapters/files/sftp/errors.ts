import { AUTHENTICATION_FAILED, type TransferErrorCode } from '../../../domain/transfers/errors.ts';
import { FileError, type FileStep, type Side } from '../port.ts';
import { saysBusy } from '../refused-connection.ts';
import { codeOfSystemError, explainError, withoutPath } from '../system-error.ts';

/** Status codes of SFTP version 3 (draft-ietf-secsh-filexfer-02, section 7). */
export const SSH_FX_EOF = 1;
export const SSH_FX_NO_SUCH_FILE = 2;
export const SSH_FX_PERMISSION_DENIED = 3;
export const SSH_FX_FAILURE = 4;
export const SSH_FX_BAD_MESSAGE = 5;
const SSH_FX_OP_UNSUPPORTED = 8;

/** An error of ssh2 or Node: a status, a system error's name, or the layer of SSH that failed. */
export interface SshError extends Error {
  code?: number | string;
  level?: string;
}

const BY_LAYER: Record<string, TransferErrorCode> = {
  'client-authentication': 'auth_failed',
  'client-timeout': 'timeout',
};

// The adapter creates missing folders of the destination. If that fails, the user may not create
// them, or a file is in the way.
const BY_STATUS: Record<Side, Record<number, TransferErrorCode>> = {
  source: {
    [SSH_FX_NO_SUCH_FILE]: 'source_not_found',
    [SSH_FX_PERMISSION_DENIED]: 'permission_denied',
    [SSH_FX_BAD_MESSAGE]: 'source_not_found',
    [SSH_FX_OP_UNSUPPORTED]: 'permission_denied',
  },
  destination: {
    [SSH_FX_NO_SUCH_FILE]: 'permission_denied',
    [SSH_FX_PERMISSION_DENIED]: 'permission_denied',
    [SSH_FX_BAD_MESSAGE]: 'permission_denied',
    // Some servers cannot rename a file.
    [SSH_FX_OP_UNSUPPORTED]: 'permission_denied',
  },
};

// Servers answer SSH_FX_FAILURE if version 3 has no better status, and give the cause only in the
// message, if at all.
const BY_WORDS: [RegExp, TransferErrorCode][] = [
  [/no space|disk full|quota/i, 'disk_full'],
  [/file too (large|big)/i, 'file_too_large'],
  [/permission|access denied|read-only/i, 'permission_denied'],
  [/too many auth|privateKey/i, 'auth_failed'],
  // Of a read: the file has become shorter.
  [/unexpected EOF/i, 'source_changed'],
];

// The words of rclone, AsyncSSH and others for what OpenSSH answers with SSH_FX_BAD_MESSAGE.
const NAME_TOO_LONG = /name too long|ENAMETOOLONG/i;
/** The longest name that common file systems allow, in bytes. */
const NAME_BYTES = 255;

/**
 * Returns the FileError for an error in a step. `subject` is a path or the server. A rejected
 * sign-in always has the same message, whatever the server says of accounts.
 */
export function fileError(
  error: unknown,
  step: FileStep,
  subject: string,
  side: Side = 'source',
): FileError {
  if (error instanceof FileError) return error;
  const isOfName = rejectsName(error, step, subject);
  const code = codeOf(error as SshError, subject, side, isOfName);
  if (code === 'auth_failed')
    return new FileError(code, 'sign_in', AUTHENTICATION_FAILED, { cause: error });
  const explained = explainError(error);
  const advice = isOfName && !NAME_TOO_LONG.test(explained) ? ': the name may be too long' : '';
  const busy = /connect|sign_in/.test(step) && saysBusy((error as Error).message);
  return new FileError(code, step, `${subject}: ${explained}${advice}`, {
    cause: error,
    busy,
  });
}

function codeOf(
  error: SshError,
  subject: string,
  side: Side,
  isOfName: boolean,
): TransferErrorCode {
  const { code, level, message } = error;
  if (typeof code === 'number') {
    const byStatus = BY_STATUS[side][isOfName ? SSH_FX_BAD_MESSAGE : code];
    return byStatus ?? codeByWords(withoutPath(message, subject)) ?? 'internal_error';
  }
  const byLayer = BY_LAYER[level ?? ''] ?? codeOfSystemError(error);
  return byLayer ?? codeByWords(message) ?? 'connection_failed';
}

function codeByWords(said: string): TransferErrorCode | undefined {
  return BY_WORDS.find(([words]) => words.test(said))?.[1];
}

/** Adds what the server has said of each secret to a rejected sign-in. Null: nothing. */
export function withRefusal(error: FileError, refusal: string | null): FileError {
  if (error.code !== 'auth_failed' || refusal === null) return error;
  return new FileError(error.code, error.step, `${error.message}: ${refusal}`, {
    cause: error.cause,
  });
}

/**
 * Returns an error of the connection. The reason code of a disconnect must not be taken for the
 * status of a request.
 */
export function connectionError(error: SshError): SshError {
  return typeof error.code === 'number' ? new Error(error.message, { cause: error }) : error;
}

/**
 * Returns whether a server may mean that the name is too long: OpenSSH answers with a status, others
 * say so, ProFTPD says only that it failed. While bytes move, a bare failure is not of the name.
 */
export function rejectsName(error: unknown, step: FileStep, path: string): boolean {
  if (hasStatus(error, SSH_FX_BAD_MESSAGE)) return true;
  if (!isRefusal(error)) return false;
  const said = withoutPath((error as SshError).message, path);
  if (NAME_TOO_LONG.test(said)) return true;
  const isBareFailure = hasStatus(error, SSH_FX_FAILURE) && codeByWords(said) === undefined;
  const isLong = path.split('/').some((name) => Buffer.byteLength(name) > NAME_BYTES);
  return isBareFailure && isLong && step !== 'transfer';
}

/** Returns whether the server answered with this status. */
export function hasStatus(error: unknown, status: number): boolean {
  return (error as SshError | null)?.code === status;
}

/** Returns whether the server answered with a refusal, so that the connection is still usable. */
export function isRefusal(error: unknown): boolean {
  return typeof (error as SshError | null)?.code === 'number';
}

/** Turns a refusal into null. Throws any other error. */
export function nullIfRefused(error: unknown): null {
  if (isRefusal(error)) return null;
  throw error;
}
