import { FTPError } from 'basic-ftp';
import type { TransferErrorCode } from '../../../domain/transfer-errors.ts';
import { FileError, type FileStep, type Side } from '../port.ts';

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

// One reply stands for many reasons, which servers tell in words only; 550 alone for half a dozen.
const BY_WORDS: [RegExp, TransferErrorCode][] = [
  [/no space|disk (is )?full|quota|insufficient (disk|storage)/i, 'disk_full'],
  // All that vsftpd says of a full disk.
  [/failure writing to local file/i, 'disk_full'],
  [/file too (large|big)/i, 'file_too_large'],
  [/too many|maximum (number|clients|connections)/i, 'connection_failed'],
  // What others say with 450: on Windows whoever reads or writes a file may have it for himself.
  [/used by another process|sharing violation/i, 'connection_failed'],
];
const NO_FILE = /no such file|not found|(does not|doesn't) exist|cannot find|not a (regular|plain) file|is a directory/i;
const NOT_ALLOWED = /permission|denied|not allowed|privilege/i;

const BY_SYSTEM_ERROR: Record<string, TransferErrorCode> = { ETIMEDOUT: 'timeout', ESTALLED: 'stalled' };

/**
 * The FileError for whatever went wrong in a step. `subject` is what it was about: a path, or the server.
 * A refused sign-in has one message, whatever the server says of accounts.
 */
export function fileError(error: unknown, step: FileStep, subject: string, side: Side = 'source'): FileError {
  if (error instanceof FileError) return error;
  const code = codeOf(error as Error, step, subject, side);
  if (code === 'auth_failed') return new FileError(code, 'sign_in', 'Authentication failed', { cause: error });
  const words = (error as Error).message.replace(/\s*\n\s*/g, ' ');
  return new FileError(code, step, `${subject}: ${words}`, { cause: error });
}

/**
 * The FileError where a server was asked in every way what stands under a path of a source, and refused. For what is not
 * there each has words of its own (`Can't check for file existence`, `Couldn't open the file or directory`): all but
 * those that speak of rights mean that.
 */
export function statError(error: unknown, step: FileStep, path: string): FileError {
  const failure = fileError(error, step, path);
  const missing = isRefusal(error) && error.code === 550 && failure.code === 'permission_denied' && !NOT_ALLOWED.test(spoken(error, path));
  return missing ? new FileError('source_not_found', step, failure.message, { cause: error }) : failure;
}

function codeOf(error: Error, step: FileStep, subject: string, side: Side): TransferErrorCode {
  if (!(error instanceof FTPError)) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (BY_SYSTEM_ERROR[code]) return BY_SYSTEM_ERROR[code];
    // Once bytes flow, TLS that breaks off is a server that went down, and no certificate that is bad.
    const ofTls = code === 'EPROTO' || /^ERR_(SSL|TLS)_/.test(code);
    return ofTls && step !== 'transfer' ? 'tls_error' : 'connection_failed';
  }
  const { code } = error;
  const words = spoken(error, subject);
  const byWords = BY_WORDS.find(([pattern]) => pattern.test(words))?.[1];
  if (byWords) return byWords;
  if (side === 'source' && NO_FILE.test(words)) return 'source_not_found';
  return BY_REPLY[code] ?? (code < 500 ? 'connection_failed' : 'internal_error');
}

/**
 * What a server says, without the path that many repeat, which may hold any word: as it was sent, or as the server spells
 * it, with the name of a part or from its own root.
 */
function spoken({ message }: FTPError, subject: string): string {
  return message.replaceAll(subject, '').replace(/(?<=[\s'"])(?:[a-z]:)?[\\/].*?(?=: |['"]|$)/gim, '');
}

/** Whether the server understood a command and refused it, so that the connection is still of use. */
export function isRefusal(error: unknown): error is FTPError {
  return error instanceof FTPError && error.code !== 421;
}

export function stallError(stallMs: number): Error {
  return Object.assign(new Error(`nothing came from the server for ${stallMs / 1000} s`), { code: 'ESTALLED' });
}
