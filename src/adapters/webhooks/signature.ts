import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import { STANDARD_SECRET_PREFIX } from '../../domain/webhook.ts';

/** A secret as keys that sign. Making them takes as long as a signature. */
export interface SigningKeys {
  /** Its UTF-8 bytes. */
  service: KeyObject;
  /** What a `whsec_` secret encodes in base64; of any other, its UTF-8 bytes. */
  standard: KeyObject;
}

export function signingKeys(secret: string): SigningKeys {
  const service = createSecretKey(secret, 'utf8');
  return {
    service,
    standard: secret.startsWith(STANDARD_SECRET_PREFIX)
      ? createSecretKey(secret.slice(STANDARD_SECRET_PREFIX.length), 'base64')
      : service,
  };
}

/**
 * The secrets that sign: the current one and, until the grace period of a rotation ends, the
 * previous one.
 */
export interface SigningSecrets {
  current: SigningKeys;
  previous: SigningKeys | null;
}

/**
 * Returns `X-Service-Signature`: lowercase hex HMAC-SHA-256 of the raw body under the UTF-8 bytes
 * of the secret.
 */
export function serviceSignature({ service }: SigningKeys, body: string | Buffer): string {
  return createHmac('sha256', service).update(body).digest('hex');
}

/**
 * Returns one signature of `webhook-signature` as Standard Webhooks defines it: `v1,` + base64.
 * `timestamp`: seconds since 1970.
 */
export function standardSignature(
  { standard }: SigningKeys,
  id: string,
  timestamp: number,
  body: string | Buffer,
): string {
  const hmac = createHmac('sha256', standard).update(`${id}.${timestamp}.`).update(body);
  return `v1,${hmac.digest('base64')}`;
}

/**
 * Returns the headers that prove a request to its receiver. `X-Service-Signature` has room for one
 * value. While both secrets are valid, it is made with the previous one, which a receiver that
 * reads only this header still has.
 */
export function signatureHeaders(
  { current, previous }: SigningSecrets,
  id: string,
  timestamp: number,
  body: string | Buffer,
): Record<string, string> {
  const secrets = previous === null ? [current] : [current, previous];
  return {
    'X-Service-Signature': serviceSignature(previous ?? current, body),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': secrets
      .map((secret) => standardSignature(secret, id, timestamp, body))
      .join(' '),
  };
}
