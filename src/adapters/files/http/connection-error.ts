import { isIPv6 } from 'node:net';
import { FileError, type FileStep } from '../port.ts';
import { explainError } from '../system-error.ts';

/** The server went down within a TLS record. These are not certificate errors. */
const CUT = /UNEXPECTED_EOF|BAD_RECORD_MAC/;
const TLS_ERROR =
  /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|EPROTO)/;
const CONNECTING = new Set(['connect', 'getaddrinfo']);
/** Names of system errors, and codes of Node's parser for an answer that is not HTTP. */
const OF_THE_NETWORK = /^(E[A-Z0-9]+|EAI_.+|HPE_.+|ERR_STREAM_PREMATURE_CLOSE)$/;

/**
 * Returns the FileError for a request that got no answer, or an answer that is not HTTP. `subject`
 * names the file or server of the request.
 */
export function connectionError(error: unknown, step: FileStep, subject: string): FileError {
  if (error instanceof FileError) return error;
  const { code = '', syscall = '' } = error as NodeJS.ErrnoException;
  const words = `${subject}: ${explainError(error)}${placeOf(error)}`;
  if (CUT.test(code)) return new FileError('connection_failed', step, words, { cause: error });
  if (TLS_ERROR.test(code)) return new FileError('tls_error', 'connect', words, { cause: error });
  if (!OF_THE_NETWORK.test(code))
    return new FileError('internal_error', step, words, { cause: error });
  const at = CONNECTING.has(syscall) || error instanceof AggregateError ? 'connect' : step;
  return new FileError(code === 'ETIMEDOUT' ? 'timeout' : 'connection_failed', at, words, {
    cause: error,
  });
}

/** Returns the FileError for a server that keeps a request waiting. `how` says how. */
export function stalledError(host: string, how: string): FileError {
  return new FileError('stalled', 'transfer', `${host}: ${how}`);
}

/** Says in an error that a server is silent. */
export function silentText(stallMs: number): string {
  return `no byte went in or out for ${stallMs / 1000} s`;
}

/** The subject may be a file, which does not tell where the request went. */
function placeOf(error: unknown): string {
  const [first] = error instanceof AggregateError ? error.errors : [error];
  const { address, port } = first ?? {};
  return address === undefined ? '' : ` (${isIPv6(address) ? `[${address}]` : address}:${port})`;
}
