import type { TransferErrorCode } from './transfers/errors.ts';

/** Codes of rejected commands and requests. `contract/problems.ts` maps each to a status. */
export type DomainErrorCode =
  | 'validation_failed'
  | 'invalid_json'
  | 'invalid_parameter'
  | 'unknown_field'
  | 'endpoint_not_configured'
  | 'credentials_in_uri'
  | 'api_key_missing'
  | 'api_key_malformed'
  | 'api_key_invalid'
  | 'api_key_expired'
  | 'api_key_revoked'
  | 'api_key_id_used'
  | 'session_ended'
  | 'insufficient_scope'
  | 'cross_site_request'
  | 'not_found'
  | 'method_not_allowed'
  | 'batch_not_cancellable'
  | 'batch_not_retryable'
  | 'transfer_not_cancellable'
  | 'transfer_not_retryable'
  | 'priority_not_changeable'
  | 'receipt_not_ready'
  | 'idempotency_in_progress'
  | 'idempotency_key_reused'
  | 'limit_reached'
  | 'endpoint_in_use'
  | 'webhook_disabled'
  | 'precondition_failed'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'rate_limited'
  | 'endpoint_failed'
  | 'unavailable'
  | 'internal_error';

/** Maximum number of errors in one answer. */
export const MAX_ERRORS = 100;

/** One error in one field of a request. */
export interface FieldError {
  field: string;
  code: string;
  message: string;
}

export interface DomainErrorDetails {
  errors?: FieldError[];
  transfer_id?: string;
  /** The transfers that prevent the change. */
  transfer_ids?: string[];
  current_status?: string;
  required_scope?: string;
  /** The error of an endpoint's server. The codes are those of failed transfers. */
  endpoint_error?: { code: TransferErrorCode; message: string; advice: string };
}

/** A broken rule: the command is rejected, and the message says what to do instead. */
export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: DomainErrorCode;
  readonly details: DomainErrorDetails;

  constructor(
    code: DomainErrorCode,
    message: string,
    details: DomainErrorDetails = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
  }
}

type ResourceKind =
  | 'transfer'
  | 'batch'
  | 'flow'
  | 'endpoint'
  | 'key'
  | 'webhook'
  | 'delivery'
  | 'event'
  | 'projection';

/** Creates the error for a resource that does not exist or that the caller may not see. */
export function notFound(kind: ResourceKind): DomainError {
  return new DomainError('not_found', `There is no such ${kind}`);
}

/** Creates the error for one invalid field. */
export function fieldError(
  field: string,
  message: string,
  code: DomainErrorCode = 'validation_failed',
): DomainError {
  return new DomainError(code, message, { errors: [{ field, code, message }] });
}

/**
 * Creates the error for several invalid fields. `errors` has the first `MAX_ERRORS` of them, and
 * `others` is the number of the rest.
 */
export function fieldErrors(
  errors: FieldError[],
  others: number,
  code: DomainErrorCode = 'validation_failed',
): DomainError {
  const named = errors.map(({ field, message }) => (field ? `${field}: ${message}` : message));
  const rest = others > 0 ? [`and ${others} more`] : [];
  return new DomainError(code, [...named, ...rest].join('; '), { errors });
}

/** Returns the message of an error on one line, for a log entry without a stack. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  return message.replace(/\s*\n\s*/g, ' ');
}
