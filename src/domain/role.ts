import { ACCOUNT } from './account.ts';
import { type Claims, isEmailVerified } from './person.ts';
import { grants, SCOPES, type Scope } from './scope.ts';

export const ROLES = ['viewer', 'operator', 'auditor', 'admin'] as const;
/** A named set of scopes, for people and for keys. */
export type Role = (typeof ROLES)[number];

export const ROLE_SCOPES: Record<Role, readonly Scope[]> = {
  viewer: ['transfers:read', 'flows:read', 'webhooks:read', 'observe'],
  operator: ['transfers:write', 'flows:write', 'webhooks:write', 'operate'],
  auditor: ['transfers:read', 'flows:read', 'webhooks:read', 'observe', 'audit:all'],
  admin: ['admin'],
};

/** Stands for every account in a rule or a grant. */
export const EVERY_ACCOUNT = '*';

/** A role in one account, or in every account (`*`). */
export interface RoleGrant {
  role: Role;
  account: string;
}

/** People whose claim has the value get the role in the account. */
export interface RoleRule extends RoleGrant {
  /** The name of a claim, or a path into nested claims: `realm_access.roles`. */
  claim: string;
  value: string;
}

/**
 * Parses a rule `claim:value=role@account`. The name of the claim may be a URL. `%2C` in the value
 * is a comma, `%25` a percent sign. Returns null for any other text.
 */
export function parseRoleRule(text: string): RoleRule | null {
  const match = /^((?:https?:\/\/)?[^:]+):(.+)=([a-z]+)@([^@=]+)$/.exec(text);
  if (match === null) return null;
  const [, claim, value, role, account] = match as unknown as [
    string,
    string,
    string,
    Role,
    string,
  ];
  if (!ROLES.includes(role) || (account !== EVERY_ACCOUNT && !ACCOUNT.test(account))) return null;
  return { claim, value: value.replace(/%2C/gi, ',').replaceAll('%25', '%'), role, account };
}

/** Returns the grants of all rules that the claims match, in the order of the rules. */
export function grantsOf(claims: Claims, rules: readonly RoleRule[]): RoleGrant[] {
  return rules
    .filter(({ claim, value }) => valuesOf(claims, claim).includes(value))
    .map(({ role, account }) => ({ role, account }));
}

/**
 * Returns the values of a claim as texts. A claim can be one value or a list. An email address has
 * none unless the provider has verified it: people may choose it freely.
 */
export function valuesOf(claims: Claims, name: string): string[] {
  if (name === 'email' && !isEmailVerified(claims)) return [];
  const value = Object.hasOwn(claims, name) ? claims[name] : nested(claims, name.split('.'));
  return [value].flat().filter(isPlain).map(String);
}

function nested(claims: unknown, path: string[]): unknown {
  return path.reduce(
    (value: unknown, name) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Claims)[name]
        : undefined,
    claims,
  );
}

function isPlain(value: unknown): value is string | number | boolean {
  return ['string', 'number', 'boolean'].includes(typeof value);
}

/** Returns the scopes of all roles that the grants give in an account. */
export function scopesIn(grants: readonly RoleGrant[], account: string): Scope[] {
  const held = grants.filter((grant) => [account, EVERY_ACCOUNT].includes(grant.account));
  return [...new Set(held.flatMap(({ role }) => ROLE_SCOPES[role]))];
}

/** Returns the accounts that the grants name. With a grant for every account, adds `known`. */
export function accountsOf(grants: readonly RoleGrant[], known: readonly string[]): string[] {
  const named = grants.map(({ account }) => account).filter((name) => name !== EVERY_ACCOUNT);
  const every = named.length < grants.length ? known : [];
  return [...new Set([...named, ...every])].sort();
}

/** Returns every scope that the held ones grant, in the order of `SCOPES`. */
export function allGranted(held: readonly Scope[]): Scope[] {
  return SCOPES.filter((scope) => grants(held, scope));
}
