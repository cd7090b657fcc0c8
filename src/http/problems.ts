import { EventStoreFull } from '../adapters/event-store/port.ts';
import { isStoreUnavailable } from '../adapters/unavailable.ts';
import { BATCH_BODY_LIMIT, BODY_LIMIT } from '../contract/body-limits.ts';
import { type Problem, type ProblemCode, problem } from '../contract/problems.ts';
import { DomainError } from '../domain/errors.ts';
import { LogChanged } from '../domain/proof/log-changed.ts';

export const PROBLEM_TYPE = 'application/problem+json; charset=utf-8';

const OUTCOME_UNKNOWN =
  'A component of the service does not respond, and it is unknown whether the request took effect: ' +
  'repeat it in a few seconds with the same Idempotency-Key, or look first whether it did';

/** The detail of a path that no route has, or a file that does not exist. */
export const NOTHING_HERE = 'Nothing exists at this path: /docs lists all paths';

/** A request that breaks the rules of HTTP; the message says which. */
export class MalformedRequest extends Error {}

const FRAMEWORK: Record<string, { code: ProblemCode; detail: string }> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    code: 'payload_too_large',
    detail: `The body must not exceed ${inKiB(BODY_LIMIT)}, of a batch ${inKiB(BATCH_BODY_LIMIT)}`,
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'unsupported_media_type',
    detail: 'Send the body as application/json, in UTF-8',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'malformed_request',
    detail: 'The length of the body differs from Content-Length',
  },
  FST_ERR_BAD_URL: { code: 'malformed_request', detail: 'The path must be percent-encoded UTF-8' },
  FST_ERR_MAX_PARAM_LENGTH: { code: 'not_found', detail: NOTHING_HERE },
};

const FILE_CHANGED =
  'The file is not the one that If-Match or If-Unmodified-Since asks for: ask without them';

/**
 * Returns the error as the client sees it. A server-side error shows only the request id, unless
 * the log was changed. `mayTakeEffect` says that the request may take effect although a store did
 * not answer.
 */
export function toProblem(
  error: unknown,
  requestId: string,
  { mayTakeEffect = false }: { mayTakeEffect?: boolean } = {},
): Problem {
  if (error instanceof DomainError)
    return problem(error.code, detailOf(error), requestId, error.details);
  if (error instanceof MalformedRequest)
    return problem('malformed_request', error.message, requestId);
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown };
  const known = FRAMEWORK[String(code)];
  if (known) return problem(known.code, known.detail, requestId);
  // Of static files only: endpoints throw a DomainError.
  if (statusCode === 412) return problem('precondition_failed', FILE_CHANGED, requestId);
  // Before `unavailable`: a client that disconnects within its body causes ECONNRESET, like a lost
  // store.
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500)
    return problem('malformed_request', 'The request could not be read', requestId);
  if (error instanceof EventStoreFull)
    return problem(
      'unavailable',
      'The disk of the service is full, so it accepts nothing: retry when its operator has made room',
      requestId,
    );
  if (isStoreUnavailable(error)) {
    return problem(
      'unavailable',
      mayTakeEffect
        ? OUTCOME_UNKNOWN
        : 'A component of the service does not respond: retry in a few seconds',
      requestId,
    );
  }
  if (error instanceof LogChanged)
    return problem(
      'internal_error',
      `The log or its tree is not as it was signed: ${error.message}. Tell an operator and an ` +
        'auditor: this is evidence, and must not be repaired before they have seen it',
      requestId,
    );
  return problem(
    'internal_error',
    'This is a fault of the service. Give the request id to its operator',
    requestId,
  );
}

/** Returns the message. A single field error does not name its field, so this adds it. */
function detailOf({ message, details }: DomainError): string {
  const [only] = details.errors ?? [];
  return only?.message === message && only.field !== '' ? `${only.field}: ${message}` : message;
}

/** Retry-After, in seconds, of a request that found a dependency unavailable. */
export const UNAVAILABLE_RETRY_SECONDS = 5;

/** Retry-After, in seconds, by the code of the problem. */
export const RETRY_SECONDS: Partial<Record<ProblemCode, number>> = {
  unavailable: UNAVAILABLE_RETRY_SECONDS,
  idempotency_in_progress: 1,
};

function inKiB(bytes: number): string {
  return `${bytes / 1024} KiB`;
}
