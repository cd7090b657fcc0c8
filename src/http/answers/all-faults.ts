import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { MAX_ERRORS } from '../../domain/errors.ts';
import { wrongIdempotencyKey } from '../idempotency/header.ts';
import { idempotencyHeaders } from '../openapi/documentation.ts';
import { check, isInvalid, toError } from '../requests/validation.ts';

/** The parts of a request, as Fastify checks them in turn. It stops at the first with faults. */
const PARTS = [
  ['params', 'params', 'invalid_parameter'],
  ['body', 'body', 'validation_failed'],
  ['querystring', 'query', 'invalid_parameter'],
] as const;

/** Adds to the error of one part of a request the faults of the parts after it, and of its key. */
export function withAllFaults(error: unknown, request: FastifyRequest): unknown {
  if (!isInvalid(error)) return error;
  const { validationContext, others } = error;
  const { schema } = request.routeOptions;
  const unchecked = PARTS.slice(PARTS.findIndex(([part]) => part === validationContext) + 1);
  const found = unchecked.flatMap(([part, name, general]) =>
    schema?.[part] ? (check(schema[part] as z.ZodType, request[name], general).error ?? []) : [],
  );
  const ofKey = schema?.headers === idempotencyHeaders ? wrongIdempotencyKey(request) : null;
  const all = [error, ...found, ofKey].flatMap((fault) => fault?.details.errors ?? []);
  const errors = all.slice(0, MAX_ERRORS);
  const unnamed = found.reduce((sum, fault) => sum + fault.others, others);
  const ofBody = [error, ...found].find((part) => part.general === 'validation_failed');
  const general = ofBody?.general ?? 'invalid_parameter';
  return toError(errors, unnamed + all.length - errors.length, general);
}
