import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { UploadPartCommandInput } from '@aws-sdk/client-s3';

export type ChecksumName = 'crc32' | 'md5';

/** A checksum that continues from chunk to chunk. */
export interface RunningChecksum {
  update(data: Uint8Array): void;
  digest(): Buffer;
}

/** What S3 says of a part or an object in an answer or a list. */
export interface Described {
  ChecksumCRC32?: string | undefined;
  ETag?: string | undefined;
  ServerSideEncryption?: string | undefined;
}

/** A checksum, and the places where S3 has it. */
export interface Checksum {
  readonly name: ChecksumName;
  /** Bytes of a digest. */
  readonly bytes: number;
  /** False if the answer to a part may lack it, as an ETag that is no MD5. */
  readonly isAlwaysAnswered: boolean;
  /** The trailer of a streamed part that has it. Null if there is none. */
  readonly trailer: string | null;
  /** Makes the answer about an object have it. */
  readonly question: { ChecksumMode?: 'ENABLED' };
  start(): RunningChecksum;
  /** Returns the checksum of a part, in the form of `in`. */
  ofPart(digest: Buffer): string;
  /** Returns the checksum of an upload made of these parts, in the form of `in`. */
  ofParts(digests: readonly Buffer[]): string;
  /** Returns what the server says. Null if that has no such checksum. */
  in(described: Described): string | null;
  /** Returns the digest of a part for the server to check before it stores the part. */
  declared(digest: Buffer): Declared;
  /** Returns the digest of a part for the request that completes the upload. */
  listed(digest: Buffer): { ChecksumCRC32?: string };
  /** Returns the ETag of an object with this checksum, if it derives from that. */
  etag(ofParts: string): string | undefined;
}

export type Declared = Pick<UploadPartCommandInput, 'ContentMD5' | 'ChecksumCRC32'>;

export const CRC32_HEADER = 'x-amz-checksum-crc32';

/** Asks for CRC-32 when an upload begins. A server that computes it says so in its answer. */
export const CRC32_WANTED = { ChecksumAlgorithm: 'CRC32' } as const;

export const CHECKSUMS: Record<ChecksumName, Checksum> = {
  crc32: {
    name: 'crc32',
    bytes: 4,
    isAlwaysAnswered: true,
    trailer: CRC32_HEADER,
    question: { ChecksumMode: 'ENABLED' },
    start: startCrc32,
    ofPart: (digest) => digest.toString('base64'),
    ofParts: (digests) =>
      `${digestOf('crc32', Buffer.concat(digests)).toString('base64')}-${digests.length}`,
    in: ({ ChecksumCRC32 }) => ChecksumCRC32 ?? null,
    declared: (digest) => ({ ChecksumCRC32: digest.toString('base64') }),
    listed: (digest) => ({ ChecksumCRC32: digest.toString('base64') }),
    etag: () => undefined,
  },
  md5: {
    name: 'md5',
    bytes: 16,
    isAlwaysAnswered: false,
    trailer: null,
    question: {},
    start: startMd5,
    ofPart: (digest) => digest.toString('hex'),
    ofParts: (digests) =>
      `${digestOf('md5', Buffer.concat(digests)).toString('hex')}-${digests.length}`,
    in: ({ ETag, ServerSideEncryption }) => md5OfETag(ETag, ServerSideEncryption),
    declared: (digest) => ({ ContentMD5: digest.toString('base64') }),
    listed: () => ({}),
    etag: (ofParts) => `"${ofParts}"`,
  },
};

/** Returns the checksum that verifies the parts of an upload: CRC-32 if the server computes it. */
export function checksumOf(begun: { ChecksumAlgorithm?: string | undefined }): Checksum {
  return begun.ChecksumAlgorithm === CRC32_WANTED.ChecksumAlgorithm
    ? CHECKSUMS.crc32
    : CHECKSUMS.md5;
}

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
