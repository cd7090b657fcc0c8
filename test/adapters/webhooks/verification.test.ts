import { describe, expect, it } from 'vitest';
import {
  serviceSignature,
  signatureHeaders,
  signingKeys,
  standardSignature,
} from '../../../src/adapters/webhooks/signature.ts';
import {
  type SignedRequest,
  verifySignatures,
} from '../../../src/adapters/webhooks/verification.ts';

const SECRET = 'correct-horse-battery';
const OTHER = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=';
const BODY = Buffer.from('{"id":"evt_1","data":{"file_name":"Bücher.csv"}}');
const WITH_LINE_BREAK = Buffer.concat([BODY, Buffer.from('\n')]);

/** A delivery, signed with the current secret and the previous one, with optional changes. */
function request(
  { current, previous }: { current: string; previous: string | null },
  changes: Partial<SignedRequest> = {},
): SignedRequest {
  const secrets = {
    current: signingKeys(current),
    previous: previous === null ? null : signingKeys(previous),
  };
  const headers = signatureHeaders(secrets, 'evt_1', 1_769_851_800, BODY);
  const standard = {
    id: headers['webhook-id'] as string,
    timestamp: headers['webhook-timestamp'] as string,
    signatures: headers['webhook-signature'] as string,
  };
  return { body: BODY, service: headers['X-Service-Signature'] as string, standard, ...changes };
}

const objections = (secret: string, signed: SignedRequest) =>
  verifySignatures(secret, signed).map(({ objection }) => objection);

describe('the signatures of a delivery', () => {
  it.each([SECRET, OTHER])('prove its body under the secret %s', (current) => {
    expect(verifySignatures(current, request({ current, previous: null }))).toEqual([
      { header: 'X-Service-Signature', objection: null },
      { header: 'webhook-signature', objection: null },
    ]);
  });

  it('are checked if they are present', () => {
    const signed = request({ current: SECRET, previous: null });
    expect(
      verifySignatures(SECRET, { ...signed, standard: null }).map(({ header }) => header),
    ).toEqual(['X-Service-Signature']);
    expect(
      verifySignatures(SECRET, { ...signed, service: null }).map(({ header }) => header),
    ).toEqual(['webhook-signature']);
    expect(verifySignatures(SECRET, { ...signed, service: null, standard: null })).toEqual([]);
  });

  it('may come from both secrets during a rotation, if the header has room', () => {
    const signed = request({ current: OTHER, previous: SECRET });
    expect(objections(SECRET, signed)).toEqual([null, null]);
    expect(objections(OTHER, signed)).toEqual([
      expect.stringContaining(serviceSignature(signingKeys(OTHER), BODY)),
      null,
    ]);
  });

  it('are compared with those of the given secret', () => {
    expect(objections(OTHER, request({ current: SECRET, previous: null }))).toEqual([
      `this secret and this body give ${serviceSignature(signingKeys(OTHER), BODY)}`,
      'this secret, id, timestamp and body give ' +
        `${standardSignature(signingKeys(OTHER), 'evt_1', 1_769_851_800, BODY)}`,
    ]);
  });

  it('reveal the line break that an editor added', () => {
    const hint = 'the signature is for this body without its final line break';
    expect(
      objections(SECRET, request({ current: SECRET, previous: null }, { body: WITH_LINE_BREAK })),
    ).toEqual([hint, hint]);
  });

  it('have their own objection for a wrong or missing timestamp', () => {
    const signed = request({ current: SECRET, previous: null });
    const at = (timestamp: string) =>
      objections(SECRET, { ...signed, standard: { ...signed.standard!, timestamp } })[1];
    expect(at('1769851801')).toMatch(/^this secret, id, timestamp and body give v1,/);
    expect(at('2026-01-31T09:30:00Z')).toBe('webhook-timestamp is not a whole number of seconds');
  });

  it.each([
    ['empty', ''],
    ['not of this length', 'abc'],
    ['not of ASCII', 'ä'.repeat(64)],
  ])('that are %s are wrong', (_, service) => {
    expect(
      objections(SECRET, request({ current: SECRET, previous: null }, { service }))[0],
    ).toMatch(/^this secret and this body give/);
  });

  it('in capital letters are named as such', () => {
    const signed = request({ current: SECRET, previous: null });
    expect(objections(SECRET, { ...signed, service: signed.service!.toUpperCase() })[0]).toBe(
      'the signature is correct, but not in lowercase',
    );
  });
});
