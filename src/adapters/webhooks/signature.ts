import { createHmac } from 'node:crypto';
import { STANDARD_SECRET_PREFIX } from '../../domain/webhook.ts';

/** The secrets that sign: the one of now and, until the grace time of a rotation ends, the one before it. */
export interface SigningSecrets {
  current: string;
  previous: string | null;
}

/** `X-Service-Signature`: lowercase hex HMAC-SHA-256 of the raw body under the UTF-8 bytes of the secret. */
export function serviceSignature(secret: string, body: string | Buffer): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

/**
 * One signature of `webhook-signature`, as Standard Webhooks has it: `v1,` + base64. The key is what a
 * `whsec_` secret encodes in base64, else the bytes of the secret. `timestamp`: seconds since 1970.
 */
export function standardSignature(secret: string, id: string, timestamp: number, body: string | Buffer): string {
  const key = secret.startsWith(STANDARD_SECRET_PREFIX) ? Buffer.from(secret.slice(STANDARD_SECRET_PREFIX.length), 'base64') : secret;
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
}

/**
 * The headers that prove a request to its receiver. `X-Service-Signature` has room for one value: while
 * both secrets are valid it stays with the previous one, which a receiver that knows no other header has.
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
    'webhook-signature': secrets.map((secret) => standardSignature(secret, id, timestamp, body)).join(' '),
  };
}
