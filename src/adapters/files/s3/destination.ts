import { abortError } from '../abort.ts';
import { type DestinationFile, FileError, type FileStep, type OpenDestination } from '../port.ts';
import { digestOf } from './checksums.ts';
import { fileError } from './errors.ts';
import { type PartLimits, partSizeOf } from './limits.ts';
import { beginUpload, bytesOfPart, type MultipartUpload, resumeUpload, type UploadOptions } from './multipart-upload.ts';
import { refuseExisting } from './new-object.ts';
import { createPartStream, type PartStream } from './part-stream.ts';
import { openSingleObject } from './single-object.ts';
import type { Store } from './store.ts';
import { removeLeftovers, type Uploads } from './uploads.ts';

/** Opens a new object, or goes on with the upload that a predecessor has begun. Nothing stands under its key before the commit. */
export async function openDestination(
  store: Store,
  uploads: Uploads,
  limits: PartLimits,
  key: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const { signal } = options;
  const closed = new AbortController();
  const ended = AbortSignal.any([signal, closed.signal]);

  function fail(error: unknown, step: FileStep): FileError {
    if (signal.aborted) return abortError(signal, step);
    if (closed.signal.aborted) return new FileError('connection_failed', step, `${key} was closed`);
    return fileError(error, step, key, 'destination');
  }

  try {
    if (!options.overwrite && options.resume === null) await refuseExisting(store, key, 'open', ended);
    const file =
      options.size <= limits.chunkSize
        ? openSingleObject(store, key, options, ended)
        : await openMultipart(store, uploads, limits, key, options, ended);
    return guarded(file, closed, ended, fail);
  } catch (error) {
    throw fail(error, 'open');
  }
}

/** Turns all errors into FileErrors, and ends with `closed` what is under way. */
function guarded(
  file: DestinationFile,
  closed: AbortController,
  ended: AbortSignal,
  fail: (error: unknown, step: FileStep) => FileError,
): DestinationFile {
  const writes = new Set<Promise<void>>();
  return {
    ...file,
    write(offset, data) {
      const writing = file
        .write(offset, data)
        .then(() => ended.throwIfAborted())
        .catch((error) => Promise.reject(fail(error, 'transfer')))
        .finally(() => writes.delete(writing));
      writes.add(writing);
      return writing;
    },
    async commit(whole) {
      try {
        return await file.commit(whole);
      } catch (error) {
        throw fail(error, 'commit');
      }
    },
    async close() {
      closed.abort();
      await Promise.allSettled(writes);
    },
  };
}

async function openMultipart(
  store: Store,
  uploads: Uploads,
  limits: PartLimits,
  key: string,
  { transferId, size, overwrite, resume }: OpenDestination,
  signal: AbortSignal,
): Promise<DestinationFile> {
  const { chunkSize } = limits;
  const partSize = partSizeOf(size, limits);
  if (partSize === null) throw new FileError('file_too_large', 'open', `${key}: no upload takes ${size} bytes`);
  const cut: UploadOptions = { key, size, partSize, signal };
  const resumed = resume && (await resumeUpload(store, cut, resume));
  // What this transfer has begun before is of no use then. Where it may not be aborted, the bucket's lifecycle rule ends it.
  if (!resumed) await removeLeftovers(store, uploads, key, { transferId, resume, signal }).catch(() => {});
  const upload = resumed ?? (await beginUpload(store, cut));
  uploads.add(transferId, upload.id);
  const write = partSize === chunkSize ? wholeParts(upload) : streamedParts(upload, cut, chunkSize);

  return {
    parallelWrites: partSize === chunkSize ? 4 : 1,
    chunkSize,
    resumedFrom: upload.resumedFrom,
    write,
    resumePoint: async (bytes) => upload.resumePoint(bytes),
    async commit(whole) {
      if (whole.size !== size) throw new FileError('size_mismatch', 'commit', `${key}: ${whole.size} bytes in place of ${size}`);
      const proof = await upload.complete(overwrite);
      uploads.forget(transferId);
      return proof;
    },
    async close() {},
  };
}

type Write = DestinationFile['write'];

/** Each chunk is a part, with a checksum that the server checks as well. */
function wholeParts({ checksum, partSize, send }: MultipartUpload): Write {
  return async (offset, data) => {
    const body = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    const digest = digestOf(checksum.name, body);
    const encoded = digest.toString('base64');
    const declared = checksum.name === 'crc32' ? { ChecksumCRC32: encoded } : { ContentMD5: encoded };
    await send(offset / partSize + 1, { body, declared, digest: () => digest });
  };
}

/**
 * Chunks of one part after the other go into one request. Only the last chunk of a part waits for the server's answer: the
 * resume point, unlike a written chunk, counts only parts that were answered.
 */
function streamedParts({ checksum, partSize, send }: MultipartUpload, cut: UploadOptions, chunkSize: number): Write {
  let part: { stream: PartStream; sent: Promise<void> } | null = null;

  function begin(number: number): { stream: PartStream; sent: Promise<void> } {
    const stream = createPartStream(bytesOfPart(number, cut), chunkSize, checksum);
    const sent = send(number, { body: stream.body, headers: stream.headers, digest: stream.digest });
    sent.catch(() => stream.body.destroy());
    return { stream, sent };
  }

  return async (offset, data) => {
    if (offset % partSize === 0) part = begin(offset / partSize + 1);
    if (part === null) throw new Error('a part was begun in its middle');
    const { stream, sent } = part;
    const end = offset + data.length;
    // The cause of a body that nobody reads is what became of its request.
    await stream.push(data).catch((error) => sent.then(() => Promise.reject(error)));
    if (end % partSize === 0 || end === cut.size) await sent;
  };
}
