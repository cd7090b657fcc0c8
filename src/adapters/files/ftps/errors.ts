import { FTPError } from 'basic-ftp';
import { AUTHENTICATION_FAILED, type TransferErrorCode } from '../../../domain/transfers/errors.ts';
import { FileError, type FileStep, type Side } from '../port.ts';
import { saysBanned, saysBusy } from '../refused-connection.ts';
import { codeOfSystemError, explainError, withoutPath } from '../system-error.ts';

// Replies of RFC 959, section 4.2.2, and of RFC 4217.
const BY_REPLY: Record<number, TransferErrorCode> = {
  332: 'auth_failed',
  421: 'connection_failed',
  425: 'connection_failed',
  426: 'connection_failed',
  430: 'auth_failed',
  431: 'tls_error',
  450: 'connection_failed',
  451: 'connection_failed',
  452: 'disk_full',
  522: 'tls_error',
  530: 'auth_failed',
  532: 'permission_denied',
  534: 'tls_error',
  536: 'tls_error',
  550: 'permission_denied',
  552: 'disk_full',
  553: 'permission_denied',
};

// One reply code has many meanings, 550 alone about six. Only the reply's text tells them apart.
const BY_WORDS: [RegExp, TransferErrorCode][] = [
  [/no space|disk (is )?full|quota|insufficient (disk|storage)/i, 'disk_full'],
  // The only text that vsftpd sends for a full disk.
  [/failure writing to local file/i, 'disk_full'],
  [/file too (large|big)/i, 'file_too_large'],
  [/too many(?! levels)|maximum (number|clients|connections)/i, 'connection_failed'],
  // Other servers send 450 for this. On Windows, a program can open a file for exclusive use.
  [/used by another process|sharing violation/i, 'connection_failed'],
];
/** ProFTPD says this if its disk took only a part of a block. */
const SHORT_WRITE = /input\/output error/i;
const MISSING = /no such file|not found|(does not|doesn't) exist|cannot find/i;
const NOT_A_FILE = /not a (regular|plain) file|is a directory|symbolic link/i;
export const NOT_ALLOWED = /permission|denied|not allowed|privilege/i;

/**
 * Returns the FileError for an error in a step. `subject` is the path or the server. A rejected
 * sign-in always has the same message, so the server's text about accounts is not shown.
 */
export function fileError(
  error: unknown,
  step: FileStep,
  subject: string,
  side: Side = 'source',
): FileError {
  if (error instanceof FileError) return error;
  const code = codeOf(error as Error, step, subject, side);
  if (code === 'auth_failed')
    return new FileError(code, 'sign_in', AUTHENTICATION_FAILED, { cause: error });
  const words = explainError(error).replace(/\s*\n\s*/g, ' ');
  const busy = /connect|sign_in/.test(step) && isBusyReply(error);
  return new FileError(code, step, `${subject}: ${words}`, { cause: error, busy });
}

function isBusyReply(error: unknown): boolean {
  if (!(error instanceof FTPError)) return false;
  return error.code === 421 ? !saysBanned(error.message) : saysBusy(error.message);
}

/**
 * Returns the FileError for a source path that the server refused in every way of asking. Servers
 * have different texts for a missing file (`Can't check for file existence`, `Couldn't open the
 * file or directory`). So every refusal with 550 means a missing file, unless its text is about
 * permissions.
 */
export function statError(error: unknown, step: FileStep, path: string): FileError {
  const failure = fileError(error, step, path);
  const missing =
    isRefusal(error) &&
    error.code === 550 &&
    failure.code === 'permission_denied' &&
    !NOT_ALLOWED.test(withoutPath(error.message, path));
  return missing
    ? new FileError('source_not_found', step, failure.message, { cause: error })
    : failure;
}

function codeOf(error: Error, step: FileStep, subject: string, side: Side): TransferErrorCode {
  if (!(error instanceof FTPError)) {
    const { code = '' } = error as NodeJS.ErrnoException;
    const ofSystem = codeOfSystemError(error);
    if (ofSystem) return ofSystem;
    // During a transfer, a TLS error means that the server went down, not a bad certificate.
    const ofTls = code === 'EPROTO' || /^ERR_(SSL|TLS)_/.test(code);
    return ofTls && step !== 'transfer' ? 'tls_error' : 'connection_failed';
  }
  const { code } = error;
  const words = withoutPath(error.message, subject);
  const byWords = BY_WORDS.find(([pattern]) => pattern.test(words))?.[1];
  if (byWords) return byWords;
  if (side === 'source' && (MISSING.test(words) || NOT_A_FILE.test(words)))
    return 'source_not_found';
  if (side === 'destination' && SHORT_WRITE.test(words)) return 'disk_full';
  return BY_REPLY[code] ?? (code < 500 ? 'connection_failed' : 'internal_error');
}

/** Returns true if the server understood a command and refused it. The connection stays usable. */
export function isRefusal(error: unknown): error is FTPError {
  return error instanceof FTPError && error.code !== 421 && !isDataRefusal(error);
}

/** Returns whether a refusal says that nothing has the path. Many servers do not say. */
export function saysMissing({ message }: FTPError, path: string): boolean {
  return MISSING.test(withoutPath(message, path));
}

/** Turns a refusal into null. Throws any other error. */
export function nullIfRefused(error: unknown): null {
  if (isRefusal(error)) return null;
  throw error;
}

/**
 * Returns true if the server rejected a data connection, which says nothing about the file. A
 * server that requires TLS session reuse does so once the session of the control connection has
 * expired: ProFTPD and FileZilla Server with 425, older FileZilla Servers with 450, vsftpd with
 * 522.
 */
export function isDataRefusal(error: unknown): boolean {
  if (!(error instanceof FTPError)) return error instanceof SessionExpired;
  return error.code === 425 || error.code === 522 || /session.*(reuse|resum)/i.test(error.message);
}

/** Thrown if the server no longer resumes the TLS session of a control connection. */
export class SessionExpired extends Error {
  constructor() {
    super('the TLS session of the connection has expired');
  }
}
