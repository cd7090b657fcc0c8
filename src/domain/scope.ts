export const SCOPES = [
  'transfers:read',
  'transfers:write',
  'flows:read',
  'flows:write',
  'webhooks:read',
  'webhooks:write',
  'audit:read',
  'metrics:read',
  'observe',
  'operate',
  'audit:all',
  'admin',
] as const;
export type Scope = (typeof SCOPES)[number];

/** What a scope grants besides itself. `admin` grants every scope. */
const INCLUDED: Partial<Record<Scope, Scope>> = {
  'transfers:write': 'transfers:read',
  'flows:write': 'flows:read',
  'webhooks:write': 'webhooks:read',
  operate: 'observe',
  'audit:all': 'audit:read',
};

/** Returns true if one of the held scopes grants the needed one. */
export function grants(held: readonly Scope[], needed: Scope): boolean {
  return held.some((scope) => scope === needed || scope === 'admin' || INCLUDED[scope] === needed);
}
