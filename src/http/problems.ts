import { EventStoreUnavailable } from '../adapters/event-store/port.ts';
import { isPostgresUnavailable } from '../adapters/postgres/unavailable.ts';
import { DomainError, type DomainErrorCode, type DomainErrorDetails } from '../domain/errors.ts';

export const PROBLEM_TYPE = 'application/problem+json; charset=utf-8';

export type ProblemCode = DomainErrorCode | 'malformed_request' | 'headers_too_large' | 'request_timeout';

/** The one table that gives a code its status and its name. */
export const PROBLEMS: Record<ProblemCode, { status: number; title: string }> = {
  validation_failed: { status: 400, title: 'The request is not valid' },
  invalid_json: { status: 400, title: 'The body is not JSON' },
  invalid_parameter: { status: 400, title: 'A parameter is not valid' },
  unknown_field: { status: 400, title: 'The request has a field that is not known' },
  endpoint_not_configured: { status: 400, title: 'No endpoint is configured for the destination' },
  credentials_in_uri: { status: 400, title: 'A URI holds a password' },
  malformed_request: { status: 400, title: 'The request is not HTTP as it should be' },
  api_key_missing: { status: 401, title: 'No API key was given' },
  api_key_malformed: { status: 401, title: 'The API key is malformed' },
  api_key_invalid: { status: 401, title: 'The API key is not known' },
  api_key_expired: { status: 401, title: 'The API key has expired' },
  api_key_revoked: { status: 401, title: 'The API key was revoked' },
  api_key_id_used: { status: 401, title: 'The id of an API key was given instead of the key' },
  session_ended: { status: 401, title: 'The console session has ended' },
  insufficient_scope: { status: 403, title: 'The API key lacks the permission' },
  cross_site_request: { status: 403, title: 'The request comes from another site' },
  not_found: { status: 404, title: 'There is no such resource' },
  method_not_allowed: { status: 405, title: 'The resource does not have this method' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  transfer_not_cancellable: { status: 409, title: "The transfer can't be cancelled in its state" },
  idempotency_in_progress: { status: 409, title: 'A request with this Idempotency-Key is in progress' },
  limit_reached: { status: 409, title: 'A limit of the account is reached' },
  endpoint_in_use: { status: 409, title: 'The endpoint is in use' },
  webhook_disabled: { status: 409, title: 'The webhook is disabled' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: { status: 415, title: 'The body is not of a type that is accepted' },
  idempotency_key_reused: { status: 422, title: 'The Idempotency-Key was used with another body' },
  rate_limited: { status: 429, title: 'Too many requests' },
  headers_too_large: { status: 431, title: 'The headers are too large' },
  internal_error: { status: 500, title: 'Something went wrong in the service' },
  endpoint_failed: { status: 502, title: "The endpoint's server did not do what was asked of it" },
  unavailable: { status: 503, title: 'The service is not available at this moment' },
};

/** An error as a client sees it: RFC 9457, with a code for programs. */
export interface Problem extends DomainErrorDetails {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  request_id: string;
}

export function problem(code: ProblemCode, detail: string, requestId: string, details: DomainErrorDetails = {}): Problem {
  const { status, title } = PROBLEMS[code];
  return { type: `urn:waybill:problem:${code}`, title, status, detail, code, request_id: requestId, ...details };
}

const FRAMEWORK: Record<string, { code: ProblemCode; detail: string }> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'payload_too_large', detail: 'A body may have at most 64 KiB' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: { code: 'unsupported_media_type', detail: 'Send the body as application/json, in UTF-8' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: { code: 'malformed_request', detail: 'The body is not as long as Content-Length says' },
  FST_ERR_BAD_URL: { code: 'malformed_request', detail: 'The path must be percent-encoded UTF-8' },
  FST_ERR_MAX_PARAM_LENGTH: { code: 'not_found', detail: 'There is nothing at this path' },
};

/** What a client is told of an error. Of one that he did not cause he learns nothing but the request id. */
export function toProblem(error: unknown, requestId: string): Problem {
  if (error instanceof DomainError) return problem(error.code, detailOf(error), requestId, error.details);
  if (isUnavailable(error)) {
    return problem('unavailable', 'A part of the service that is needed for this does not answer; try again in a moment', requestId);
  }
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown };
  const known = FRAMEWORK[String(code)];
  if (known) return problem(known.code, known.detail, requestId);
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return problem('malformed_request', 'The request could not be read', requestId);
  }
  return problem('internal_error', 'This is a fault of the service. Tell its operator the request id', requestId);
}

/** An error of one field does not name it; beside others, the message does. */
function detailOf({ message, details }: DomainError): string {
  const [only] = details.errors ?? [];
  return only?.message === message && only.field !== '' ? `${only.field}: ${message}` : message;
}

/** Seconds after which a request that found a dependency down may be sent again. */
export const UNAVAILABLE_RETRY_SECONDS = 5;

function isUnavailable(error: unknown): boolean {
  return error instanceof EventStoreUnavailable || isPostgresUnavailable(error);
}
