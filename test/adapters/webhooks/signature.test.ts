import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  serviceSignature,
  signatureHeaders,
  signingKeys,
} from '../../../src/adapters/webhooks/signature.ts';
import { debianPackages } from '../../support/programs/debian.ts';

const BODY = '{"id":"evt_1","data":{"file_name":"Übergabe \\"€\\".csv"}}';
const ID = 'evt_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
const NOW = Math.floor(Date.now() / 1_000);

function generated(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

describe('X-Service-Signature', () => {
  let openssl: Awaited<ReturnType<typeof debianPackages>>;
  beforeAll(async () => {
    openssl = await debianPackages(['openssl'], ['/usr/bin/openssl']);
  });

  it.each(['a secret with spaces', 'geheim-äöü-€', generated()])(
    'is what openssl computes from the body and %s',
    (secret) => {
      if (!openssl.available) throw new Error(openssl.reason);
      const script = 'printf %s "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d" " -f1';
      const env = { ...process.env, ...openssl.env, BODY, SECRET: secret };
      const printed = execFileSync('sh', ['-c', script], { env, encoding: 'utf8' });
      expect(
        signatureHeaders({ current: signingKeys(secret), previous: null }, ID, NOW, BODY)[
          'X-Service-Signature'
        ],
      ).toBe(printed.trim());
    },
  );

  it('uses the previous secret while that is valid', () => {
    const headers = signatureHeaders(
      { current: signingKeys('the new one'), previous: signingKeys('the old one') },
      ID,
      NOW,
      BODY,
    );
    expect(headers['X-Service-Signature']).toBe(serviceSignature(signingKeys('the old one'), BODY));
  });

  it('is the same for a text and its bytes', () => {
    expect(serviceSignature(signingKeys('secret'), Buffer.from(BODY))).toBe(
      serviceSignature(signingKeys('secret'), BODY),
    );
  });
});

describe('webhook-signature', () => {
  it('is verified by the public library with a generated secret', () => {
    const secret = generated();
    const headers = signatureHeaders(
      { current: signingKeys(secret), previous: null },
      ID,
      NOW,
      BODY,
    );
    expect(new Webhook(secret).verify(BODY, headers)).toEqual(JSON.parse(BODY));
  });

  it('is verified by the public library with the bytes of any other secret', () => {
    const headers = signatureHeaders(
      { current: signingKeys('my own secret'), previous: null },
      ID,
      NOW,
      BODY,
    );
    expect(new Webhook('my own secret', { format: 'raw' }).verify(BODY, headers)).toEqual(
      JSON.parse(BODY),
    );
  });

  it('is verified with both secrets while both are valid, and with no other', () => {
    const [current, previous, other] = [generated(), generated(), generated()];
    const headers = signatureHeaders(
      { current: signingKeys(current), previous: signingKeys(previous) },
      ID,
      NOW,
      BODY,
    );
    for (const secret of [current, previous])
      expect(new Webhook(secret).verify(BODY, headers)).toEqual(JSON.parse(BODY));
    expect(() => new Webhook(other).verify(BODY, headers)).toThrow('No matching signature found');
  });

  it('does not verify another body, id or time', () => {
    const secret = generated();
    const headers = signatureHeaders(
      { current: signingKeys(secret), previous: null },
      ID,
      NOW,
      BODY,
    );
    const verify = (body: string, changes: Record<string, string> = {}) =>
      new Webhook(secret).verify(body, { ...headers, ...changes });
    expect(() => verify(`${BODY} `)).toThrow('No matching signature found');
    expect(() => verify(BODY, { 'webhook-id': 'evt_2' })).toThrow('No matching signature found');
    expect(() => verify(BODY, { 'webhook-timestamp': String(NOW - 1) })).toThrow(
      'No matching signature found',
    );
  });
});
