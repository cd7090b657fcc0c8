import { timingSafeEqual } from 'node:crypto';
import { serviceSignature, standardSignature } from './signature.ts';

/** A delivery as its receiver has it: the raw body, and the headers that sign it as far as they are there. */
export interface SignedRequest {
  body: Buffer;
  /** `X-Service-Signature`. */
  service: string | null;
  /** `webhook-id`, `webhook-timestamp` and `webhook-signature`. */
  standard: { id: string; timestamp: string; signatures: string } | null;
}

export interface Verification {
  header: 'X-Service-Signature' | 'webhook-signature';
  /** What is wrong; null where the header proves the body. */
  objection: string | null;
}

/** What each header that is there proves under a secret. */
export function verifySignatures(secret: string, { body, service, standard }: SignedRequest): Verification[] {
  const verifications: Verification[] = [];
  if (service !== null) verifications.push({ header: 'X-Service-Signature', objection: objectionToService(secret, body, service) });
  if (standard !== null) verifications.push({ header: 'webhook-signature', objection: objectionToStandard(secret, body, standard) });
  return verifications;
}

function objectionToService(secret: string, body: Buffer, given: string): string | null {
  const expected = serviceSignature(secret, body);
  if (equal(given, expected)) return null;
  if (equal(given.toLowerCase(), expected)) return 'it is right but for its capital letters';
  const bare = withoutLineBreak(body);
  if (bare && equal(given, serviceSignature(secret, bare))) return 'it signs this body without the line break at its end';
  return `this secret and this body make ${expected}`;
}

function objectionToStandard(
  secret: string,
  body: Buffer,
  { id, timestamp, signatures }: NonNullable<SignedRequest['standard']>,
): string | null {
  if (!/^\d{1,15}$/.test(timestamp)) return 'webhook-timestamp is no whole number of seconds';
  // During a rotation there is one for each secret.
  const signs = (text: Buffer) => signatures.split(' ').some((one) => equal(one, standardSignature(secret, id, Number(timestamp), text)));
  if (signs(body)) return null;
  const bare = withoutLineBreak(body);
  if (bare && signs(bare)) return 'it signs this body without the line break at its end';
  return `this secret, id, timestamp and body make ${standardSignature(secret, id, Number(timestamp), body)}`;
}

/** Editors and shells add one. */
function withoutLineBreak(body: Buffer): Buffer | null {
  return body.at(-1) === 0x0a ? body.subarray(0, -1) : null;
}

function equal(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
