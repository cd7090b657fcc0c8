import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import {
  PROBLEMS,
  type Problem,
  type ProblemCode,
  problem,
  problemSchema,
} from '../../contract/problems.ts';
import { IDEMPOTENCY_KEYS_KEPT } from '../idempotency/table.ts';

/** Problems of every route that needs no key. */
export const OPEN: ProblemCode[] = [
  'malformed_request',
  'rate_limited',
  'internal_error',
  'unavailable',
];

/** Problems of every route that needs a key. */
const WITH_KEY: ProblemCode[] = [
  'api_key_missing',
  'api_key_malformed',
  'api_key_invalid',
  'api_key_expired',
  'api_key_revoked',
  'api_key_id_used',
  'session_ended',
  'insufficient_scope',
  'cross_site_request',
  ...OPEN,
];

/** Problems of every route that reads a body, or rejects one. */
export const WITH_BODY: ProblemCode[] = [
  'validation_failed',
  'unknown_field',
  'invalid_json',
  'request_timeout',
  'payload_too_large',
  'unsupported_media_type',
];

/** Problems of every route that reads an Idempotency-Key. */
export const WITH_IDEMPOTENCY_KEY: ProblemCode[] = [
  'invalid_parameter',
  'idempotency_in_progress',
  'idempotency_key_reused',
];

/** The query of a route without query parameters. */
export const noQuery = z.strictObject({});

/** The body of an answer without a body. */
export const nothing = z.null();

export const JSON_TYPE = 'application/json';
const PROBLEM_JSON = 'application/problem+json';

type Success = [description: string, schema: z.ZodType, type?: string, example?: unknown];

/**
 * Returns the answers of a route for its schema: the successful ones by status, and each problem
 * code under its status.
 */
export function responses(
  success: Record<number, Success>,
  codes: ProblemCode[],
  always: ProblemCode[] = WITH_KEY,
): Record<number, unknown> {
  const answers: Record<number, unknown> = {};
  for (const [status, answer] of Object.entries(success)) {
    const [description, schema, type = JSON_TYPE, example] = answer;
    const media = example === undefined ? { schema } : { schema, example };
    answers[Number(status)] =
      schema === nothing
        ? nothing.describe(description)
        : { description, content: { [type]: media } };
  }
  return Object.assign(answers, problemAnswers([...codes, ...always]));
}

/** Returns the answers of a route with those of a body that it rejects. */
export function rejectingBodies(answers: Record<string, unknown>): Record<string, unknown> {
  const known = Object.values(answers).flatMap((answer) => {
    const { content } = answer as { content?: Record<string, { examples?: object }> };
    return Object.keys(content?.[PROBLEM_JSON]?.examples ?? {}) as ProblemCode[];
  });
  return { ...answers, ...problemAnswers([...new Set([...known, ...WITH_BODY])]) };
}

/** Returns each problem code under its status. */
function problemAnswers(codes: ProblemCode[]): Record<number, unknown> {
  const answers: Record<number, unknown> = {};
  const byStatus = Map.groupBy(codes.toSorted(), (code) => PROBLEMS[code].status);
  for (const [status, ofStatus] of byStatus) answers[status] = problemAnswer(status, ofStatus);
  return answers;
}

/** Answers by their codes. Most routes share most of theirs. */
const described = new Map<string, unknown>();

function problemAnswer(status: number, codes: ProblemCode[]): unknown {
  const known = described.get(codes.join());
  if (known !== undefined) return known;
  const meanings = codes.map((code) => `\`${code}\`: ${PROBLEMS[code].title}`);
  const answer = {
    description: [`${STATUS_CODES[status]}, with one of these codes:`, ...meanings].join('\n\n'),
    content: {
      [PROBLEM_JSON]: { schema: problemSchema, examples: examplesOf(codes) },
    },
  };
  described.set(codes.join(), answer);
  return answer;
}

function examplesOf(codes: ProblemCode[]): Record<string, { value: Problem }> {
  const requestId = 'req_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
  return Object.fromEntries(
    codes.map((code) => [code, { value: problem(code, PROBLEMS[code].title, requestId) }]),
  );
}

// For the documentation only: `readIfMatch` reads it.
export const ifMatchHeaders = z.looseObject({
  'If-Match': z
    .string()
    .optional()
    .describe(
      'The `ETag` that you have read: the `revision` in quotation marks. If another request has ' +
        'changed the endpoint since, or its connectivity has, the answer is 412. A PUT that ' +
        'changes nothing succeeds.',
    )
    .meta({ examples: ['"7"'] }),
});

// For the documentation only. Headers reach the validator in lower case, and `idempotent` reads
// this one itself.
export const idempotencyHeaders = z.looseObject({
  'Idempotency-Key': z
    .string()
    .optional()
    .describe(
      'A key of your choice: 1 to 255 printable ASCII characters. A request with the same key ' +
        `within ${IDEMPOTENCY_KEYS_KEPT} is not carried out again. It gets the first answer, ` +
        'with `Idempotent-Replayed: true`.',
    ),
});
