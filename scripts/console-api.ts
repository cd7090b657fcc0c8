import type { OpenAPIV3_1 } from 'openapi-types';
import type { AnyProtocol } from '../src/domain/protocols/index.ts';

type Schema = OpenAPIV3_1.SchemaObject | OpenAPIV3_1.ReferenceObject;

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/**
 * Returns the TypeScript of `src/console/api/api-types.ts`: one type for each operation and each
 * named schema of the document.
 */
export function printOperations({ paths = {}, components = {} }: OpenAPIV3_1.Document): string {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item?.[method];
      return operation && path.startsWith('/v1/')
        ? [`  '${method.toUpperCase()} ${path}': ${printOperation(operation)};`]
        : [];
    }),
  );
  const schemas = Object.entries(components.schemas ?? {}).map(
    ([name, schema]) => `export type ${name} = ${printNamed(schema)};\n`,
  );
  return [
    '// Made from the OpenAPI document by `npm run console-api`.\n',
    `export interface Operations {\n${operations.toSorted().join('\n')}\n}\n`,
    ...schemas.toSorted(),
  ].join('\n');
}

const FIELD_TYPES = `/** One field of an endpoint, under its name in the API. */
export interface EndpointField {
  name: string;
  label: string;
  kind?: 'number' | 'secret' | 'host-keys' | 'lines' | 'yes-no' | readonly string[];
  hint?: string;
  placeholder?: string;
  /** The value in the form of a new endpoint. */
  initial?: string;
}

export interface ProtocolForm {
  label: string;
  server: readonly EndpointField[];
  /** Ways to sign in; an endpoint has one. */
  signIn: Readonly<Record<string, { label: string; fields: readonly EndpointField[] }>>;
  options: readonly EndpointField[];
  /** The hops that a connection can take. */
  via: readonly ('ssh' | 'http' | 'socks5')[];
  /** The server and folder in one line; \`{field}\` stands for the value of a field. */
  address: string;
}
`;

/** Returns the TypeScript of `src/console/api/protocols.ts`: a form for each protocol. */
export function printProtocols(protocols: readonly AnyProtocol[]): string {
  const forms = protocols.map(({ name, label, form, signIns, via = [], address }) => {
    const signIn = Object.entries(signIns).map(([way, { label, secrets }]) => [
      way,
      { label, fields: fieldsOfForm(secrets) },
    ]);
    const printed = {
      label,
      server: fieldsOfForm(form.server),
      signIn: Object.fromEntries(signIn),
      options: fieldsOfForm(form.options),
      via,
      address,
    };
    return `  ${name}: ${JSON.stringify(printed)},`;
  });
  return [
    '// Made from src/domain/protocols by `npm run console-api`.\n',
    FIELD_TYPES,
    `export const PROTOCOLS = {\n${forms.join('\n')}\n} satisfies Record<string, ProtocolForm>;\n`,
  ].join('\n');
}

/** Returns the TypeScript of `src/console/api/error-advice.ts`. */
export function printErrorAdvice(errors: Record<string, { advice: string }>): string {
  const advice = Object.entries(errors).map(
    ([code, { advice }]) => `  ${code}: ${JSON.stringify(advice)},`,
  );
  return [
    '// Made from src/domain/transfers/errors.ts by `npm run console-api`.\n',
    `export const ERROR_ADVICE = {\n${advice.join('\n')}\n};\n`,
  ].join('\n');
}

/** Returns the TypeScript of `src/console/api/limits.ts`: numbers of the service, by name. */
export function printLimits(limits: Record<string, number>): string {
  return [
    '// Made from src/domain and src/contract by `npm run console-api`.\n',
    ...Object.entries(limits).map(([name, value]) => `export const ${name} = ${value};`),
    '',
  ].join('\n');
}

/** Returns the TypeScript of `src/console/api/event-words.ts`: what users read for event types. */
export function printEventWords(tables: Record<string, Record<string, string>>): string {
  return [
    '// Made from src/domain/audit.ts by `npm run console-api`.\n',
    ...Object.entries(tables).map(
      ([name, words]) =>
        `export const ${name} = {\n` +
        Object.entries(words)
          .map(([type, text]) => `  ${nameOf(type)}: ${literal(text)},\n`)
          .join('') +
        '} as const;\n',
    ),
  ].join('\n');
}

function fieldsOfForm(form: Readonly<Record<string, object | undefined>>): object[] {
  return Object.entries(form).map(([name, field]) => ({ name, ...field, optional: undefined }));
}

function printOperation({
  parameters = [],
  requestBody,
  responses = {},
}: OpenAPIV3_1.OperationObject): string {
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1] as
    | OpenAPIV3_1.ResponseObject
    | undefined;
  const content = (requestBody as OpenAPIV3_1.RequestBodyObject | undefined)?.content;
  const parts = [
    ...printParameters(parameters as OpenAPIV3_1.ParameterObject[], 'path'),
    ...printParameters(parameters as OpenAPIV3_1.ParameterObject[], 'query'),
    ...(content ? [`body: ${printContent(content)}`] : []),
    `answer: ${success?.content ? printContent(success.content) : 'null'}`,
  ];
  return `{ ${parts.join('; ')} }`;
}

function printParameters(
  parameters: OpenAPIV3_1.ParameterObject[],
  place: 'path' | 'query',
): string[] {
  const here = parameters.filter((parameter) => parameter.in === place);
  if (here.length === 0) return [];
  const fields = here.map(
    ({ name, required, schema }) =>
      `${nameOf(name)}${required ? '' : '?'}: ${print((schema ?? {}) as Schema)}`,
  );
  return [`${place}${here.some(({ required }) => required) ? '' : '?'}: { ${fields.join('; ')} }`];
}

/** Prints `unknown` for a stream, which is not read as one response. */
function printContent(content: Record<string, OpenAPIV3_1.MediaTypeObject>): string {
  const schema = content['application/json']?.schema as Schema | undefined;
  return schema ? print(schema) : 'unknown';
}

function print(schema: Schema): string {
  if ('$ref' in schema) return schema.$ref.split('/').at(-1) as string;
  if (schema.const !== undefined) return literal(schema.const);
  const values = schema.enum ?? (schema as { 'x-extensible-enum'?: string[] })['x-extensible-enum'];
  if (values) return values.map(literal).join(' | ');
  const choice = schema.anyOf ?? schema.oneOf;
  if (choice) return [...new Set(choice.map(print))].join(' | ');
  if (schema.allOf) return schema.allOf.map(print).join(' & ');
  if (Array.isArray(schema.type)) {
    return schema.type.map((type) => print({ ...schema, type } as Schema)).join(' | ');
  }
  if (schema.type === 'array')
    return printArray('items' in schema ? print(schema.items) : 'unknown');
  if (schema.type === 'object') return printObject(schema);
  if (schema.type === 'integer') return 'number';
  return schema.type ?? 'unknown';
}

/** Prints each field or choice of the schema on its own line; nested schemas stay on that line. */
function printNamed(schema: Schema): string {
  if ('$ref' in schema) return print(schema);
  const choice = schema.anyOf ?? schema.oneOf;
  if (choice) return choice.map((item) => `\n  | ${print(item)}`).join('');
  if (!schema.properties) return print(schema);
  return `{\n${fieldsOf(schema)
    .map((field) => `  ${field};\n`)
    .join('')}}`;
}

function printArray(item: string): string {
  return item.includes(' | ') ? `(${item})[]` : `${item}[]`;
}

function printObject(schema: OpenAPIV3_1.SchemaObject): string {
  const fields = fieldsOf(schema);
  if (fields.length > 0) return `{ ${fields.join('; ')} }`;
  const { additionalProperties } = schema;
  const value = typeof additionalProperties === 'object' ? print(additionalProperties) : 'unknown';
  return `Record<string, ${value}>`;
}

function fieldsOf({ properties = {}, required = [] }: OpenAPIV3_1.SchemaObject): string[] {
  return Object.entries(properties).map(
    ([name, field]) => `${nameOf(name)}${required.includes(name) ? '' : '?'}: ${print(field)}`,
  );
}

function nameOf(field: string): string {
  return /^\w+$/.test(field) ? field : literal(field);
}

function literal(value: unknown): string {
  return JSON.stringify(value);
}
