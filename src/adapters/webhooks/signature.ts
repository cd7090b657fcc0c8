import { createHmac, createSecretKey } from 'node:crypto';
import { STANDARD_SECRET_PREFIX } from '../../domain/webhook.ts';

/**
 * The secrets that sign: the current one and, until the grace period of a rotation ends, the
 * previous one.
 */
export interface SigningSecrets {
  current: string;
  previous: string | null;
}

/**
 * Returns `X-Service-Signature`: lowercase hex HMAC-SHA-256 of the raw body under the UTF-8 bytes
 * of the secret.
 */
export function serviceSignature(secret: string, body: string | Buffer): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

/**
 * Returns one signature of `webhook-signature` as Standard Webhooks defines it: `v1,` + base64. The
 * key of a `whsec_` secret is what it encodes in base64; of any other, its bytes. `timestamp`:
 * seconds since 1970.
 */
export function standardSignature(
  secret: string,
  id: string,
  timestamp: number,
  body: string | Buffer,
): string {
  const key = secret.startsWith(STANDARD_SECRET_PREFIX)
    ? // A Buffer as the key takes six times as long.
      createSecretKey(secret.slice(STANDARD_SECRET_PREFIX.length), 'base64')
    : secret;
  const hmac = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body);
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
