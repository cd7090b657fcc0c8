import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

export const ALGORITHMS = ['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'] as const;
export type ChecksumAlgorithm = (typeof ALGORITHMS)[number];

export interface Checksum {
  update(chunk: Buffer): void;
  /** Big endian, as S3 encodes it in base64. */
  digest(): Buffer;
}

// Reflected, like the check values of RFC 3720 (CRC32C) and the NVMe specification (CRC64NVME).
const POLYNOMIALS: Partial<Record<ChecksumAlgorithm, { width: 32n | 64n; polynomial: bigint }>> = {
  CRC32: { width: 32n, polynomial: 0xedb88320n },
  CRC32C: { width: 32n, polynomial: 0x82f63b78n },
  CRC64NVME: { width: 64n, polynomial: 0x9a6c9329ac4bc9b5n },
};

export function createChecksum(algorithm: ChecksumAlgorithm): Checksum {
  if (algorithm === 'CRC32') return nativeCrc32();
  if (algorithm === 'CRC32C') return crc32c();
  if (algorithm === 'CRC64NVME') return crc64nvme();
  const hash = createHash(algorithm.toLowerCase());
  return { update: (chunk) => void hash.update(chunk), digest: () => hash.digest() };
}

function nativeCrc32(): Checksum {
  let value = 0;
  return {
    update(chunk) {
      value = crc32(chunk, value);
    },
    digest: () => bytes(BigInt(value), 32n),
  };
}

const CRC32C_TABLE = Uint32Array.from(table(0x82f63b78n), Number);

function crc32c(): Checksum {
  let value = -1;
  return {
    update(chunk) {
      for (const byte of chunk)
        value = (value >>> 8) ^ (CRC32C_TABLE[(value ^ byte) & 0xff] as number);
    },
    digest: () => bytes(BigInt(~value >>> 0), 32n),
  };
}

// In two halves: BigInt is about fifty times slower.
const CRC64_TABLE = table(0x9a6c9329ac4bc9b5n);
const CRC64_LOW = Uint32Array.from(CRC64_TABLE, (entry) => Number(entry & 0xffffffffn));
const CRC64_HIGH = Uint32Array.from(CRC64_TABLE, (entry) => Number(entry >> 32n));

function crc64nvme(): Checksum {
  let low = -1;
  let high = -1;
  return {
    update(chunk) {
      for (const byte of chunk) {
        const index = (low ^ byte) & 0xff;
        low = ((low >>> 8) | (high << 24)) ^ (CRC64_LOW[index] as number);
        high = (high >>> 8) ^ (CRC64_HIGH[index] as number);
      }
    },
    digest: () => bytes((BigInt(~high >>> 0) << 32n) | BigInt(~low >>> 0), 64n),
  };
}

function table(polynomial: bigint): bigint[] {
  return Array.from({ length: 256 }, (_, index) => {
    let entry = BigInt(index);
    for (let bit = 0; bit < 8; bit++) entry = entry & 1n ? (entry >> 1n) ^ polynomial : entry >> 1n;
    return entry;
  });
}

function bytes(value: bigint, width: 32n | 64n): Buffer {
  return Buffer.from(value.toString(16).padStart(Number(width / 4n), '0'), 'hex');
}

/**
 * Returns the CRC of concatenated parts from the parts' own CRCs. Throws for algorithms that cannot
 * be combined.
 */
export function combine(
  algorithm: ChecksumAlgorithm,
  parts: { digest: Buffer; size: number }[],
): Buffer {
  const parameters = POLYNOMIALS[algorithm];
  if (!parameters)
    throw new TypeError(`${algorithm} of a whole does not follow from those of its parts`);
  const { width, polynomial } = parameters;
  const value = (digest: Buffer) => BigInt(`0x${digest.toString('hex')}`);
  // The bytes after a part shift its remainder by as many bits, which multiplies it by x^(8 *
  // size).
  const whole = parts.reduce(
    (crc, { digest, size }) => multiply(crc, power(8n * BigInt(size))) ^ value(digest),
    0n,
  );
  return bytes(whole, width);

  function multiply(a: bigint, b: bigint): bigint {
    let product = 0n;
    for (let bit = width - 1n; bit >= 0n; bit--) {
      if ((a >> bit) & 1n) product ^= b;
      b = b & 1n ? (b >> 1n) ^ polynomial : b >> 1n;
    }
    return product;
  }

  function power(exponent: bigint): bigint {
    let result = 1n << (width - 1n);
    for (let square = result >> 1n; exponent > 0n; exponent >>= 1n) {
      if (exponent & 1n) result = multiply(result, square);
      square = multiply(square, square);
    }
    return result;
  }
}
