import { createHmac, createSecretKey, hash, type KeyObject } from 'node:crypto';

/** A request as it is sent. All of its headers are signed. */
export interface Unsigned {
  method: string;
  /** Encoded as it is sent. */
  path: string;
  /** Sorted and encoded as it is sent; empty for none. */
  query: string;
  /** In lowercase, without the headers of the signature. Values have no two spaces in a row. */
  headers: Record<string, string>;
  /** The SHA-256 of the body in hex, or what replaces it. */
  payload: string;
}

/** Who signs, for which service. */
export interface Signer {
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
  service: string;
}

/**
 * Returns a function that adds the headers of Signature Version 4 to a request ("Signature
 * Calculations for the Authorization Header", Amazon S3 API Reference). The key of a day is kept.
 */
export function createSigner({ accessKeyId, secretAccessKey, region, service }: Signer) {
  let key: { day: string; secret: KeyObject } | null = null;

  function keyOf(day: string): KeyObject {
    if (key?.day !== day) {
      const steps = [day, region, service, 'aws4_request'];
      const first = Buffer.from(`AWS4${secretAccessKey}`);
      key = { day, secret: createSecretKey(steps.reduce<Buffer>(hmacOf, first)) };
    }
    return key.secret;
  }

  return ({ method, path, query, headers, payload }: Unsigned, now: Date) => {
    const time = now.toISOString().replace(/[-:]|\.\d+/g, '');
    const day = time.slice(0, 8);
    const signed: Record<string, string> = {
      ...headers,
      'x-amz-content-sha256': payload,
      'x-amz-date': time,
    };
    const names = Object.keys(signed).sort();
    const lines = names.map((name) => `${name}:${signed[name]}\n`).join('');
    const list = names.join(';');
    const canonical = `${method}\n${path}\n${query}\n${lines}\n${list}\n${payload}`;
    const scope = `${day}/${region}/${service}/aws4_request`;
    const text = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hash('sha256', canonical)}`;
    const signature = createHmac('sha256', keyOf(day)).update(text).digest('hex');
    signed.authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${list}, Signature=${signature}`;
    return signed;
  };
}

function hmacOf(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
