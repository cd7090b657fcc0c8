import type { Readable } from 'node:stream';
import { createPieceBody } from '../http/piece-body.ts';
import type { Checksum } from './checksums.ts';

/** A part that is sent while its chunks arrive. */
export interface PartStream {
  readonly body: Readable;
  /** Headers that describe the body. */
  readonly headers: Record<string, string>;
  /** Resolves when the caller may reuse `chunk`. Throws if the body is closed. */
  push(chunk: Uint8Array): Promise<void>;
  /** Returns the digest of the whole part, after the last chunk was pushed. */
  digest(): Buffer;
}

/**
 * Creates the stream of a part of `bytes` bytes.
 *
 * With CRC-32, the body is in chunks of "aws-chunked". The checksum follows as a trailer for the
 * server to check: see "Uploading objects with trailing checksums" in the Amazon S3 User Guide. The
 * SDK's own encoder is not used: it ignores back-pressure on a slow line.
 *
 * With MD5, the body is the content alone, and only the server's answer can be compared.
 */
export function createPartStream(bytes: number, chunkSize: number, checksum: Checksum): PartStream {
  const { trailer } = checksum;
  const running = checksum.start();
  const { body, push } = createPieceBody(bytes);
  let digest: Buffer | null = null;

  return {
    body,
    headers: trailer
      ? framedHeaders(bytes, chunkSize, trailer, checksum.bytes)
      : { 'content-length': String(bytes), 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' },
    push: (chunk) =>
      push(chunk, (isLast) => {
        running.update(chunk);
        if (isLast) digest = running.digest();
        return trailer ? frame(chunk, digest && trailerOf(trailer, digest)) : Buffer.from(chunk);
      }),
    digest: () => digest as Buffer,
  };
}

function frame(chunk: Uint8Array, trailer: string | null): Buffer {
  return Buffer.concat([
    Buffer.from(frameStart(chunk.length)),
    chunk,
    Buffer.from(`\r\n${trailer ?? ''}`),
  ]);
}

/** Returns what follows the last chunk. */
function trailerOf(name: string, digest: Buffer): string {
  return `0\r\n${name}:${digest.toString('base64')}\r\n\r\n`;
}

function frameStart(length: number): string {
  return `${length.toString(16)}\r\n`;
}

function framedHeaders(
  bytes: number,
  chunkSize: number,
  trailer: string,
  digestBytes: number,
): Record<string, string> {
  const frame = (length: number) => (length === 0 ? 0 : frameStart(length).length + length + 2);
  const end = trailerOf(trailer, Buffer.alloc(digestBytes)).length;
  const encoded = Math.floor(bytes / chunkSize) * frame(chunkSize) + frame(bytes % chunkSize) + end;
  return {
    'content-length': String(encoded),
    'content-encoding': 'aws-chunked',
    'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
    'x-amz-decoded-content-length': String(bytes),
    'x-amz-trailer': trailer,
  };
}
