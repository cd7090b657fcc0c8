/**
 * The reasons why an attempt fails. This table alone decides whether an error is retried and what
 * advice the reader gets.
 */
export const TRANSFER_ERRORS = {
  auth_failed: {
    retryable: false,
    advice:
      "Check the endpoint's user name and its password or key, that the server's authorized_keys has the key, and that the account is not locked; then replace the endpoint's credentials.",
  },
  host_key_mismatch: {
    retryable: false,
    advice:
      "Compare the server's host key with the one that its administrator names, then accept it with `waybill endpoints test NAME --accept-host-key`. No password was sent.",
  },
  tls_error: {
    retryable: false,
    advice:
      "Check the server's certificate, its name and its validity, or give the endpoint the CA that signed it (`ca_pem`). An SFTP server must enable one of the algorithms that the message names.",
  },
  connection_failed: {
    retryable: true,
    advice:
      'Check the host name and port of the endpoint, that the server runs, and that no firewall blocks the connection.',
  },
  timeout: {
    retryable: true,
    advice: 'The server took too long to answer. Check its load and the network.',
  },
  stalled: {
    retryable: true,
    advice:
      'No byte moved for a minute, or less than 64 KiB in ten minutes. Check the network and the load of both servers.',
  },
  source_not_found: {
    retryable: false,
    advice:
      'Check the path of the source, letter case included. Retry the transfer when the file is there, or create one with the right path.',
  },
  source_changed: {
    retryable: true,
    advice:
      'The source was written to while it was read. Let its writer finish (or write elsewhere and rename), then retry the transfer.',
  },
  source_replaced: {
    retryable: false,
    advice:
      'The flow listed another version of the file. It takes the new version when that is ready: you need to do nothing.',
  },
  size_unknown: {
    retryable: false,
    advice:
      'The server does not say how large the source is, or says a wrong size: it decompresses or generates what it sends. Store the object without `Content-Encoding`, make the server send `Content-Length`, or copy a generated file to a plain one first.',
  },
  destination_not_found: {
    retryable: false,
    advice:
      "Create the destination's bucket or container, or correct the endpoint's configuration.",
  },
  permission_denied: {
    retryable: false,
    advice:
      "Give the endpoint's user the right to read the source or to write the destination. If the message names a lease or a lock, end that first. If a name is too long, or a file has the name of a folder in the path, choose another destination.",
  },
  disk_full: {
    retryable: true,
    advice: 'Make room on the destination, or raise the quota of its user.',
  },
  file_too_large: {
    retryable: false,
    advice:
      'The destination does not take a file of this size. Split the file, or choose another destination.',
  },
  destination_exists: {
    retryable: false,
    advice:
      'The endpoint does not overwrite, or a folder has the name. Choose another name, remove what is there, or set `overwrite` on the endpoint. End the destination with a slash to copy into a folder.',
  },
  destination_changed: {
    retryable: false,
    advice:
      'Another writer replaced or removed the file after the commit, so its content could not be checked. Find out what else writes there, then retry the transfer if its file is still wanted.',
  },
  destination_is_source: {
    retryable: false,
    advice:
      'The source and the destination are one file: a folder is a link or mount of the other, or two endpoints lead to one server. Nothing was replaced or removed. Choose another destination, or create the transfer without deleting or moving the source.',
  },
  checksum_mismatch: {
    retryable: false,
    advice:
      'If the transfer has `expected_sha256`, the source is another file: ask its sender. Otherwise the destination has other bytes than those that were read: check the disks and memory of both servers, then retry.',
  },
  size_mismatch: {
    retryable: true,
    advice:
      'The file at the destination has another size than what was read. Check what else writes there.',
  },
  source_endpoint_not_configured: {
    retryable: false,
    advice: 'Configure an endpoint for the source: a host that no endpoint names is never dialled.',
  },
  endpoint_removed: {
    retryable: false,
    advice: 'The endpoint was removed. Configure it again, then retry the transfer.',
  },
  aborted_by_operator: {
    retryable: false,
    advice: 'An operator ended this transfer. Retry it if it is still wanted.',
  },
  internal_error: {
    retryable: true,
    advice: 'This is a fault of the service. Tell its operator the id of the transfer.',
  },
} as const satisfies Record<string, { retryable: boolean; advice: string }>;

export type TransferErrorCode = keyof typeof TRANSFER_ERRORS;

const NETWORK_FAILURES: readonly TransferErrorCode[] = ['connection_failed', 'timeout', 'stalled'];

/** Returns true for a network error on the way to a server; false if the server answered. */
export function isNetworkFailure(code: TransferErrorCode): boolean {
  return NETWORK_FAILURES.includes(code);
}

/** The phase of an attempt in which the error happened. */
export type TransferPhase =
  | 'prepare'
  | 'source_connect'
  | 'source_sign_in'
  | 'source_open'
  | 'read'
  | 'destination_connect'
  | 'destination_sign_in'
  | 'destination_open'
  | 'write'
  | 'verify'
  | 'commit';

/** The message of a transfer whose sign-in a server rejects. The wire contract fixes it. */
export const AUTHENTICATION_FAILED = 'Authentication failed';

/** The error of a transfer as events hold it and the API shows it. */
export interface TransferError {
  code: TransferErrorCode;
  /**
   * The server's message if it sent one, without secrets. For `auth_failed` it is
   * `AUTHENTICATION_FAILED`, or names the hop on the way to the server.
   */
  message: string;
  retryable: boolean;
  phase: TransferPhase;
  /** Attempts made so far, this one included. */
  attempts: number;
  occurred_at: string;
  advice: string;
}

/** A mover's report of a failed attempt. The decider adds the other fields of the error. */
export interface AttemptFailure {
  code: TransferErrorCode;
  message: string;
  phase: TransferPhase;
}

export function transferError(
  failure: AttemptFailure,
  attempts: number,
  occurredAt: string,
): TransferError {
  const { retryable, advice } = TRANSFER_ERRORS[failure.code];
  return { ...failure, retryable, attempts, occurred_at: occurredAt, advice };
}
