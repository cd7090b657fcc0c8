import { STATUS_CODES } from 'node:http';
import type { OpenAPIV3_1 } from 'openapi-types';
import { markGrowing } from './enums.ts';
import type { Schema } from './schema.ts';

type Answer = OpenAPIV3_1.ResponseObject;

export const HEADERS: Record<string, OpenAPIV3_1.HeaderObject> = {
  'X-Request-Id': { description: 'The id of the request.', schema: { type: 'string' } },
  'X-RateLimit-Limit': { description: 'Requests allowed per minute.', schema: { type: 'integer' } },
  'X-RateLimit-Remaining': {
    description: 'Requests left in the current window.',
    schema: { type: 'integer' },
  },
  'X-RateLimit-Reset': {
    description: 'Unix time, in seconds, at which the window ends.',
    schema: { type: 'integer' },
  },
  Accept: { description: '`application/json`', schema: { type: 'string' } },
  'Accept-Encoding': { description: '`identity`', schema: { type: 'string' } },
  'Retry-After': { description: 'Whole seconds to wait.', schema: { type: 'integer' } },
  'WWW-Authenticate': { description: '`Bearer`', schema: { type: 'string' } },
  Location: {
    description: 'The path of the new resource, if there is one.',
    schema: { type: 'string' },
  },
  ETag: {
    description:
      'The version: of an endpoint its `revision`, for `If-Match`. `health` and `bandwidth_now` ' +
      'change without it, so an endpoint is never answered with 304.',
    schema: { type: 'string' },
  },
  'Idempotent-Replayed': {
    description: '`true` if this is the stored answer of an earlier request.',
    schema: { type: 'string' },
  },
};

const ON_EVERY_ANSWER = ['X-Request-Id'];
const ON_EVERY_ANSWER_OF_THE_API = [
  ...ON_EVERY_ANSWER,
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
];
const WITH_ETAG = ['getEndpoint', 'getOpenApi', 'updateEndpoint'];
const BY_STATUS: Record<string, string[]> = {
  201: ['Location'],
  202: ['Location'],
  401: ['WWW-Authenticate'],
  415: ['Accept', 'Accept-Encoding'],
  429: ['Retry-After'],
  503: ['Retry-After'],
};

/** Adds to every answer of the document the headers that it carries. */
export function addHeaders(document: OpenAPIV3_1.Document): void {
  for (const { path, operation, status, answer } of answersOf(document)) {
    const storesAnswers = operation.parameters?.some(
      (parameter) => 'name' in parameter && parameter.name === 'Idempotency-Key',
    );
    const names = path.startsWith('/health')
      ? [...ON_EVERY_ANSWER]
      : [...ON_EVERY_ANSWER_OF_THE_API, ...(BY_STATUS[status] ?? [])];
    if (status === '409' && (storesAnswers || path.endsWith('/receipt'))) names.push('Retry-After');
    if (storesAnswers && (status < '300' || status === '404')) names.push('Idempotent-Replayed');
    if (['200', '304'].includes(status) && WITH_ETAG.includes(operation.operationId ?? ''))
      names.push('ETag');
    answer.headers = Object.fromEntries(
      names.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
    );
  }
}

/**
 * Lets every object of answers and webhook payloads have further fields, and lists that grow further
 * values: within /v1 they may get new ones, and strict clients reject what a schema excludes.
 * Requests stay as they are. Their schemas still have the suffix `Input`.
 */
export function openAnswers(document: OpenAPIV3_1.Document): void {
  const schemas = Object.entries(document.components?.schemas ?? {});
  open(schemas.flatMap(([name, schema]) => (name.endsWith('Input') ? [] : [schema])));
  open(answersOf(document).map(({ answer }) => answer.content));
}

function open(part: unknown): void {
  if (typeof part !== 'object' || part === null) return;
  const schema = part as Schema;
  if (schema.additionalProperties === false) delete schema.additionalProperties;
  markGrowing(schema);
  Object.values(part).forEach(open);
}

/**
 * Moves to the components the examples of problems, and every problem answer that several
 * operations give.
 */
export function shareProblems(document: OpenAPIV3_1.Document): void {
  const examples: Record<string, OpenAPIV3_1.ExampleObject> = {};
  const responses: Record<string, Answer> = {};
  const problems = answersOf(document).flatMap((place) => {
    const media = place.answer.content?.['application/problem+json'];
    if (!media?.examples) return [];
    Object.assign(examples, media.examples);
    const codes = Object.keys(media.examples);
    media.examples = Object.fromEntries(
      codes.map((code) => [code, { $ref: `#/components/examples/${code}` }]),
    );
    return [{ ...place, codes }];
  });
  for (const [status, ofStatus] of Map.groupBy(problems, (problem) => problem.status)) {
    const groups = Map.groupBy(ofStatus, ({ answer }) => JSON.stringify(answer));
    const repeated = [...groups.values()].filter((group) => group.length > 1);
    const isCommon = (code: string) => repeated.every(([first]) => first?.codes.includes(code));
    for (const group of repeated) {
      const [{ codes, answer }] = group as [(typeof group)[number]];
      const own = codes.filter((code) => !isCommon(code));
      const name = nameOf(status, own, answer);
      responses[name] = answer;
      for (const { operation } of group)
        Object.assign(operation.responses ?? {}, {
          [status]: { $ref: `#/components/responses/${name}` },
        });
    }
  }
  document.components = {
    ...document.components,
    responses: sorted(responses),
    examples: sorted(examples),
  };
}

/** Returns the name of an answer, such as `NotFound` or `ConflictLimitReached`. */
function nameOf(status: string, codes: string[], { headers = {} }: Answer): string {
  const words = [STATUS_CODES[status] ?? status, ...codes].join(' ').split(/[ _-]/);
  const stored = 'Idempotent-Replayed' in headers ? ['Replayable'] : [];
  return [...words, ...stored].map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function answersOf({ paths = {} }: OpenAPIV3_1.Document) {
  return Object.entries(paths).flatMap(([path, item]) =>
    (Object.values(item ?? {}) as OpenAPIV3_1.OperationObject[]).flatMap((operation) =>
      Object.entries(operation.responses ?? {}).map(([status, answer]) => ({
        path,
        operation,
        status,
        answer: answer as Answer,
      })),
    ),
  );
}

/** Sorts by name: otherwise the order follows the order in which modules load. */
export function sorted<Value>(values: Record<string, Value>): Record<string, Value> {
  const entries = Object.entries(values);
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
