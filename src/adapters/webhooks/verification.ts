import { timingSafeEqual } from 'node:crypto';
import { type SigningKeys, serviceSignature, signingKeys, standardSignature } from './signature.ts';

/** A delivery as its receiver got it: the raw body, and the signature headers that were present. */
export interface SignedRequest {
  body: Buffer;
  /** `X-Service-Signature`. */
  service: string | null;
  /** `webhook-id`, `webhook-timestamp` and `webhook-signature`. */
  standard: { id: string; timestamp: string; signatures: string } | null;
}

export interface SignatureCheck {
  header: 'X-Service-Signature' | 'webhook-signature';
  /** What is wrong; null if the header proves the body. */
  objection: string | null;
}

/** Checks each header that is present, with one secret. */
export function verifySignatures(
  secret: string,
  { body, service, standard }: SignedRequest,
): SignatureCheck[] {
  const keys = signingKeys(secret);
  const verifications: SignatureCheck[] = [];
  if (service !== null)
    verifications.push({
      header: 'X-Service-Signature',
      objection: objectionToService(keys, body, service),
    });
  if (standard !== null)
    verifications.push({
      header: 'webhook-signature',
      objection: objectionToStandard(keys, body, standard),
    });
  return verifications;
}

function objectionToService(keys: SigningKeys, body: Buffer, given: string): string | null {
  const expected = serviceSignature(keys, body);
  if (equal(given, expected)) return null;
  if (equal(given.toLowerCase(), expected)) return 'the signature is correct, but not in lowercase';
  const bare = withoutLineBreak(body);
  if (bare && equal(given, serviceSignature(keys, bare)))
    return 'the signature is for this body without its final line break';
  return `this secret and this body give ${expected}`;
}

function objectionToStandard(
  keys: SigningKeys,
  body: Buffer,
  { id, timestamp, signatures }: NonNullable<SignedRequest['standard']>,
): string | null {
  if (!/^\d{1,15}$/.test(timestamp)) return 'webhook-timestamp is not a whole number of seconds';
  // During a rotation, there is one signature for each secret.
  const signs = (text: Buffer) =>
    signatures
      .split(' ')
      .some((one) => equal(one, standardSignature(keys, id, Number(timestamp), text)));
  if (signs(body)) return null;
  const bare = withoutLineBreak(body);
  if (bare && signs(bare)) return 'the signature is for this body without its final line break';
  const expected = standardSignature(keys, id, Number(timestamp), body);
  return `this secret, id, timestamp and body give ${expected}`;
}

/**
 * Returns the body without its final line break, which editors and shells add; null if it has none.
 */
function withoutLineBreak(body: Buffer): Buffer | null {
  return body.at(-1) === 0x0a ? body.subarray(0, -1) : null;
}

function equal(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
