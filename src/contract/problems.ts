import { z } from 'zod';
import type { DomainErrorCode, DomainErrorDetails } from '../domain/errors.ts';
import { transferErrorCode } from './transfers/errors.ts';

/** The codes of all problems: those of rejected commands, and three of HTTP alone. */
export type ProblemCode =
  | DomainErrorCode
  | 'malformed_request'
  | 'headers_too_large'
  | 'request_timeout';

/** Status and title of each code. */
export const PROBLEMS: Record<ProblemCode, { status: number; title: string }> = {
  validation_failed: { status: 400, title: 'The request is not valid' },
  invalid_json: { status: 400, title: 'The body is not JSON' },
  invalid_parameter: { status: 400, title: 'A parameter is not valid' },
  unknown_field: { status: 400, title: 'The request has an unknown field' },
  endpoint_not_configured: { status: 400, title: 'No endpoint is configured for the destination' },
  credentials_in_uri: { status: 400, title: 'A URI contains credentials' },
  malformed_request: { status: 400, title: 'The request is not valid HTTP' },
  api_key_missing: { status: 401, title: 'The API key is missing' },
  api_key_malformed: { status: 401, title: 'The API key is malformed' },
  api_key_invalid: { status: 401, title: 'The API key is unknown' },
  api_key_expired: { status: 401, title: 'The API key has expired' },
  api_key_revoked: { status: 401, title: 'The API key was revoked' },
  api_key_id_used: { status: 401, title: 'The id of an API key was sent instead of the key' },
  session_ended: { status: 401, title: 'The console session has ended' },
  insufficient_scope: { status: 403, title: 'The API key lacks a scope' },
  cross_site_request: { status: 403, title: 'The request comes from another site' },
  not_found: { status: 404, title: 'The resource does not exist' },
  method_not_allowed: { status: 405, title: 'The resource does not support this method' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  batch_not_cancellable: { status: 409, title: 'The batch has ended, so it cannot be cancelled' },
  batch_not_retryable: { status: 409, title: 'The batch has no failed transfer to retry' },
  transfer_not_cancellable: {
    status: 409,
    title: 'The transfer cannot be cancelled in its current status',
  },
  transfer_not_retryable: {
    status: 409,
    title: 'The transfer cannot be retried in its current status',
  },
  priority_not_changeable: {
    status: 409,
    title: 'The priority of the transfer cannot be changed in its current status',
  },
  receipt_not_ready: { status: 409, title: 'The receipt cannot be made yet' },
  idempotency_in_progress: {
    status: 409,
    title: 'A request with this Idempotency-Key is in progress',
  },
  limit_reached: { status: 409, title: 'The account has reached a limit' },
  endpoint_in_use: { status: 409, title: 'The endpoint is in use' },
  webhook_disabled: { status: 409, title: 'The webhook is disabled' },
  precondition_failed: { status: 412, title: 'The resource has changed' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: {
    status: 415,
    title: 'The type or encoding of the body is not accepted',
  },
  idempotency_key_reused: { status: 422, title: 'The Idempotency-Key was used with another body' },
  rate_limited: { status: 429, title: 'Too many requests' },
  headers_too_large: { status: 431, title: 'The headers are too large' },
  internal_error: { status: 500, title: 'An internal error occurred' },
  endpoint_failed: { status: 502, title: "The request to the endpoint's server failed" },
  unavailable: { status: 503, title: 'The service is temporarily unavailable' },
};

/** An error as the client sees it: RFC 9457, with a code for programs. */
export interface Problem extends DomainErrorDetails {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  request_id: string;
}

export const problemCode = z
  .enum(Object.keys(PROBLEMS) as [ProblemCode])
  .describe('The error code, for programs.');

const fieldError = z
  .strictObject({ field: z.string(), code: z.string(), message: z.string() })
  .meta({ id: 'FieldError' });

export const problemSchema = z
  .strictObject({
    type: z.string().meta({ examples: ['urn:waybill:problem:validation_failed'] }),
    title: z.string().describe('The same for every problem with this code.'),
    status: z.int().meta({ examples: [400] }),
    detail: z
      .string()
      .describe('What went wrong, and what to do.')
      .meta({ 'x-ms-primary-error-message': true }),
    code: problemCode,
    request_id: z
      .string()
      .describe(
        'The value of `X-Request-Id`; in a replayed answer, that of the first request. Quote it ' +
          'when you ask for help.',
      )
      .meta({ examples: ['req_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    errors: z.array(fieldError).optional().describe('The first 100 errors of the request.'),
    required_scope: z.string().optional().describe('The scope that the key lacks.'),
    transfer_id: z.string().optional(),
    transfer_ids: z
      .array(z.string())
      .optional()
      .describe('Transfers that prevent the change, at most ten.'),
    endpoint_error: z
      .strictObject({
        code: transferErrorCode,
        message: z.string(),
        advice: z.string().describe('What to do.'),
      })
      .meta({ id: 'EndpointError' })
      .optional()
      .describe("The error of the endpoint's server. The codes are those of failed transfers."),
    current_status: z.string().optional().describe('The current status of the transfer.'),
  })
  .meta({ id: 'Problem', description: 'An error (RFC 9457).' });

/** Returns the problem of a code. `detail` says what went wrong, and what to do. */
export function problem(
  code: ProblemCode,
  detail: string,
  requestId: string,
  details: DomainErrorDetails = {},
): Problem {
  const { status, title } = PROBLEMS[code];
  return {
    type: `urn:waybill:problem:${code}`,
    title,
    status,
    detail,
    code,
    request_id: requestId,
    ...details,
  };
}
