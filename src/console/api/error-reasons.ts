import type { TransferPhase } from '../../domain/transfers/errors.ts';
import type { TransferErrorCode } from './api-types.ts';
import { ERROR_ADVICE } from './error-advice.ts';

const LABELS: Record<TransferErrorCode, string> = {
  auth_failed: 'Sign-in rejected',
  host_key_mismatch: 'Another host key than the accepted one',
  tls_error: 'No secure connection (TLS)',
  connection_failed: 'No connection to the server',
  timeout: 'The server took too long',
  stalled: 'The transfer stood still',
  source_not_found: 'Source file not found',
  source_changed: 'Source file changed while it was read',
  source_replaced: 'Newer source file than the flow has listed',
  size_unknown: 'Source server does not say the size',
  destination_not_found: 'Destination not found',
  permission_denied: 'Permission denied',
  disk_full: 'Destination full',
  file_too_large: 'File too large for the destination',
  destination_exists: 'Destination file exists',
  destination_is_source: 'Destination is the source itself',
  destination_changed: 'Destination file replaced by another writer',
  checksum_mismatch: 'Checksum differs at the destination',
  size_mismatch: 'Size differs at the destination',
  source_endpoint_not_configured: 'No endpoint for the source',
  endpoint_removed: 'Endpoint removed',
  aborted_by_operator: 'Aborted by an operator',
  internal_error: 'Fault of Waybill',
};

const PHASES: Record<TransferPhase, string> = {
  // Also of an attempt whose mover was lost, so it says nothing certain.
  prepare: '',
  source_connect: 'while the mover connected to the source',
  source_sign_in: 'while the mover signed in to the source',
  source_open: 'while the mover opened the source',
  read: 'while the mover read the source',
  destination_connect: 'while the mover connected to the destination',
  destination_sign_in: 'while the mover signed in to the destination',
  destination_open: 'while the mover opened the destination',
  write: 'while the mover wrote to the destination',
  verify: 'while the mover verified the copy',
  commit: 'while the mover gave the copy its name',
};

/** All codes that this console knows. */
export const ERROR_CODES = Object.keys(LABELS) as TransferErrorCode[];

/** Returns an error code in words, and the advice that the transfer's page gives. */
export function reasonOf(code: TransferErrorCode): { label: string; advice: string } {
  // A newer service may know more codes.
  return { label: LABELS[code] ?? code, advice: ERROR_ADVICE[code] ?? '' };
}

/** Returns what the mover did when an error happened, such as `while the mover read the source`. */
export function phaseOf(phase: string): string {
  // A newer service may know more phases.
  return PHASES[phase as TransferPhase] ?? `in the phase ${phase}`;
}
