import { createPrivateKey, createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';

/*
 * Signed notes, as https://c2sp.org/signed-note describes them:
 *
 *   TEXT, one or more lines
 *
 *   — NAME BASE64(first 4 bytes of the key id || Ed25519 signature of TEXT)
 */

const ED25519 = 0x01;
const KEY_ID_BYTES = 4;
const SIGNATURE_BYTES = 64;
const PUBLIC_KEY_BYTES = 32;
/** What precedes the 32 bytes of an Ed25519 key in its DER form (RFC 8410). */
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

const SIGNATURE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/u;

export interface NoteSignature {
  /** Name of the key. */
  name: string;
  /** Eight hex digits. */
  keyId: string;
  signature: Uint8Array;
}

export interface Note {
  /** All lines, each with its line feed. */
  text: string;
  signatures: NoteSignature[];
}

/** Returns the id of a public key under a name: eight hex digits. */
export function keyIdOf(name: string, publicKey: KeyObject): string {
  const id = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), typedKey(publicKey)]));
  return id.slice(0, 2 * KEY_ID_BYTES);
}

/** Returns a public key as tools of transparency logs take it: `NAME+KEY_ID+BASE64`. */
export function verifierKey(name: string, publicKey: KeyObject): string {
  return `${name}+${keyIdOf(name, publicKey)}+${typedKey(publicKey).toString('base64')}`;
}

/** Returns the name and the key in a `NAME+KEY_ID+BASE64`; null for any other text. */
export function parseVerifierKey(text: string): { name: string; publicKey: KeyObject } | null {
  const [, name, keyId, key] =
    /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  if (name === undefined || key === undefined) return null;
  const bytes = Buffer.from(key, 'base64');
  if (bytes.length !== 1 + PUBLIC_KEY_BYTES || bytes[0] !== ED25519) return null;
  const publicKey = createPublicKey({
    key: Buffer.concat([SPKI_PREFIX, bytes.subarray(1)]),
    format: 'der',
    type: 'spki',
  });
  return keyIdOf(name, publicKey) === keyId ? { name, publicKey } : null;
}

/** Returns the line that signs a text, without its line feed. */
function signatureLine(text: string, name: string, privateKey: KeyObject): string {
  const publicKey = createPublicKey(privateKey.export({ format: 'pem', type: 'pkcs8' }));
  const signature = sign(null, Buffer.from(text), privateKey);
  const content = Buffer.concat([Buffer.from(keyIdOf(name, publicKey), 'hex'), signature]);
  return `\u2014 ${name} ${content.toString('base64')}`;
}

/** Returns a note with one signature line for each key, all under the same name. */
export function signNote(text: string, name: string, privateKeys: KeyObject[]): string {
  const lines = privateKeys.map((key) => `${signatureLine(text, name, key)}\n`);
  return `${text}\n${lines.join('')}`;
}

/** Splits a note into its text and signatures. Returns null if it is no note. */
export function parseNote(note: string): Note | null {
  const end = note.lastIndexOf('\n\n');
  if (end < 0 || !note.endsWith('\n')) return null;
  const signatures: NoteSignature[] = [];
  for (const line of note.slice(end + 2, -1).split('\n')) {
    const [, name, base64] = SIGNATURE.exec(line) ?? [];
    if (name === undefined || base64 === undefined) return null;
    const content = Buffer.from(base64, 'base64');
    if (content.length <= KEY_ID_BYTES) return null;
    signatures.push({
      name,
      keyId: content.subarray(0, KEY_ID_BYTES).toString('hex'),
      signature: content.subarray(KEY_ID_BYTES),
    });
  }
  return { text: note.slice(0, end + 1), signatures };
}

/**
 * Returns whether a key has signed a note under a name, by default the one that the signature line
 * has. Signatures of other keys do not count.
 */
export function isSignedBy(
  { text, signatures }: Note,
  publicKey: KeyObject,
  underName?: string,
): boolean {
  return signatures.some(
    ({ name, keyId, signature }) =>
      (underName === undefined || name === underName) &&
      signature.length === SIGNATURE_BYTES &&
      keyId === keyIdOf(name, publicKey) &&
      verify(null, Buffer.from(text), publicKey, signature),
  );
}

/** Reads a private key in PEM. */
export function readPrivateKey(pem: string): KeyObject {
  return createPrivateKey(pem);
}

function typedKey(publicKey: KeyObject): Buffer {
  const der = publicKey.export({ format: 'der', type: 'spki' });
  return Buffer.concat([Buffer.of(ED25519), der.subarray(SPKI_PREFIX.length)]);
}
