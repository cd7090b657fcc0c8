import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  checkpointText,
  headOfNote,
  originOf,
  parseCheckpoint,
} from '../../../src/domain/proof/checkpoint.ts';
import { EMPTY_ROOT } from '../../../src/domain/proof/hash.ts';
import {
  isSignedBy,
  keyIdOf,
  type Note,
  parseNote,
  parseVerifierKey,
  readPrivateKey,
  signNote,
  verifierKey,
} from '../../../src/domain/proof/note.ts';

/** The key and the note of the tests of golang.org/x/mod/sumdb/note. */
const VERIFIER = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const SEED = '810a1402d5146c8d84f2443330f54080ebf98ee17d9c74f6252fc5d5c7283173';
const TEXT =
  'If you think cryptography is the answer to your problem,\n' +
  "then you don't know what your problem is.\n";
const NOTE = `${TEXT}\n\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n`;

describe('a signed note', () => {
  const reference = parseVerifierKey(VERIFIER);
  if (reference === null) throw new Error('the reference key is not read');

  it('of the reference is accepted, and not after a change', () => {
    const note = parseNote(NOTE) as Note;
    expect(note.text).toBe(TEXT);
    expect(note.signatures.map(({ name, keyId }) => [name, keyId])).toEqual([
      ['PeterNeumann', 'c74f20a3'],
    ]);
    expect(isSignedBy(note, reference.publicKey)).toBe(true);
    expect(isSignedBy({ ...note, text: TEXT.replace('is', 'IS') }, reference.publicKey)).toBe(
      false,
    );
    const stranger = generateKeyPairSync('ed25519').publicKey;
    expect(isSignedBy(note, stranger)).toBe(false);
  });

  it('names its key as the reference does', () => {
    expect(reference.name).toBe('PeterNeumann');
    expect(keyIdOf('PeterNeumann', reference.publicKey)).toBe('c74f20a3');
    expect(verifierKey('PeterNeumann', reference.publicKey)).toBe(VERIFIER);
    expect(parseVerifierKey(VERIFIER.replace('c7', 'c8'))).toBeNull();
    expect(parseVerifierKey(VERIFIER.replace('ARpc', 'ZRpc'))).toBeNull();
    expect(parseVerifierKey('no key')).toBeNull();
  });

  it('is made as the reference makes it', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
    const other = generateKeyPairSync('ed25519');
    const note = signNote(TEXT, 'a/name', [readPrivateKey(pem), other.privateKey]);
    const parsed = parseNote(note) as Note;
    expect(parsed.text).toBe(TEXT);
    expect(parsed.signatures).toHaveLength(2);
    expect(isSignedBy(parsed, publicKey)).toBe(true);
    expect(isSignedBy(parsed, createPublicKey(other.privateKey))).toBe(true);
  });

  it('with the private key of the reference has the same bytes', () => {
    const der = Buffer.concat([
      Buffer.from('302e020100300506032b657004220420', 'hex'),
      Buffer.from(SEED, 'hex'),
    ]);
    const pem = `-----BEGIN PRIVATE KEY-----\n${der.toString('base64')}\n-----END PRIVATE KEY-----\n`;
    expect(signNote(TEXT, 'PeterNeumann', [readPrivateKey(pem)])).toBe(NOTE);
  });

  it.each([
    ['no signature', TEXT],
    ['no line feed at the end', NOTE.trimEnd()],
    ['a hyphen', NOTE.replace('\u2014', '-')],
    ['no base64', NOTE.replace('x08go', 'x08g!')],
    ['too short a signature', `${TEXT}\n\u2014 PeterNeumann AAAA\n`],
  ])('is none with %s', (_, text) => {
    expect(parseNote(text)).toBeNull();
  });
});

describe('a checkpoint', () => {
  it('has the form of its specification', () => {
    const text =
      'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n';
    const head = parseCheckpoint(text);
    expect(head).toMatchObject({ origin: 'example.com/behind-the-sofa', size: 20_852_163 });
    expect(head && checkpointText(head)).toBe(text);
  });

  it('is read from a signed note', () => {
    const origin = originOf('8f0b');
    const { privateKey } = generateKeyPairSync('ed25519');
    const head = { origin, size: 0, root: EMPTY_ROOT };
    expect(headOfNote(signNote(checkpointText(head), origin, [privateKey]))).toEqual(head);
    expect(headOfNote(checkpointText(head))).toBeNull();
  });

  it.each([
    ['a size with a zero before it', 'o\n01\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'],
    ['a size that is no number', 'o\n-1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'],
    ['a short root', 'o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jx\n'],
    ['no origin', '\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'],
    ['an open line', 'o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I='],
  ])('is none with %s', (_, text) => {
    expect(parseCheckpoint(text)).toBeNull();
  });
});
