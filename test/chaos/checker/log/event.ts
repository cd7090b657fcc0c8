import { canonical, sha256 } from '../canonical.ts';

export type Fields = Record<string, unknown>;

/** An event as docs/auditors.md describes it. */
export interface LoggedEvent {
  position: bigint;
  stream: string;
  revision: number;
  id: string;
  type: string;
  schema_version: number;
  data: Fields;
  metadata: Fields & { occurred_at: string; account_id: string | null; prev_hash: string | null };
}

/**
 * Returns the SHA-256 that the next event of the stream holds as `prev_hash`, as docs/auditors.md
 * describes it.
 */
export function hashOf({ id, type, schema_version, data, metadata }: LoggedEvent): string {
  return sha256(canonical({ id, type, schema_version, data, metadata }));
}

/** Kinds of stream. A stream's name starts with its kind. */
export const KINDS = ['transfer', 'batch', 'endpoint', 'key', 'webhook', 'access', 'log'] as const;
export type Kind = (typeof KINDS)[number];
/** Kinds whose streams fold to a state of the catalog. */
export type CatalogKind = Exclude<Kind, 'transfer' | 'access' | 'log'>;

/** The stream of an endpoint name. Its last claim says which endpoint may have the name. */
export const NAMES = 'endpoint_name-';

/** Returns the kind and the id from a stream's name, `transfer-txr_...`; null for other names. */
export function streamOf(name: string): { kind: Kind; id: string } | null {
  const kind = KINDS.find((candidate) => name.startsWith(`${candidate}-`));
  return kind ? { kind, id: name.slice(kind.length + 1) } : null;
}
