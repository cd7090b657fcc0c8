import { withNamedEnum } from './enums.ts';
import type { Schema } from './schema.ts';

const INT32_MAX = 2 ** 31 - 1;

/**
 * Returns the JSON schema that zod made in a form that client generators understand:
 *
 * - A value that may be null has the type `[T, "null"]`; a reference or null is a `oneOf`. It has
 *   no default of null: openapi-generator makes the text "null" of one, and sends it.
 * - An integer has the format `int64`, or `int32` if its maximum fits. The limits of safe integers
 *   are left out.
 * - A pattern escapes no slash. A time has none: openapi-generator for Python cannot read that of
 *   zod.
 * - A constant is text or a whole number: openapi-generator makes a list of text of a boolean one,
 *   which does not compile.
 * - A list of values that several schemas use is a reference to a component.
 * - A choice of named schemas has a discriminator. `schemas` are the components.
 */
export function portable(schema: Schema, schemas: Record<string, Schema>): Schema {
  const plain = withPlainConstant(withoutNullDefault(withNamedEnum(schema)));
  const known = withFormat(withNull(plain));
  return withChoiceOfItems(withDiscriminator(known, schemas), schemas);
}

/** Copies a choice into an array of it: NSwag gives a reference to one a type that is missing. */
function withChoiceOfItems(schema: Schema, schemas: Record<string, Schema>): Schema {
  const { items } = schema as { items?: Schema };
  const choice = schemas[items?.$ref?.split('/').at(-1) ?? ''];
  return choice?.oneOf ? ({ ...schema, items: portable(choice, schemas) } as Schema) : schema;
}

function withoutNullDefault(schema: Schema): Schema {
  const { default: value, ...rest } = schema;
  return value === null ? (rest as Schema) : schema;
}

function withPlainConstant(schema: Schema): Schema {
  const { const: value, ...rest } = schema;
  if (typeof value === 'boolean') return { ...rest, examples: [value] } as Schema;
  return Number.isInteger(value) ? ({ ...schema, type: 'integer' } as Schema) : schema;
}

function withNull(schema: Schema): Schema {
  const { anyOf, ...rest } = schema;
  const others = anyOf?.filter((choice) => !isNull(choice as Schema)) as Schema[] | undefined;
  if (!anyOf || !others || others.length === anyOf.length) return schema;
  const [only] = others as [Schema];
  if (others.length > 1) return { ...rest, oneOf: [...others, { type: 'null' }] };
  if (only.oneOf) return { ...only, ...rest, oneOf: [...only.oneOf, { type: 'null' }] };
  if (typeof only.type !== 'string') return { ...rest, oneOf: [only, { type: 'null' }] };
  const { const: value, ...inner } = only;
  const values = value === undefined ? only.enum : [value];
  const nullable = { ...inner, ...rest, type: [only.type, 'null'] } as Schema;
  return values ? { ...nullable, enum: [...values, null] } : nullable;
}

export function isNull({ type }: Schema): boolean {
  return type === 'null';
}

function withFormat(schema: Schema): Schema {
  const { pattern, ...rest } = schema;
  if (schema.format === 'date-time') return rest;
  if (typeof pattern === 'string') return { ...rest, pattern: pattern.replaceAll('\\/', '/') };
  if (![schema.type].flat().includes('integer')) return schema;
  const { minimum, maximum, ...integer } = schema;
  return {
    ...integer,
    format: maximum !== undefined && maximum <= INT32_MAX ? 'int32' : 'int64',
    ...(minimum !== undefined && minimum !== Number.MIN_SAFE_INTEGER && { minimum }),
    ...(maximum !== undefined && maximum !== Number.MAX_SAFE_INTEGER && { maximum }),
  } as Schema;
}

/** The property whose constant differs in each choice tells the choices apart. */
function withDiscriminator(schema: Schema, schemas: Record<string, Schema>): Schema {
  const names = (schema.oneOf as Schema[] | undefined)
    ?.filter((choice) => !isNull(choice))
    .map(({ $ref }) => $ref?.split('/').at(-1));
  if (!names || names.length < 2) return schema;
  const choices = names.map((name) => schemas[name ?? '']?.properties ?? {});
  for (const propertyName of Object.keys(choices[0] ?? {})) {
    const values = choices.map((properties) => (properties[propertyName] as Schema)?.const);
    if (values.includes(undefined) || new Set(values).size < values.length) continue;
    const mapping = values.map((value, i) => [value, `#/components/schemas/${names[i]}`]);
    const discriminator = { propertyName, mapping: Object.fromEntries(mapping) };
    return { ...schema, discriminator };
  }
  return schema;
}
