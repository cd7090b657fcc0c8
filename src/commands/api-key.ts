import { createHash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_CHARACTERS = 32;
const CHECK_CHARACTERS = 6;
const API_KEY = new RegExp(`^wb_[0-9A-Za-z]{${RANDOM_CHARACTERS + CHECK_CHARACTERS}}$`);

/**
 * Creates a key: `wb_`, 190 random bits, and check characters that reveal a mistyped key without a
 * look-up.
 */
export function newApiKey(): string {
  const random = Array.from(
    { length: RANDOM_CHARACTERS },
    () => BASE62[randomInt(BASE62.length)],
  ).join('');
  return `wb_${random}${check(random)}`;
}

/** Returns true if the text has the form of a key and its check characters are correct. */
export function isApiKey(text: string): boolean {
  return API_KEY.test(text) && text.endsWith(check(text.slice(3, 3 + RANDOM_CHARACTERS)));
}

/** Returns the lowercase hex SHA-256 of a key: only this is stored. A random key needs no salt. */
export function hashApiKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

function check(random: string): string {
  let rest = crc32(random);
  let text = '';
  for (let i = 0; i < CHECK_CHARACTERS; i++) {
    text = BASE62[rest % BASE62.length] + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}
