import { UNSAFE } from './text.ts';

/** The claims that an OpenID Connect provider makes about a person. */
export type Claims = Record<string, unknown>;

/** A person as the console shows it, and as events name it. */
export interface Person {
  /** The provider's own id of the person. It never changes. */
  subject: string;
  name: string | null;
  email: string | null;
}

const LONGEST = 200;
const ALL_UNSAFE = new RegExp(UNSAFE.source, 'g');

/**
 * Returns true if the provider says that the email is the person's. Some say so as a text. Without
 * that claim, people or other organizations may have chosen it.
 */
export function isEmailVerified({ email_verified: verified }: Claims): boolean {
  return verified === true || verified === 'true';
}

/** Reads a person from claims. The claims need a `sub`. Ignores an email that is not verified. */
export function personOf(claims: Claims): Person {
  const email = isEmailVerified(claims) ? readable(claims.email) : null;
  const name = readable(claims.name) ?? readable(claims.preferred_username);
  return { subject: String(claims.sub), name, email };
}

/**
 * Returns the actor of a person's events: `person:EMAIL (SUBJECT)`, with the name if there is no
 * email. The subject is the text in the last parentheses.
 */
export function actorOf({ subject, name, email }: Person): string {
  // A name may look like the email of another person.
  const label = email ?? name?.replaceAll('@', ' at ') ?? null;
  const id = readable(subject) ?? '';
  return label === null ? `person:${id}` : `person:${label} (${id})`;
}

/** Returns the text without characters that would change how a line of the log reads. */
function readable(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  // Last: the cut may leave half of a surrogate pair, which no table can hold.
  return value.replace(ALL_UNSAFE, '').trim().slice(0, LONGEST).toWellFormed() || null;
}
