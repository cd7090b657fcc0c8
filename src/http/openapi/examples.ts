import type { OpenAPIV3_1 } from 'openapi-types';
import { isNull } from './json-schema.ts';
import type { Schema } from './schema.ts';

/**
 * Gives every request and every successful answer in JSON an example: that of its schema, else one
 * made of the examples of its fields. A schema with a text field without example gets none.
 */
export function addExamples(document: OpenAPIV3_1.Document): void {
  for (const media of mediaTypes(document)) {
    if (media.example !== undefined || media.examples || !media.schema) continue;
    try {
      media.example = exampleOf(media.schema as Schema, document);
    } catch (error) {
      if (!(error instanceof NoExample)) throw error;
    }
  }
}

class NoExample extends Error {}

/** Returns the media types of every request and successful answer, and of every webhook. */
export function mediaTypes({
  paths = {},
  webhooks = {},
}: OpenAPIV3_1.Document): OpenAPIV3_1.MediaTypeObject[] {
  const items = [...Object.values(paths), ...Object.values(webhooks)];
  return items
    .flatMap((item) => Object.values(item ?? {}) as OpenAPIV3_1.OperationObject[])
    .flatMap(({ requestBody, responses = {} }) => [
      requestBody,
      ...Object.entries(responses).flatMap(([status, answer]) =>
        /^[23]/.test(status) ? [answer] : [],
      ),
    ])
    .flatMap((part) => Object.values((part as OpenAPIV3_1.ResponseObject)?.content ?? {}));
}

/** Returns true for a field whose own schema says what an example has. */
function hasOwn(field: Schema): boolean {
  return field.examples !== undefined || field.default !== undefined;
}

/**
 * Returns an example of the schema. A field that may be absent needs an example of its own. Null
 * stands for a value that may be null and has no example of its own. Throws `NoExample`, with the
 * path of the field that lacks one.
 */
export function exampleOf(schema: Schema, document: OpenAPIV3_1.Document, path = ''): unknown {
  const { $ref, type, properties, items } = schema as Schema & { items?: Schema };
  if (schema.examples?.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if ($ref !== undefined) {
    const name = $ref.split('/').at(-1) as string;
    return exampleOf(document.components?.schemas?.[name] as Schema, document, `${path}(${name})`);
  }
  const choices = schema.oneOf as Schema[] | undefined;
  const mayBeNull = [type].flat().includes('null') || choices?.some(isNull);
  if (mayBeNull && path !== '') return null;
  if (schema.enum) return schema.enum[0];
  if (choices) return exampleOf(choices[0] as Schema, document, path);
  switch (type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(properties ?? {})
          .filter(([name, field]) => schema.required?.includes(name) || hasOwn(field as Schema))
          .map(([name, field]) => [name, exampleOf(field as Schema, document, `${path}.${name}`)]),
      );
    case 'array':
      return items ? [exampleOf(items, document, `${path}[]`)] : [];
    case 'integer':
    case 'number':
      return schema.minimum ?? 0;
    case 'boolean':
      return true;
    default:
      throw new NoExample(`${path} has no example: add it with .meta({ examples: [...] })`);
  }
}
