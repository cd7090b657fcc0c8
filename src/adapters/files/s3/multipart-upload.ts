import type { Readable } from 'node:stream';
import {
  CreateMultipartUploadCommand,
  type Part as ListedPart,
  paginateListParts,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { abortable } from '../abort.ts';
import type { SendOptions } from '../http/http.ts';
import { pageInPlace } from '../http/other-service.ts';
import { sentBytes } from '../http/sent-bytes.ts';
import { type CommitProof, FileError, type OpenDestination, type ResumePoint } from '../port.ts';
import { CHECKSUMS, type Checksum, CRC32_WANTED, checksumOf, type Declared } from './checksums.ts';
import { completeUpload, type Part } from './complete-upload.ts';
import { isRefused, isUnknownHeader, isUploadGone, wasRepeated } from './errors.ts';
import type { ObjectAnswer } from './first-try.ts';
import { setHeaders } from './headers.ts';
import type { Attributes } from './new-object.ts';
import type { Store } from './store.ts';
import { abortUpload, type UploadState } from './uploads.ts';

/** One multipart upload, with the parts sent so far. */
export interface MultipartUpload {
  readonly id: string;
  /** The checksum that verifies each part: CRC-32 if the server computes it, else MD5. */
  readonly checksum: Checksum;
  readonly partSize: number;
  /** Bytes from the start that the server already had. */
  readonly resumedFrom: number;
  /** Sends a part, numbered from 1. Throws if the server received other bytes. */
  send(number: number, content: PartContent): Promise<void>;
  resumePoint(bytes: number): ResumePoint;
  complete(overwrite: boolean): Promise<CommitProof>;
}

export interface PartContent {
  body: Buffer | Readable;
  /** The digest for the server to check, if it is known before the request. */
  declared?: Declared;
  /** Headers that replace those that the SDK derives from the body. */
  headers?: Record<string, string>;
  /** Returns the digest of the part. Called after the whole body was sent. */
  digest(): Buffer;
}

interface Known {
  id: string;
  checksum: Checksum;
  /** By part number. */
  parts: Map<number, Part>;
}

export interface UploadOptions extends Pick<OpenDestination, 'acknowledged' | 'pace'> {
  key: string;
  size: number;
  attributes: Attributes;
  partSize: number;
  signal: AbortSignal;
}

/**
 * Starts an upload. A server that computes CRC-32 says so in its answer. Some, such as Backblaze
 * B2, reject the question, so it is left out then. `isOnly` is false if an earlier try, whose answer
 * was lost, may have started another one.
 */
export async function beginUpload(
  store: Store,
  options: UploadOptions,
): Promise<{ upload: MultipartUpload; isOnly: boolean }> {
  const { s3, settings } = store;
  const { key, attributes, signal } = options;
  // The server may carry out a request that was given up, after the clean-up has looked. So an
  // abort does not end the request, but the upload that it starts.
  const start = (wanted: Partial<typeof CRC32_WANTED>) =>
    s3.send(
      new CreateMultipartUploadCommand({
        Bucket: settings.bucket,
        Key: key,
        ...wanted,
        ...attributes,
      }),
    );
  const starting = start(CRC32_WANTED)
    .catch((error) => {
      if (!isUnknownHeader(error)) throw error;
      return start({});
    })
    .then((answer) => {
      // Parts without the id of an upload would each become an object under the key.
      if (!answer.UploadId) throw pageInPlace(key, 'open');
      return answer;
    });
  const answer = await abortable(starting, signal, 'open').catch((error) => {
    if (signal.aborted)
      void starting
        .then(({ UploadId }) => abortUpload(store, key, UploadId as string))
        .catch(() => undefined);
    throw error;
  });
  const known = { id: answer.UploadId as string, checksum: checksumOf(answer), parts: new Map() };
  return { upload: multipartUpload(store, options, known), isOnly: !wasRepeated(answer) };
}

/**
 * Takes over an upload that a predecessor started, with the first parts that the server lists as
 * they were sent. Returns null if the server no longer knows the upload, if it refuses to list the
 * parts, or if the part size differs.
 */
export async function resumeUpload(
  store: Store,
  options: UploadOptions,
  resume: ResumePoint,
): Promise<MultipartUpload | null> {
  const state = resume.state as UploadState | null;
  if (state === null || state.part_size !== options.partSize) return null;
  const checksum = CHECKSUMS[state.checksum];
  const digests = slices(Buffer.from(state.digests, 'base64'), checksum.bytes);
  const parts = new Map<number, Part>();
  try {
    for await (const part of listParts(store, options, state.upload_id)) {
      const { PartNumber, ETag = '', Size } = part;
      const digest = digests[parts.size];
      const asSent =
        digest !== undefined &&
        PartNumber === parts.size + 1 &&
        Size === bytesOfPart(PartNumber, options) &&
        checksum.in(part) === checksum.ofPart(digest);
      if (!asSent) break;
      parts.set(PartNumber, { etag: ETag, digest });
    }
  } catch (error) {
    if (isUploadGone(error) || isRefused(error)) return null;
    throw error;
  }
  return multipartUpload(store, options, { id: state.upload_id, checksum, parts });
}

/** Yields the parts that the server has of an upload, in the order of their numbers. */
async function* listParts(
  { s3, settings }: Store,
  { key, signal }: UploadOptions,
  uploadId: string,
): AsyncGenerator<ListedPart> {
  const upload = { Bucket: settings.bucket, Key: key, UploadId: uploadId };
  const pages = paginateListParts({ client: s3 }, upload, { abortSignal: signal });
  for await (const { Parts = [], IsTruncated } of pages) {
    yield* Parts;
    // Servers name a next page even if there is none. For an upload without parts, they return the
    // first page forever.
    if (!IsTruncated) break;
  }
}

function multipartUpload(
  store: Store,
  options: UploadOptions,
  { id, checksum, parts }: Known,
): MultipartUpload {
  const { s3, settings } = store;
  const { key, size, partSize, signal } = options;
  const count = Math.ceil(size / partSize);
  const upload = { Bucket: settings.bucket, Key: key, UploadId: id };
  /** False once a part could not be verified. */
  let compared = true;

  /** Returns the first parts, at most `wanted`, up to the first gap. */
  function first(wanted: number): Part[] {
    const found: Part[] = [];
    for (let part = parts.get(1); part && found.length < wanted; part = parts.get(found.length + 1))
      found.push(part);
    return found;
  }

  function compare(
    number: number,
    answer: ObjectAnswer,
    digest: Buffer,
    checkedByServer: boolean,
  ): void {
    const found = checksum.in(answer);
    if (found === checksum.ofPart(digest)) return;
    if (found === null && !checksum.isAlwaysAnswered) {
      compared &&= checkedByServer;
      return;
    }
    throw new FileError(
      'checksum_mismatch',
      'transfer',
      `${key}: part ${number} was damaged on its way: its checksum differs`,
    );
  }

  return {
    id,
    checksum,
    partSize,
    resumedFrom: Math.min(size, parts.size * partSize),
    async send(number, { body, declared, headers, digest: digestWhenSent }) {
      const command = new UploadPartCommand({
        ...upload,
        PartNumber: number,
        Body: body,
        ...declared,
      });
      if (headers) setHeaders(command, headers);
      const sent = sentBytes(options, bytesOfPart(number, options));
      const sending: SendOptions = { abortSignal: signal, sent };
      const put = () => (headers ? s3.send(command, sending) : store.send(command, sending));
      const answer = await (sent ? sent.whenPaced(put) : put());
      if (!answer.ETag) throw pageInPlace(key, 'transfer');
      const digest = digestWhenSent();
      compare(number, answer, digest, declared !== undefined);
      parts.set(number, { etag: answer.ETag, digest });
    },
    resumePoint(bytes) {
      const kept = first(bytes >= size ? count : Math.floor(bytes / partSize));
      const digests = Buffer.concat(kept.map(({ digest }) => digest)).toString('base64');
      return {
        bytes: Math.min(bytes, kept.length * partSize),
        state: {
          upload_id: id,
          part_size: partSize,
          checksum: checksum.name,
          digests,
        } satisfies UploadState,
      };
    },
    async complete(overwrite) {
      if (parts.size !== count) {
        throw new FileError(
          'size_mismatch',
          'commit',
          `${key}: ${parts.size} of ${count} parts were written`,
        );
      }
      const whole = { id, key, size, parts: first(count), checksum, compared, overwrite, signal };
      return completeUpload(store, whole);
    },
  };
}

export function bytesOfPart(number: number, { size, partSize }: UploadOptions): number {
  return Math.min(partSize, size - (number - 1) * partSize);
}

function slices(bytes: Buffer, length: number): Buffer[] {
  return Array.from({ length: Math.floor(bytes.length / length) }, (_, index) =>
    bytes.subarray(index * length, (index + 1) * length),
  );
}
