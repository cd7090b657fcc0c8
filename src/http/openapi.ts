import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { type FastifyPluginAsyncZod, jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';
import { z } from 'zod';
import { OPEN, responses } from './documentation.ts';
import { transferBody } from './transfers/schemas.ts';
import { describePayloads } from './webhooks/payload-documentation.ts';

const DESCRIPTION = `
Every transfer is an append-only stream of events; what the API shows is a view of it.

- Send your key as \`Authorization: Bearer KEY\`. It belongs to an account and sees that account alone.
- Times are ISO 8601 in UTC. Every answer carries \`X-Request-Id\` and the three \`X-RateLimit-\` headers.
- An error is \`application/problem+json\` (RFC 9457); programs go by its \`code\`.
- A method that a path does not have is answered with 405 and \`Allow\`; \`OPTIONS\` needs no key.
`.trim();

const HEADERS: Record<string, OpenAPIV3_1.HeaderObject> = {
  'X-Request-Id': { description: 'The id of the request.', schema: { type: 'string' } },
  'X-RateLimit-Limit': { description: 'Requests allowed per minute.', schema: { type: 'integer' } },
  'X-RateLimit-Remaining': { description: 'Requests left in the current window.', schema: { type: 'integer' } },
  'X-RateLimit-Reset': { description: 'Unix time, in seconds, at which the window ends.', schema: { type: 'integer' } },
  'Retry-After': { description: 'Whole seconds to wait.', schema: { type: 'integer' } },
  'WWW-Authenticate': { description: '`Bearer`', schema: { type: 'string' } },
  Location: { description: 'Where the new resource is, if there is one.', schema: { type: 'string' } },
  'Idempotent-Replayed': { description: '`true` where this is the answer of an earlier request.', schema: { type: 'string' } },
};

const ON_EVERY_ANSWER = ['X-Request-Id'];
const ON_EVERY_ANSWER_OF_THE_API = [...ON_EVERY_ANSWER, 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'];
const BY_STATUS: Record<string, string[]> = {
  201: ['Location'],
  202: ['Location'],
  401: ['WWW-Authenticate'],
  429: ['Retry-After'],
  503: ['Retry-After'],
};

/** Describes every route that is registered after this, as OpenAPI 3.1 and for readers at /docs, with nothing from elsewhere. */
export async function describeApi(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Waybill', version: 'v1', description: DESCRIPTION, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
      servers: [{ url: '/', description: 'This installation' }],
      tags: [
        { name: 'Transfers', description: 'Copy one file from one server to another, proved by its checksum.' },
        { name: 'Webhooks', description: 'Be told of what happens, instead of asking: by signed POSTs to a URL of yours.' },
        { name: 'Audit', description: 'The log itself.' },
        { name: 'Session', description: 'Sign-in to the Admin Console.' },
        { name: 'Administration', description: 'What operators do and see, over the whole installation, with a key of the scope `admin`.' },
        { name: 'Service', description: 'How the service is, and what it offers.' },
      ],
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'An API key; it starts with `wb_`.' },
          session: {
            type: 'apiKey',
            in: 'cookie',
            name: 'waybill_session',
            description: 'A session of the Admin Console, as an admin key.',
          },
        },
        headers: HEADERS as never,
      },
      security: [{ apiKey: [] }, { session: [] }],
    },
    transform: (route) => withExamples(route.schema, jsonSchemaTransform(route)),
    transformObject: (document) => tidy(jsonSchemaTransformObject(document) as OpenAPIV3_1.Document),
  });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: { validatorUrl: null, deepLinking: true, persistAuthorization: false },
    staticCSP: {
      'default-src': "'none'",
      'script-src': "'self'",
      // Swagger UI sets styles on elements.
      'style-src': ["'self'", "'unsafe-inline'"],
      'img-src': ["'self'", 'data:'],
      'connect-src': "'self'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
    },
  });
}

export const openApiRoute: FastifyPluginAsyncZod = async (app) => {
  app.route({
    method: 'GET',
    url: '/openapi.json',
    config: { open: true },
    schema: {
      operationId: 'getOpenApi',
      summary: 'Read this document',
      tags: ['Service'],
      security: [],
      response: responses({ 200: ['This document', z.record(z.string(), z.unknown())] }, [], OPEN),
    },
    handler: async () => app.swagger(),
  });
};

interface Responses {
  response?: Record<string, { content?: Record<string, { examples?: unknown }> }>;
}

/** The transformation from zod keeps no examples of answers. */
function withExamples<Transformed extends { schema: unknown }>(schema: unknown, transformed: Transformed): Transformed {
  const responses = (transformed.schema as Responses | undefined)?.response ?? {};
  for (const [status, { content }] of Object.entries((schema as Responses | undefined)?.response ?? {})) {
    for (const [type, { examples }] of Object.entries(content ?? {})) {
      if (examples) Object.assign(responses[status]?.content?.[type] ?? {}, { examples });
    }
  }
  return transformed;
}

/** Names the headers of every answer, and leaves out what says nothing. */
function tidy(document: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const operation of Object.values(item ?? {}) as OpenAPIV3_1.OperationObject[]) {
      const keepsAnswers = operation.parameters?.some((parameter) => 'name' in parameter && parameter.name === 'Idempotency-Key');
      for (const [status, response] of Object.entries(operation.responses ?? {})) {
        const names = path.startsWith('/health') ? [...ON_EVERY_ANSWER] : [...ON_EVERY_ANSWER_OF_THE_API, ...(BY_STATUS[status] ?? [])];
        if (keepsAnswers && (status < '300' || status === '404')) names.push('Idempotent-Replayed');
        Object.assign(response, { headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])) });
      }
    }
  }
  Object.assign(document, { webhooks: describePayloads() });
  dropUnused(document);
  // Zod leaves the examples of a request out where reading it changes anything, such as by a default.
  Object.assign(document.components?.schemas?.TransferRequestInput ?? {}, { examples: transferBody.meta()?.examples });
  return JSON.parse(JSON.stringify(document), (key, value) => (isSafeIntegerLimit(key, value) ? undefined : value));
}

/** Every schema is made once for requests and once for answers. */
function dropUnused(document: OpenAPIV3_1.Document): void {
  const schemas = document.components?.schemas ?? {};
  const text = JSON.stringify(document);
  const unused = Object.keys(schemas).filter((name) => !text.includes(`"#/components/schemas/${name}"`));
  for (const name of unused) delete schemas[name];
  if (unused.length > 0) dropUnused(document);
}

function isSafeIntegerLimit(key: string, value: unknown): boolean {
  return (key === 'minimum' && value === Number.MIN_SAFE_INTEGER) || (key === 'maximum' && value === Number.MAX_SAFE_INTEGER);
}
