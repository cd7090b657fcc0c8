import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

export type ChecksumName = 'crc32' | 'md5';

/** A checksum that continues from chunk to chunk. */
export interface RunningChecksum {
  update(data: Uint8Array): void;
  digest(): Buffer;
}

export interface Checksum {
  readonly name: ChecksumName;
  /** Bytes of a digest. */
  readonly bytes: number;
  start(): RunningChecksum;
  /** Returns the checksum of an upload made of these parts, in the form that S3 reports. */
  ofParts(digests: readonly Buffer[]): string;
}

export const CHECKSUMS: Record<ChecksumName, Checksum> = {
  crc32: {
    name: 'crc32',
    bytes: 4,
    start: startCrc32,
    ofParts: (digests) =>
      `${digestOf('crc32', Buffer.concat(digests)).toString('base64')}-${digests.length}`,
  },
  md5: {
    name: 'md5',
    bytes: 16,
    start: startMd5,
    ofParts: (digests) =>
      `${digestOf('md5', Buffer.concat(digests)).toString('hex')}-${digests.length}`,
  },
};

export function digestOf(name: ChecksumName, data: Uint8Array): Buffer {
  const running = CHECKSUMS[name].start();
  running.update(data);
  return running.digest();
}

function startCrc32(): RunningChecksum {
  let value = 0;
  return {
    update(data) {
      value = crc32(data, value);
    },
    digest() {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value);
      return bytes;
    },
  };
}

function startMd5(): RunningChecksum {
  const hash = createHash('md5');
  return { update: (data) => void hash.update(data), digest: () => hash.digest() };
}

/**
 * Returns the MD5 in hex that an ETag holds: of the content, or of the MD5s of the parts. Returns
 * null if the ETag is something else, as it is for an object encrypted with a KMS key.
 */
export function md5OfETag(etag: string | undefined, encryption: string | undefined): string | null {
  const bare = etag?.replaceAll('"', '') ?? '';
  return /^[0-9a-f]{32}(-\d+)?$/.test(bare) && !encryption?.startsWith('aws:kms') ? bare : null;
}
