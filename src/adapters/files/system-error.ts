import type { TransferErrorCode } from '../../domain/transfers/errors.ts';
import { shortageOf } from '../own-shortage.ts';

const WORDS: Record<string, string> = {
  ECONNREFUSED: 'connection refused: nothing listens at this address and port',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  EHOSTUNREACH: 'no route to this host',
  ENETUNREACH: 'no route to this network',
  ENOTFOUND: 'this host name has no address',
  EAI_AGAIN: 'the look-up of this host name failed',
  ETIMEDOUT: 'no answer in time',
};

const CERTIFICATE_TIMES: Record<string, string> = {
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
};

/**
 * Returns the text of an error for people: what a system error means, else its message. The system
 * repeats the address in its own text and names only the code.
 */
export function explainError(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const time = explainCertificateTime(String(code));
  if (time !== null) return `the certificate ${time}`;
  return shortageOf(error) ?? WORDS[String(code)] ?? (message || String(code ?? error));
}

/**
 * Returns what the code of a TLS error says about the time of a certificate, and by which clock: if
 * that of this machine is wrong, a good certificate seems wrong. Null for other codes.
 */
export function explainCertificateTime(code: string): string | null {
  const words = CERTIFICATE_TIMES[code];
  return words === undefined
    ? null
    : `${words} by the clock of this machine (${new Date().toISOString()})`;
}

const CODES: Record<string, TransferErrorCode> = { ETIMEDOUT: 'timeout', ESTALLED: 'stalled' };

/** Returns the code for a system error or a silent server; undefined if it has none. */
export function codeOfSystemError(error: unknown): TransferErrorCode | undefined {
  return CODES[String((error as NodeJS.ErrnoException).code)];
}

/**
 * Returns a server's text without the path, which many servers repeat and which may contain any
 * word. It removes the path as it was sent, and as the server spells it: with the name of a part
 * file, or from the server's own root.
 */
export function withoutPath(text: string, path: string): string {
  return text.replaceAll(path, '').replace(/(?<=^|[\s'"(])(?:[a-z]:)?[\\/].*?(?=: |['"]|$)/gim, '');
}
