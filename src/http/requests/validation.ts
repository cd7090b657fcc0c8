import type { FastifyInstance, FastifyRequest, FastifySchemaCompiler } from 'fastify';
import { z } from 'zod';
import { fieldName, inWords, withoutVainLimits } from '../../contract/validation-messages.ts';
import {
  DomainError,
  type DomainErrorCode,
  type FieldError,
  fieldErrors,
  MAX_ERRORS,
} from '../../domain/errors.ts';

/** Validates each request, also one to a route that reads no body. */
export function validateRequests(app: FastifyInstance): void {
  app.setValidatorCompiler(validatorCompiler);
  app.addHook('preValidation', rejectUnreadBody);
}

/** Checks a part of a request against its zod schema. The error names the first 100 faults. */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> = ({ schema, httpPart }) => {
  const general = httpPart === 'body' ? 'validation_failed' : 'invalid_parameter';
  return (data: unknown) => check(schema, data, general);
};

const NOTHING = z.strictObject({}).nullish();

/**
 * Rejects a body on a route that reads none: a client expects each field to have an effect. Fastify
 * reads no body of a GET or HEAD.
 */
async function rejectUnreadBody({ body, routeOptions }: FastifyRequest): Promise<void> {
  if (routeOptions.schema?.body !== undefined) return;
  const { error } = check(NOTHING, body, 'validation_failed');
  if (error) throw Object.assign(error, { validationContext: 'unread body' });
}

type General = 'validation_failed' | 'invalid_parameter';

interface Faults {
  /** The number of faults that `errors` does not name. */
  others: number;
  general: General;
  /** The part of the request, which Fastify adds. */
  validationContext?: string;
}
/** The error of one part of a request that does not match its schema. */
type Invalid = DomainError & Faults;

export function isInvalid(error: unknown): error is Invalid {
  return error instanceof DomainError && 'others' in error;
}

/** Checks a value against a schema. `general` is the code of faults that have none of their own. */
export function check(
  schema: z.ZodType,
  data: unknown,
  general: General,
): { value?: unknown; error?: Invalid } {
  const {
    success,
    data: value,
    error,
  } = schema.safeParse(data, { reportInput: true, error: inWords });
  return success ? { value } : { error: invalid(error, general) };
}

/** Converts no more issues than it returns: a body of 64 KiB can cause tens of thousands. */
function invalid(error: z.ZodError, general: General): Invalid {
  const issues = withoutVainLimits(error.issues);
  const errors = issues
    .slice(0, MAX_ERRORS)
    .flatMap((issue) => toFieldErrors(issue, general))
    .slice(0, MAX_ERRORS);
  const others = issues.reduce((sum, issue) => sum + faultsOf(issue), 0) - errors.length;
  return toError(errors, others, general);
}

/** Returns the error of faults. `others` is the number of those that `errors` does not have. */
export function toError(errors: FieldError[], others: number, general: General): Invalid {
  const [first] = errors as [FieldError];
  const shared = errors.every(({ code }) => code === first.code)
    ? (first.code as DomainErrorCode)
    : general;
  return Object.assign(fieldErrors(errors, others, shared), { others, general });
}

function faultsOf(issue: z.core.$ZodIssue): number {
  return issue.code === 'unrecognized_keys' ? issue.keys.length : 1;
}

function toFieldErrors(issue: z.core.$ZodIssue, general: string): FieldError[] {
  const field = fieldName(issue.path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, MAX_ERRORS).map((key) => ({
      field: fieldName([...issue.path, key]),
      code: 'unknown_field',
      message: 'is not a known field',
    }));
  }
  const own = issue.code === 'custom' ? issue.params?.code : undefined;
  return [
    { field, code: typeof own === 'string' ? own : general, message: messageOf(issue, general) },
  ];
}

function messageOf(issue: z.core.$ZodIssue, general: string): string {
  if (general === 'invalid_parameter' && Array.isArray(issue.input)) return 'must be given once';
  if (issue.code === 'invalid_type' && issue.path.length === 0)
    return 'the body must be a JSON object';
  return issue.message;
}
