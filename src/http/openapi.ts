import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import {
  type FastifyPluginAsyncZod,
  jsonSchemaTransform,
  jsonSchemaTransformObject,
} from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';
import { z } from 'zod';
import { transferRequest } from '../contract/transfers/requests.ts';
import { OPEN, responses } from './documentation.ts';
import { describePayloads } from './webhooks/payload-documentation.ts';

const DESCRIPTION = `
Every transfer is an append-only stream of events. The API shows views of these events.

- Send your key as \`Authorization: Bearer KEY\`. It belongs to an account and
  sees only that account.
- Times are ISO 8601 in UTC. Every answer has \`X-Request-Id\` and the three
  \`X-RateLimit-\` headers.
- Errors are \`application/problem+json\` (RFC 9457). Programs use the \`code\`.
- A path answers an unsupported method with 405 and \`Allow\`. \`OPTIONS\` needs no key.
- A body is plain JSON in UTF-8. A duplicate key in an object gets 400, a \`Content-Encoding\` 415.
- A request needs exactly one valid \`Host\` header. Otherwise it gets 400, and the connection
  closes.
- Bytes that are not HTTP get 400, and the connection closes. Whole requests before them on the same
  connection are answered first.
`.trim();

const HEADERS: Record<string, OpenAPIV3_1.HeaderObject> = {
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
const BY_STATUS: Record<string, string[]> = {
  201: ['Location'],
  202: ['Location'],
  401: ['WWW-Authenticate'],
  415: ['Accept', 'Accept-Encoding'],
  429: ['Retry-After'],
  503: ['Retry-After'],
};

/**
 * Describes every route registered after this call, as OpenAPI 3.1 and as a page at /docs. The page
 * loads nothing from other servers.
 */
export async function describeApi(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Waybill',
        version: 'v1',
        description: DESCRIPTION,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/', description: 'This installation' }],
      tags: [
        {
          name: 'Transfers',
          description: 'Copy one file from one server to another, proved by its checksum.',
        },
        {
          name: 'Webhooks',
          description: 'Receive events as signed POSTs to your URL, instead of polling.',
        },
        { name: 'Audit', description: 'Export the event log.' },
        { name: 'Session', description: 'Sign-in to the Admin Console.' },
        {
          name: 'Administration',
          description: 'Operate the whole installation, with a key that has the scope `admin`.',
        },
        { name: 'Service', description: 'Health, metrics and this document.' },
      ],
      components: {
        securitySchemes: {
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key; it starts with `wb_`.',
          },
          session: {
            type: 'apiKey',
            in: 'cookie',
            name: 'waybill_session',
            description: 'A session of the Admin Console. It acts as the admin key that signed in.',
          },
        },
        headers: HEADERS as never,
      },
      security: [{ apiKey: [] }, { session: [] }],
    },
    transform: (route) => withExamples(route.schema, jsonSchemaTransform(route)),
    transformObject: (document) =>
      tidy(jsonSchemaTransformObject(document) as OpenAPIV3_1.Document),
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
      summary: 'Get this document',
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

/** Restores the examples of answers, which the transformation from zod drops. */
function withExamples<Transformed extends { schema: unknown }>(
  schema: unknown,
  transformed: Transformed,
): Transformed {
  const responses = (transformed.schema as Responses | undefined)?.response ?? {};
  for (const [status, { content }] of Object.entries(
    (schema as Responses | undefined)?.response ?? {},
  )) {
    for (const [type, { examples }] of Object.entries(content ?? {})) {
      if (examples) Object.assign(responses[status]?.content?.[type] ?? {}, { examples });
    }
  }
  return transformed;
}

/** Adds the headers of every answer. Removes unused schemas and the limits of safe integers. */
function tidy(document: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const operation of Object.values(item ?? {}) as OpenAPIV3_1.OperationObject[]) {
      const storesAnswers = operation.parameters?.some(
        (parameter) => 'name' in parameter && parameter.name === 'Idempotency-Key',
      );
      for (const [status, response] of Object.entries(operation.responses ?? {})) {
        const names = path.startsWith('/health')
          ? [...ON_EVERY_ANSWER]
          : [...ON_EVERY_ANSWER_OF_THE_API, ...(BY_STATUS[status] ?? [])];
        if (storesAnswers && (status < '300' || status === '404'))
          names.push('Idempotent-Replayed');
        Object.assign(response, {
          headers: Object.fromEntries(
            names.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
          ),
        });
      }
    }
  }
  Object.assign(document, { webhooks: describePayloads() });
  dropUnused(document);
  sortSchemas(document);
  // Zod drops the examples of a request schema that changes its input, for example by a default.
  Object.assign(document.components?.schemas?.TransferRequestInput ?? {}, {
    examples: transferRequest.meta()?.examples,
  });
  return JSON.parse(JSON.stringify(document), (key, value) =>
    isSafeIntegerLimit(key, value) ? undefined : value,
  );
}

/** Removes unused schemas: each schema is generated once for requests and once for answers. */
function dropUnused(document: OpenAPIV3_1.Document): void {
  const schemas = document.components?.schemas ?? {};
  const text = JSON.stringify(document);
  const unused = Object.keys(schemas).filter(
    (name) => !text.includes(`"#/components/schemas/${name}"`),
  );
  for (const name of unused) delete schemas[name];
  if (unused.length > 0) dropUnused(document);
}

/** Sorts the schemas by name. Otherwise their order follows the order in which modules load. */
function sortSchemas({ components }: OpenAPIV3_1.Document): void {
  if (!components?.schemas) return;
  const entries = Object.entries(components.schemas);
  components.schemas = Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function isSafeIntegerLimit(key: string, value: unknown): boolean {
  return (
    (key === 'minimum' && value === Number.MIN_SAFE_INTEGER) ||
    (key === 'maximum' && value === Number.MAX_SAFE_INTEGER)
  );
}
