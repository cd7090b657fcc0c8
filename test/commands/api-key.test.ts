import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { hashApiKey, isApiKey, newApiKey } from '../../src/commands/api-key.ts';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

describe('an API key', () => {
  it('is 32 random characters and six characters of their CRC-32', () => {
    for (let i = 0; i < 100; i++) {
      const [, random, check] = /^wb_([0-9A-Za-z]{32})([0-9A-Za-z]{6})$/.exec(newApiKey())!;
      expect([...check!].reduce((sum, digit) => sum * 62 + BASE62.indexOf(digit), 0)).toBe(
        crc32(random!),
      );
    }
  });

  it('differs from every other key', () => {
    expect(new Set(Array.from({ length: 1_000 }, newApiKey)).size).toBe(1_000);
  });

  it('is recognized by its form, and every mistyped character is detected', () => {
    const key = newApiKey();
    expect(isApiKey(key)).toBe(true);
    for (let i = 3; i < key.length; i++) {
      const other = BASE62[(BASE62.indexOf(key[i]!) + 1) % 62];
      expect(isApiKey(key.slice(0, i) + other + key.slice(i + 1))).toBe(false);
    }
    for (const wrong of [
      '',
      'wb_',
      key.slice(1),
      key.slice(0, -1),
      `${key}0`,
      ` ${key}`,
      `${key}\n`,
      key.toUpperCase(),
      'key_01JNQ0000000000000000000K1',
    ]) {
      expect(isApiKey(wrong)).toBe(false);
    }
  });

  it('is stored as its SHA-256', () => {
    expect(hashApiKey('wb_abc')).toBe(createHash('sha256').update('wb_abc').digest('hex'));
  });
});
