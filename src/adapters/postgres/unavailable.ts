import { shortageOf } from '../own-shortage.ts';
import { DISK_FULL } from './embedded/error.ts';

/**
 * Codes of the driver and of Node for a connection that is lost or cannot be opened. 57P: the
 * server starts or stops. 53: it is out of resources. 25006: it takes no writes, after a failover
 * or because its disk is nearly full. 25P03, 25P04: it ended a transaction that took too long.
 */
const UNAVAILABLE =
  /^(CONNECTION_|CONNECT_TIMEOUT$|ECONN|EPIPE$|ENOTFOUND$|E(HOST|NET)UNREACH$|ETIMEDOUT$|EAI_|08|25006$|25P0[34]|53|57P)/;

/**
 * Severities of an error that refuses or ends a session: that of a statement is `ERROR`. Its code may
 * be any, such as 28000, 3D000 or 55000 while an administrator lets no one into the database.
 */
const ENDS_SESSION = /^(FATAL|PANIC)$/;

/** Codes of Postgres for a user, a password, a database or the right to connect to it. */
const SIGN_IN = /^(28|3D000$|42501$)/;

/**
 * Functions of Postgres that make a file longer. Postgres has no code for a quota that is used up or
 * for the longest file that is allowed: it calls both an internal error.
 */
const MAKES_FILE_LONGER = /^(mdextend|mdzeroextend|BufFileDumpBuffer)$/;

/** Codes of Node for a certificate of the server that is not accepted. */
const CERTIFICATE = /^(CERT_|UNABLE_TO_|SELF_SIGNED_CERT|DEPTH_ZERO_|ERR_TLS_CERT_)/;

/** Returns whether Postgres takes no writes. The driver closes the session after this error. */
export function isReadOnlySession(error: unknown): boolean {
  return codeOf(error) === '25006';
}

/** Returns whether Postgres has no room on its disk, or must not use more of it. */
export function isDiskFull(error: unknown): boolean {
  const { routine } = (error ?? {}) as { routine?: unknown };
  const code = codeOf(error);
  return code === DISK_FULL || (code === 'XX000' && MAKES_FILE_LONGER.test(String(routine)));
}

/** Returns whether the certificate of the server was not accepted. */
export function isCertificateFault(error: unknown): boolean {
  return CERTIFICATE.test(codeOf(error));
}

/** Returns whether Postgres refused a session because of the user, the password or the database. */
export function isRejectedSignIn(error: unknown): boolean {
  return endsSession(error) && SIGN_IN.test(codeOf(error));
}

/**
 * Returns whether Postgres was unreachable, out of resources or read-only, or refused or ended the
 * session. Also if this process had no place for a connection. The same call may succeed in a
 * moment.
 */
export function isPostgresUnavailable(error: unknown): boolean {
  return (
    UNAVAILABLE.test(codeOf(error)) ||
    isDiskFull(error) ||
    shortageOf(error) !== null ||
    endsSession(error) ||
    isMissingSocket(error) ||
    isCertificateFault(error)
  );
}

function endsSession(error: unknown): boolean {
  return ENDS_SESSION.test(String((error as { severity?: unknown } | null)?.severity ?? ''));
}

/** Other errors with this code are about a file or program of this machine: no wait brings it. */
function isMissingSocket(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' && (error as NodeJS.ErrnoException).syscall === 'connect';
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | null)?.code ?? '');
}
