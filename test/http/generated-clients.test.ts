import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TRANSFER_ERRORS } from '../../src/domain/transfers/errors.ts';
import { WEBHOOK_EVENT_TYPES } from '../../src/domain/webhook.ts';
import { exampleOf, mediaTypes } from '../../src/http/openapi/examples.ts';
import type { Schema } from '../../src/http/openapi/schema.ts';
import {
  exec,
  expectFlows,
  objectsIn,
  openWorkshop,
  patternsIn,
  type Workshop,
} from '../support/clients/generated-clients.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { npmPackages } from '../support/programs/npm-package.ts';
import { LONG } from '../support/run/long.ts';

const SUPPORT = resolve(import.meta.dirname, '../support/clients');
const TSC = resolve(import.meta.dirname, '../../node_modules/typescript/bin/tsc');
const TYPES = resolve(import.meta.dirname, '../../node_modules/@types');

const COMPILER = [
  ...['--strict', '--outDir', 'out', '--types', 'node', '--typeRoots', TYPES],
  ...['--target', 'es2022', '--lib', 'es2023,dom,dom.iterable'],
  ...['--module', 'commonjs', '--moduleResolution', 'bundler'],
];

type Operations = [method: string, operation: OpenAPIV3_1.OperationObject][];

const findLinters = () => npmPackages(join(SUPPORT, 'api-linters'));
// Outside of the hooks, whose time is limited: the first run downloads them.
const generators = await npmPackages(join(SUPPORT, 'api-clients'));

describeWithPostgres('the OpenAPI document, for generators of clients', () => {
  let api: TestApi;
  let document: OpenAPIV3_1.Document;
  let workshop: Workshop;
  beforeAll(async () => {
    api = await startApi();
    document = (await api.ask('GET', '/v1/openapi.json', { key: null })).body;
    workshop = await openWorkshop(api, generators.available ? generators.folder : '');
  });
  afterAll(async () => {
    await workshop?.remove();
    await api?.close();
  });

  test('has an example for every request and successful answer', () => {
    const media = mediaTypes(document);
    expect(media.length).toBeGreaterThan(60);
    for (const { schema, example } of media) {
      expect(example).toBeDefined();
      // It throws, with the field that lacks an example.
      exampleOf(schema as Schema, document);
    }
  });

  test('has only forms that generators understand', () => {
    const found = [...objectsIn(document)];
    const unions = found.filter(([, { oneOf }]) => oneOf);
    expect(unions.length).toBeGreaterThan(5);
    for (const [path, { oneOf, discriminator }] of unions) {
      const choices = (oneOf as Schema[]).filter(({ type }) => type !== 'null');
      for (const choice of choices) expect.soft(choice, `name it: ${path}`).toHaveProperty('$ref');
      if (choices.length > 1) expect.soft(discriminator?.mapping, path).toBeDefined();
    }
    for (const [path, { type, format, anyOf }] of found) {
      expect.soft(anyOf, path).toBeUndefined();
      const isInteger = type === 'integer' || (Array.isArray(type) && type.includes('integer'));
      if (isInteger) expect.soft(format, path).toMatch(/^int(32|64)$/);
    }
    const detail = document.components?.schemas?.TransferDetail as Schema | undefined;
    expect(detail?.properties?.size_bytes).toMatchObject({
      type: ['integer', 'null'],
      format: 'int64',
    });
  });

  test('names each object and each list of values, so that no generator numbers them', () => {
    const places = [...objectsIn(document)].filter(([path]) => !/\/examples?(\/|$)/.test(path));
    for (const [path, { properties, enum: values }] of places) {
      const isNamed = /^\/components\/schemas\/\w+$/.test(path);
      if (isNamed || path.endsWith('/properties')) continue;
      expect.soft(properties, `name it: ${path}`).toBeUndefined();
      expect.soft(values, `name it: ${path}`).toBeUndefined();
    }
    for (const name of Object.keys(document.components?.schemas ?? {}))
      expect.soft(name).not.toMatch(/Input$|\d$/);
  });

  // oapi-codegen names a Go constant as its value, beside the types.
  test('gives no value of a list the name of another list', () => {
    const schemas = Object.entries(document.components?.schemas ?? {}) as [string, Schema][];
    const lists = new Map(schemas.flatMap(([name, { enum: of }]) => (of ? [[name, of]] : [])));
    for (const [name, values] of lists)
      for (const value of values as string[]) {
        const words = value.split(/[^A-Za-z0-9]+/);
        const constant = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
        expect.soft(lists.has(constant), `${value} of ${name}`).toBe(false);
      }
  });

  test('gives each operation one type of answer', () => {
    for (const [path, item] of Object.entries(document.paths ?? {}))
      for (const [method, { responses = {} }] of Object.entries(item ?? {}) as Operations) {
        const bodies = Object.entries(responses)
          .filter(([status]) => status.startsWith('2'))
          .map(([, answer]) => (answer as OpenAPIV3_1.ResponseObject).content ?? {})
          .flatMap((content) => Object.values(content).map(({ schema }) => JSON.stringify(schema)));
        expect.soft(new Set(bodies).size, `${method} ${path}`).toBeLessThan(2);
      }
  });

  // openapi-generator makes a list of text of a constant. For a boolean it does not compile.
  test('has constants of text and whole numbers only', () => {
    const constants = [...objectsIn(document)].filter(
      ([, { const: value }]) => value !== undefined,
    );
    expect(constants.length).toBeGreaterThan(20);
    for (const [path, { type }] of constants) expect.soft(type, path).toMatch(/^(string|integer)$/);
  });

  // openapi-generator for Ruby makes a client of a scheme with a cookie that fails in each request.
  test('has the key as its only way to authenticate', () => {
    expect(document.components?.securitySchemes).toEqual({
      apiKey: { type: 'http', scheme: 'bearer', description: expect.any(String) },
    });
  });

  // openapi-generator makes the text "null" of it, which the client then sends.
  test('gives nothing a default of null', () => {
    const defaults = [...objectsIn(document)].filter(([, schema]) => 'default' in schema);
    expect(defaults.length).toBeGreaterThan(30);
    for (const [path, schema] of defaults) expect.soft(schema.default, path).not.toBeNull();
  });

  // openapi-generator for Python cannot read the pattern that zod writes.
  test('gives no pattern to a time', () => {
    const times = [...objectsIn(document)].filter(([, { format }]) => format === 'date-time');
    expect(times.length).toBeGreaterThan(50);
    for (const [path, { pattern }] of times) expect.soft(pattern, path).toBeUndefined();
  });

  test('has URIs as text: a type for URLs would rewrite them', () => {
    const formats = [...objectsIn(document)].map(([, { format }]) => format);
    expect(formats.filter((format) => format === 'uri')).toEqual([]);
  });

  test('names the values of an order, which no generator can name by their signs', () => {
    expect(document.components?.schemas?.TransferSort).toMatchObject({
      enum: ['-created_at', 'created_at'],
      'x-enumNames': ['NewestFirst', 'OldestFirst'],
      'x-enum-varnames': ['NewestFirst', 'OldestFirst'],
    });
  });

  // NSwag begins the message of an exception with the description of the answer.
  test('begins the description of a problem with its status, not with one of its codes', () => {
    const { responses = {} } = document.components ?? {};
    expect(Object.keys(responses).length).toBeGreaterThan(5);
    for (const [name, answer] of Object.entries(responses))
      expect.soft((answer as OpenAPIV3_1.ResponseObject).description, name).toMatch(/^[A-Z]/);
  });

  test('names the detail of a problem as the message of the exception of Kiota', () => {
    expect(document.components?.schemas?.Problem).toMatchObject({
      properties: { detail: { 'x-ms-primary-error-message': true } },
    });
  });

  test('requires a body where a request without one is rejected', async () => {
    const { key } = await api.createKey(['admin']);
    for (const [path, item] of Object.entries(document.paths ?? {}))
      for (const [method, operation] of Object.entries(item ?? {}) as Operations) {
        const body = operation.requestBody as OpenAPIV3_1.RequestBodyObject | undefined;
        if (!body) continue;
        const url = path.replace(/\{(\w+)\}/g, 'none');
        const { body: problem } = await api.ask(method.toUpperCase(), url, { key });
        const lacks = problem?.code === 'validation_failed';
        expect.soft(lacks, `${method} ${path}: ${problem?.detail}`).toBe(body.required === true);
      }
  });

  test('names the values of lists that grow, and does not exclude others', () => {
    const schemas = document.components?.schemas as Record<string, Schema>;
    const codes = ['AfterReasonCode', 'ProblemCode', 'TransferErrorCode'];
    const others = ['AuditEventType', 'Protocol', 'SignInKind', 'WaitingReason'];
    for (const name of [...codes, ...others]) {
      expect.soft(schemas[name], name).not.toHaveProperty('enum');
      expect
        .soft(schemas[name]?.description, name)
        .toMatch(/^`.*` or `.*`\. New values may follow/);
    }
    expect(schemas.TransferErrorCode).toMatchObject({
      type: 'string',
      'x-extensible-enum': Object.keys(TRANSFER_ERRORS),
    });
    // A request has one of the values so far. An answer may have a newer one.
    expect(schemas.WebhookRequest?.properties?.events).toMatchObject({
      items: { $ref: '#/components/schemas/WebhookEventType' },
    });
    expect(schemas.WebhookEventType).toHaveProperty('enum', WEBHOOK_EVENT_TYPES);
    expect(schemas.Webhook?.properties?.events).toEqual({
      type: 'array',
      items: { $ref: '#/components/schemas/AnyWebhookEventType' },
    });
    expect(schemas.AnyWebhookEventType).toEqual({
      type: 'string',
      description: expect.stringMatching(/`log.checkpoint`. New values may follow/),
      examples: ['transfer.created'],
      'x-extensible-enum': WEBHOOK_EVENT_TYPES,
    });
    for (const [name, field, list] of [
      ['Key', 'scopes', 'AnyScope'],
      ['AuditSubject', 'kind', 'AnyAuditKind'],
    ] as const)
      expect.soft(JSON.stringify(schemas[name]?.properties?.[field]), name).toContain(`/${list}"`);
    const isOpen = (part: unknown) => JSON.stringify(part).includes('source_changed');
    const lists = [...objectsIn(document)].filter(([, { enum: values }]) => values);
    expect(lists.filter(([, { enum: values }]) => isOpen(values))).toEqual([]);
  });

  test('has patterns that Python compiles', async (ctx) => {
    const patterns = patternsIn(document);
    expect(patterns.length).toBeGreaterThan(10);
    // Python reads what .NET and RE2 reject: look-around, and escapes that only one of them knows.
    for (const pattern of patterns)
      expect.soft(pattern).not.toMatch(/\(\?[<!=]|\\[pPkuz]|[*+?}]\+/);
    const compile = 'import json, re, sys; [re.compile(p) for p in json.load(sys.stdin)]';
    const run = exec('python3', ['-c', compile]);
    run.child.stdin?.on('error', () => undefined).end(JSON.stringify(patterns));
    try {
      await run;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ctx.skip('python3 is missing');
      throw error;
    }
  });

  test('gets no warning from redocly', LONG, async (ctx) => {
    const linters = await findLinters();
    if (!linters.available) return ctx.skip(linters.reason);
    const redocly = join(linters.folder, 'node_modules/@redocly/cli/bin/cli.js');
    const args = ['lint', workshop.document, '--extends', 'recommended', '--format', 'json'];
    const report = JSON.parse(await workshop.node(redocly, ...args));
    expect(report.problems).toEqual([]);
  });

  test('gets no warning from spectral', LONG, async (ctx) => {
    const linters = await findLinters();
    if (!linters.available) return ctx.skip(linters.reason);
    const rules = join(workshop.folder, 'ruleset.json');
    // Redocly compares the same examples with their schemas, in a tenth of the time.
    const twice = { 'oas3-valid-media-example': 'off' };
    await writeFile(rules, JSON.stringify({ extends: ['spectral:oas'], rules: twice }));
    const spectral = join(linters.folder, 'node_modules/@stoplight/spectral-cli/dist/index.js');
    const args = ['lint', workshop.document, '-r', rules, '-f', 'json', '-F', 'hint', '--quiet'];
    expect(JSON.parse(await workshop.node(spectral, ...args))).toEqual([]);
  });

  test('gives usable clients with openapi-typescript and hey-api', LONG, async (ctx) => {
    if (!generators.available) return ctx.skip(generators.reason);
    const bin = join(generators.folder, 'node_modules');
    await Promise.all([
      workshop.node(
        join(bin, 'openapi-typescript/bin/cli.js'),
        ...[workshop.document, '--default-non-nullable=false', '-o', 'openapi-typescript.d.ts'],
      ),
      workshop.node(
        join(bin, '@hey-api/openapi-ts/bin/run.js'),
        ...['-i', workshop.document, '-o', 'hey-api-client', '--no-log-file'],
      ),
    ]);
    await workshop.node(TSC, ...COMPILER, 'openapi-fetch.ts', 'hey-api.ts');
    const { key } = await api.createKey(['transfers:write', 'flows:write', 'webhooks:write']);
    expectFlows(await workshop.node('out/openapi-fetch.js', api.url, key));
    expectFlows(await workshop.node('out/hey-api.js', api.url, key));
  });
});
