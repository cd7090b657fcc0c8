import { hash } from 'node:crypto';

/** A SHA-256 in its 32 bytes. */
export type Hash = Uint8Array;

export const HASH_BYTES = 32;

/** The root of a tree without leaves (RFC 6962, section 2.1). */
export const EMPTY_ROOT: Hash = hash('sha256', '', 'buffer');

/** Holds 0x01 and the two children of the node that is being hashed. */
const node = Buffer.alloc(1 + 2 * HASH_BYTES, 1);

/** Returns the hash of a leaf with this text: SHA-256(0x00 || UTF-8 of the text). */
export function leafHash(text: string): Hash {
  return hash('sha256', `\0${text}`, 'buffer');
}

/** Returns the hash of a node: SHA-256(0x01 || left || right). */
export function nodeHash(left: Hash, right: Hash): Hash {
  node.set(left, 1);
  node.set(right, 1 + HASH_BYTES);
  return hash('sha256', node, 'buffer');
}

/** Returns the hash of a node whose children lie side by side in `hashes`, at byte `from`. */
export function nodeHashOf(hashes: Uint8Array, from: number): Hash {
  node.set(hashes.subarray(from, from + 2 * HASH_BYTES), 1);
  return hash('sha256', node, 'buffer');
}

export function sameHash(a: Hash, b: Hash): boolean {
  return Buffer.compare(a, b) === 0;
}
