import type { OpenAPIV3_1 } from 'openapi-types';

/** The schema of a value in the OpenAPI document. */
export type Schema = OpenAPIV3_1.SchemaObject & { $ref?: string };
