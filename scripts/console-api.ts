import type { OpenAPIV3_1 } from 'openapi-types';

type Schema = OpenAPIV3_1.SchemaObject | OpenAPIV3_1.ReferenceObject;

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** The TypeScript of `src/console/api/operations.ts`: one type for every operation and every named schema of the document. */
export function printOperations({ paths = {}, components = {} }: OpenAPIV3_1.Document): string {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item?.[method];
      return operation && path.startsWith('/v1/') ? [`  '${method.toUpperCase()} ${path}': ${printOperation(operation)};`] : [];
    }),
  );
  const schemas = Object.entries(components.schemas ?? {}).map(
    ([name, schema]) => `export type ${name} = ${print(schema).replace(/^\{ (.*) \}$/, onLines)};\n`,
  );
  return [
    '// Made from the OpenAPI document by `npm run console-api`.\n',
    `export interface Operations {\n${operations.toSorted().join('\n')}\n}\n`,
    ...schemas.toSorted(),
  ].join('\n');
}

function printOperation({ parameters = [], requestBody, responses = {} }: OpenAPIV3_1.OperationObject): string {
  const named = parameters as OpenAPIV3_1.ParameterObject[];
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1] as OpenAPIV3_1.ResponseObject | undefined;
  const content = (requestBody as OpenAPIV3_1.RequestBodyObject | undefined)?.content;
  return printFields({
    path: printParameters(named, 'path'),
    [named.some((parameter) => parameter.in === 'query' && parameter.required) ? 'query' : 'query?']: printParameters(named, 'query'),
    body: content && printContent(content),
    answer: success?.content ? printContent(success.content) : 'null',
  });
}

function printParameters(parameters: OpenAPIV3_1.ParameterObject[], place: 'path' | 'query'): string | undefined {
  const here = parameters.filter((parameter) => parameter.in === place);
  if (here.length === 0) return undefined;
  return printFields(
    Object.fromEntries(here.map(({ name, required, schema }) => [required ? name : `${name}?`, print((schema ?? {}) as Schema)])),
  );
}

/** A stream is not read as one answer. */
function printContent(content: Record<string, OpenAPIV3_1.MediaTypeObject>): string {
  const schema = content['application/json']?.schema as Schema | undefined;
  return schema ? print(schema) : 'unknown';
}

function print(schema: Schema): string {
  if ('$ref' in schema) return schema.$ref.split('/').at(-1) as string;
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum) return schema.enum.map(literal).join(' | ');
  const choice = schema.anyOf ?? schema.oneOf;
  if (choice) return [...new Set(choice.map(print))].join(' | ');
  if (schema.allOf) return schema.allOf.map(print).join(' & ');
  if (Array.isArray(schema.type)) {
    return schema.type.map((type) => print({ ...schema, type } as Schema)).join(' | ');
  }
  if (schema.type === 'array') return printArray('items' in schema ? print(schema.items) : 'unknown');
  if (schema.type === 'object') return printObject(schema);
  if (schema.type === 'integer') return 'number';
  return schema.type ?? 'unknown';
}

function printArray(item: string): string {
  return item.includes(' | ') ? `(${item})[]` : `${item}[]`;
}

function printObject({ properties, required = [], additionalProperties }: OpenAPIV3_1.SchemaObject): string {
  if (properties && Object.keys(properties).length > 0) {
    return printFields(
      Object.fromEntries(Object.entries(properties).map(([name, field]) => [required.includes(name) ? name : `${name}?`, print(field)])),
    );
  }
  const values = typeof additionalProperties === 'object' ? print(additionalProperties) : 'unknown';
  return `Record<string, ${values}>`;
}

function printFields(fields: Record<string, string | undefined>): string {
  const given = Object.entries(fields).filter(([, type]) => type !== undefined);
  return `{ ${given.map(([name, type]) => `${/^\w+\??$/.test(name) ? name : literal(name)}: ${type}`).join('; ')} }`;
}

/** The fields of a schema on lines of their own; those of a schema within it stay on theirs. */
function onLines(_: string, fields: string): string {
  let depth = 0;
  const lines = [...fields].map((character) => {
    if ('{('.includes(character)) depth++;
    if ('})'.includes(character)) depth--;
    return character === ';' && depth === 0 ? ';\n ' : character;
  });
  return `{\n  ${lines.join('')};\n}`;
}

function literal(value: unknown): string {
  return JSON.stringify(value);
}
