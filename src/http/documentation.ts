import { z } from 'zod';
import { transferErrorCode } from '../commands/answers.ts';
import { IDEMPOTENCY_KEYS_KEPT } from '../processes/housekeeping.ts';
import { PROBLEMS, type Problem, type ProblemCode, problem } from './problems.ts';

const fieldError = z.strictObject({ field: z.string(), code: z.string(), message: z.string() });

export const problemSchema = z
  .strictObject({
    type: z.string().meta({ format: 'uri', examples: ['urn:waybill:problem:validation_failed'] }),
    title: z.string().describe('The same for every problem of this code.'),
    status: z.int().meta({ examples: [400] }),
    detail: z.string().describe('What went wrong here, and what to do.'),
    code: z.enum(Object.keys(PROBLEMS) as [ProblemCode]).describe('For programs.'),
    request_id: z
      .string()
      .describe('As in X-Request-Id; name it when you ask for help.')
      .meta({ examples: ['req_01JZ8Q6W3N5V4T2R1P0M9K8J7H'] }),
    errors: z.array(fieldError).optional().describe('Everything that is wrong with the request.'),
    required_scope: z.string().optional().describe('The scope that the key lacks.'),
    transfer_id: z.string().optional(),
    transfer_ids: z.array(z.string()).optional().describe('Transfers that stand in the way; ten at most.'),
    endpoint_error: z
      .strictObject({ code: transferErrorCode, message: z.string(), advice: z.string().describe('What to do about it.') })
      .optional()
      .describe("What the endpoint's server did, with a code of the errors of transfers."),
    current_status: z.string().optional().describe('The state that the transfer is in.'),
  })
  .meta({ id: 'Problem', description: 'An error, as RFC 9457 has it.' });

/** What any route may answer that needs no key. */
export const OPEN: ProblemCode[] = ['rate_limited', 'internal_error', 'unavailable'];

/** What any route may answer that needs a key. */
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

/** What any route may answer that reads a body. */
export const WITH_BODY: ProblemCode[] = [
  'validation_failed',
  'unknown_field',
  'invalid_json',
  'payload_too_large',
  'unsupported_media_type',
];

/** What any route may answer that reads an Idempotency-Key. */
export const WITH_IDEMPOTENCY_KEY: ProblemCode[] = ['invalid_parameter', 'idempotency_in_progress', 'idempotency_key_reused'];

/** The query of a request that has none. */
export const noQuery = z.strictObject({});

/** The body of an answer that has none. */
export const nothing = z.null();

/** A route's answers for its schema: those of success by status, and every code of a problem under the code's status. */
export function responses(
  success: Record<number, [description: string, schema: z.ZodType, type?: string]>,
  codes: ProblemCode[],
  always: ProblemCode[] = WITH_KEY,
): Record<number, unknown> {
  const answers: Record<number, unknown> = {};
  for (const [status, [description, schema, type = 'application/json']] of Object.entries(success)) {
    answers[Number(status)] = schema === nothing ? nothing.describe(description) : { description, content: { [type]: { schema } } };
  }
  const byStatus = Map.groupBy([...codes, ...always], (code) => PROBLEMS[code].status);
  for (const [status, ofStatus] of byStatus) {
    const description = ofStatus.map((code) => `\`${code}\`: ${PROBLEMS[code].title}`).join('\n\n');
    answers[status] = { description, content: { 'application/problem+json': { schema: problemSchema, examples: examplesOf(ofStatus) } } };
  }
  return answers;
}

function examplesOf(codes: ProblemCode[]): Record<string, { value: Problem }> {
  const requestId = 'req_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
  return Object.fromEntries(codes.map((code) => [code, { value: problem(code, PROBLEMS[code].title, requestId) }]));
}

// Headers reach the validator in lower case and `idempotent` reads this one itself: here it is only described.
export const idempotencyHeaders = z.looseObject({
  'Idempotency-Key': z
    .string()
    .optional()
    .describe(
      `Of your choice, 1 to 255 printable ASCII characters. The same request with the same key within ${IDEMPOTENCY_KEYS_KEPT} is not done again: it gets the first answer, with \`Idempotent-Replayed: true\`.`,
    ),
});
