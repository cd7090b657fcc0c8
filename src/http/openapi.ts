import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';

const DESCRIPTION = `
Every transfer is an append-only stream of events; what the API shows is a view of it.

- Send your key as \`Authorization: Bearer KEY\`. It belongs to an account and sees that account alone.
- Times are ISO 8601 in UTC. Every answer carries \`X-Request-Id\` and the three \`X-RateLimit-\` headers.
- An error is \`application/problem+json\` (RFC 9457); programs go by its \`code\`.
- A method that a path does not have is answered with 405 and \`Allow\`; \`OPTIONS\` needs no key.
`.trim();

const RATE_HEADERS: Record<string, OpenAPIV3_1.HeaderObject> = {
  'X-Request-Id': { description: 'The id of the request.', schema: { type: 'string' } },
  'X-RateLimit-Limit': { description: 'Requests allowed per minute.', schema: { type: 'integer' } },
  'X-RateLimit-Remaining': { description: 'Requests left in the current window.', schema: { type: 'integer' } },
  'X-RateLimit-Reset': { description: 'Unix time, in seconds, at which the window ends.', schema: { type: 'integer' } },
};

const OWN_HEADERS: Record<string, Record<string, OpenAPIV3_1.HeaderObject>> = {
  201: {
    Location: { description: 'Where the new resource is.', schema: { type: 'string' } },
    'Idempotent-Replayed': { description: '`true` where this is the answer of an earlier request.', schema: { type: 'string' } },
  },
  401: { 'WWW-Authenticate': { schema: { type: 'string' } } },
  429: { 'Retry-After': { description: 'Whole seconds to wait.', schema: { type: 'integer' } } },
  503: { 'Retry-After': { description: 'Whole seconds to wait.', schema: { type: 'integer' } } },
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
        { name: 'Audit', description: 'The log itself.' },
        { name: 'Service', description: 'How the service is, and what it offers.' },
      ],
      components: { securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: 'An API key; it starts with `wb_`.' } } },
      security: [{ apiKey: [] }],
    },
    transform: jsonSchemaTransform,
    transformObject: (document) => addHeaders(jsonSchemaTransformObject(document) as OpenAPIV3_1.Document),
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

function addHeaders(document: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const operation of Object.values(item ?? {})) {
      for (const [status, response] of Object.entries((operation as OpenAPIV3_1.OperationObject).responses ?? {})) {
        const headers = path.startsWith('/health')
          ? { 'X-Request-Id': RATE_HEADERS['X-Request-Id'] }
          : { ...RATE_HEADERS, ...OWN_HEADERS[status] };
        Object.assign(response, { headers });
      }
    }
  }
  return document;
}
