import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
  type FastifyPluginAsyncZod,
} from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';
import { z } from 'zod';
import { grants, SCOPES, type Scope } from '../../domain/scope.ts';
import { anyOf } from '../../domain/text.ts';
import { addHeaders, HEADERS, openAnswers, shareProblems, sorted } from './answers.ts';
import { JSON_TYPE, noQuery, nothing, OPEN, rejectingBodies, responses } from './documentation.ts';
import { ENUMS } from './enums.ts';
import { addExamples } from './examples.ts';
import { isNull, portable } from './json-schema.ts';
import { describePayloads } from './payload-documentation.ts';
import type { Schema } from './schema.ts';
import { sendDocument } from './send-document.ts';

const DESCRIPTION = `
Every transfer is an append-only stream of events. The API shows views of these events.

- Send your key as \`Authorization: Bearer KEY\`. It belongs to an account and
  sees only that account. The Admin Console sends the cookie \`waybill_session\` instead. Over
  https, its name begins with \`__Host-\`.
- Times are ISO 8601 in UTC. Every answer has \`X-Request-Id\`. Those below \`/v1\` and that of
  \`/metrics\` have the three \`X-RateLimit-\` headers too.
- Errors are \`application/problem+json\` (RFC 9457). Programs use the \`code\`.
- A path answers an unsupported method with 405 and \`Allow\`. \`OPTIONS\` needs no key.
- Lists and other large answers are compressed if you accept \`br\` or \`gzip\`.
- A body is plain JSON in UTF-8. A duplicate key in an object gets 400. A \`Content-Encoding\` or
  another \`Content-Type\` gets 415, also where no body is expected. The body of a \`GET\` or
  \`HEAD\` is ignored.
- A request needs exactly one valid \`Host\` header. Otherwise it gets 400. A \`Transfer-Encoding\`
  that does not end with \`chunked\` gets 400, and one with further codings gets 415. All close the
  connection.
- A request with its body arrives within 30 s. Otherwise it gets 408. Headers of more than 16 KiB
  get 431. Both close the connection.
- Bytes that are not HTTP get 400, and the connection closes. Whole requests before them on the same
  connection are answered first.
`.trim();

/** Zod drops the examples of a request schema that changes its input, for example by a default. */
const FROM_ZOD: z.core.ToJSONSchemaParams = {
  override({ zodSchema, jsonSchema }) {
    const examples = z.globalRegistry.get(zodSchema)?.examples;
    if (examples && jsonSchema.$ref === undefined) Object.assign(jsonSchema, { examples });
  },
};

const transforms = {
  route: createJsonSchemaTransform({ zodToJsonConfig: FROM_ZOD }),
  document: createJsonSchemaTransformObject({ zodToJsonConfig: FROM_ZOD }),
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
        contact: { name: 'The operator of this installation' },
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/', description: 'This installation' }],
      tags: [
        {
          name: 'Transfers',
          description: 'Copy one file from one server to another, proved by its checksum.',
        },
        {
          name: 'Batches',
          description: 'Copy many files with one request, and follow them as one.',
        },
        {
          name: 'Flows',
          description: 'Copy the files of a folder as they come, each version of a file once.',
        },
        {
          name: 'Webhooks',
          description: 'Receive events as signed POSTs to your URL, instead of polling.',
        },
        { name: 'Audit', description: 'Export the event log.' },
        { name: 'Session', description: 'Sign-in to the Admin Console.' },
        {
          name: 'Administration',
          description: 'Operate the installation: all of it with the scope `admin`.',
        },
        { name: 'Service', description: 'Health, metrics and this document.' },
      ],
      components: {
        // The cookie of the Admin Console is no scheme: clients of openapi-generator for Ruby fail
        // in each request if there is one, and swagger-codegen for Python sends it in the query.
        securitySchemes: {
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key; it starts with `wb_`.',
          },
        },
        headers: HEADERS as never,
      },
      security: [{ apiKey: [] }],
    },
    transform(described) {
      const route = withRejectedBodies(described);
      return withScope(
        route.route.config?.scope,
        withExamples(route.schema, transforms.route(route)),
      );
    },
    transformObject: (document) => finish(transforms.document(document) as OpenAPIV3_1.Document),
  });
  const pages: FastifyPluginAsync = async (docs) => {
    // Every file is sent whole: see `ignoreRange`.
    docs.addHook('onSend', async (_request, reply) => void reply.removeHeader('accept-ranges'));
    await docs.register(swaggerUi, {
      routePrefix: '/docs',
      uiHooks: { onRequest: sendForms(app) },
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
  };
  await app.register(pages);
}

/** Sends the document in the two forms that the plugin has beside the page. */
function sendForms(app: FastifyInstance) {
  const forms = new Map([
    ['/docs/json', sendDocument(JSON_TYPE, () => JSON.stringify(app.swagger()))],
    ['/docs/yaml', sendDocument('application/yaml', () => app.swagger({ yaml: true }))],
  ]);
  return async (request: FastifyRequest, reply: FastifyReply) =>
    forms.get(request.routeOptions.url ?? '')?.(request, reply);
}

const THIS_DOCUMENT = z
  .record(z.string(), z.unknown())
  .meta({ id: 'OpenApiDocument', examples: [{ openapi: '3.1.0' }] });

// For the documentation only: `sendDocument` reads it.
const ifNoneMatchHeaders = z.looseObject({
  'If-None-Match': z
    .string()
    .optional()
    .describe(
      'The `ETag` that you have read. If the document is still the same, the answer is 304.',
    ),
});

export const openApiRoute: FastifyPluginAsyncZod = async (app) => {
  app.route({
    method: 'GET',
    url: '/openapi.json',
    config: { open: true },
    schema: {
      operationId: 'getOpenApi',
      summary: 'Get this document',
      description: 'Needs no key.',
      tags: ['Service'],
      security: [],
      querystring: noQuery,
      headers: ifNoneMatchHeaders,
      response: responses(
        { 200: ['This document', THIS_DOCUMENT], 304: ['You have this document', nothing] },
        ['unknown_field'],
        OPEN,
      ),
    },
    handler: sendDocument(JSON_TYPE, () => JSON.stringify(app.swagger())) as never,
  });
};

type Transform = typeof transforms.route;

const REFERENCE = /"#\/components\/schemas\/(\w+)"/g;

interface Described {
  response?: Record<string, unknown>;
  body?: unknown;
}

interface Responses {
  response?: Record<
    string,
    { content?: Record<string, { example?: unknown; examples?: unknown }> }
  >;
}

/**
 * Adds to an operation that reads no body the answers to a body that it rejects. A GET ignores its
 * body.
 */
function withRejectedBodies(route: Parameters<Transform>[0]): Parameters<Transform>[0] {
  const { response, body } = (route.schema ?? {}) as Described;
  const [method] = [route.route.method].flat();
  if (method === 'GET' || body !== undefined || response === undefined) return route;
  return { ...route, schema: { ...route.schema, response: rejectingBodies(response) } };
}

/** Restores the examples of answers, which the transformation from zod drops. */
function withExamples(schema: unknown, transformed: ReturnType<Transform>): ReturnType<Transform> {
  const responses = (transformed.schema as Responses | undefined)?.response ?? {};
  for (const [status, { content }] of Object.entries(
    (schema as Responses | undefined)?.response ?? {},
  )) {
    for (const [type, { example, examples }] of Object.entries(content ?? {})) {
      const media = responses[status]?.content?.[type] ?? {};
      if (examples) Object.assign(media, { examples });
      if (example) Object.assign(media, { example });
    }
  }
  return transformed;
}

/**
 * Says which scope the operation needs: in words, and for programs. `security` has no place for it
 * that every tool accepts: only the schemes `oauth2` and `openIdConnect` have scopes.
 */
function withScope(
  scope: Scope | undefined,
  { schema, url }: ReturnType<Transform>,
): ReturnType<Transform> {
  if (scope === undefined || !schema || schema.hide) return { schema, url };
  const granting = SCOPES.filter((held) => grants([held], scope)).map((held) => `\`${held}\``);
  const needs = `Needs a key with the scope ${anyOf(granting)}.`;
  const description = [schema.description, needs].filter(Boolean).join('\n\n');
  return { schema: { ...schema, description, 'x-required-scope': scope } as typeof schema, url };
}

/**
 * Completes the document: headers, webhooks, examples, and schemas that generators of clients
 * understand. Removes unused schemas.
 */
function finish(document: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  addHeaders(document);
  openAnswers(document);
  shareProblems(document);
  Object.assign(document, { webhooks: describePayloads() });
  dropUnused(document);
  const named = withoutSuffix(document);
  const schemas = named.components?.schemas as Record<string, Schema>;
  const finished: OpenAPIV3_1.Document = JSON.parse(JSON.stringify(named), (key, value) => {
    if (key === 'requestBody') return withoutNull(value);
    return isObject(value) ? portable(value, schemas) : value;
  });
  Object.assign(finished.components ?? {}, {
    schemas: sorted({ ...finished.components?.schemas, ...ENUMS }),
  });
  dropUnused(finished);
  addExamples(finished);
  return finished;
}

/** A body that may be null is one that may be missing, which is how a client leaves it out. */
function withoutNull(body: OpenAPIV3_1.RequestBodyObject): OpenAPIV3_1.RequestBodyObject {
  for (const media of Object.values(body.content)) {
    const [only, ...others] = (media.schema as Schema).oneOf ?? [];
    if (!only || others.length !== 1 || !isNull(others[0] as Schema)) continue;
    media.schema = only;
    body.required = false;
  }
  return body;
}

/**
 * Returns the document without the suffix `Input` that the names of schemas of requests have. Where
 * answers have another schema of that name, the suffix becomes `Request`.
 */
function withoutSuffix(document: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  const { schemas = {} } = document.components ?? {};
  const isOther = (name: string) =>
    name in schemas && JSON.stringify(schemas[name]) !== JSON.stringify(schemas[`${name}Input`]);
  const text = JSON.stringify(document).replace(
    /"(#\/components\/schemas\/)?(\w+)Input"/g,
    (found, path = '', name) =>
      `${name}Input` in schemas ? `"${path}${name}${isOther(name) ? 'Request' : ''}"` : found,
  );
  return JSON.parse(text);
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Removes unused schemas: each schema is generated once for requests and once for answers. */
function dropUnused(document: OpenAPIV3_1.Document): void {
  const { schemas = {}, ...components } = document.components ?? {};
  const used = new Set<string>();
  const addUsedIn = (part: unknown) => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(REFERENCE)) {
      if (used.has(name)) continue;
      used.add(name);
      addUsedIn(schemas[name]);
    }
  };
  addUsedIn({ ...document, components });
  for (const name of Object.keys(schemas)) if (!used.has(name)) delete schemas[name];
}
