import { asBuffer } from '../as-buffer.ts';
import { destinationFile, streamedPieces, type UploadedFile } from '../http/destination-file.ts';
import { createLifetime } from '../http/lifetime.ts';
import { type DestinationFile, FileError, type OpenDestination } from '../port.ts';
import { digestOf } from './checksums.ts';
import { fileError } from './errors.ts';
import { type PartLimits, partSizeOf } from './limits.ts';
import {
  beginUpload,
  bytesOfPart,
  type MultipartUpload,
  resumeUpload,
  type UploadOptions,
} from './multipart-upload.ts';
import { attributesOf, refuseExisting } from './new-object.ts';
import { createPartStream } from './part-stream.ts';
import { openSingleObject } from './single-object.ts';
import type { Store } from './store.ts';
import { removeLeftovers, type Uploads } from './uploads.ts';

/**
 * Opens a new object, or continues the upload that a predecessor started. No object has the key
 * before the commit.
 */
export async function openDestination(
  store: Store,
  uploads: Uploads,
  limits: PartLimits,
  key: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const lifetime = createLifetime(key, options.signal, (error, step) =>
    fileError(error, step, key, 'destination'),
  );
  const { ended } = lifetime;
  return lifetime.run('open', async () => {
    if (!options.overwrite && options.resume === null)
      await refuseExisting(store, key, 'open', ended);
    const file =
      options.size <= limits.chunkSize
        ? openSingleObject(store, key, options, ended)
        : await openMultipart(store, uploads, limits, key, options, ended);
    return destinationFile(file, lifetime);
  });
}

async function openMultipart(
  store: Store,
  uploads: Uploads,
  limits: PartLimits,
  key: string,
  options: OpenDestination,
  signal: AbortSignal,
): Promise<UploadedFile> {
  const { transferId, size, overwrite, resume, acknowledged, pace } = options;
  const { chunkSize } = limits;
  const partSize = partSizeOf(size, limits);
  if (partSize === null)
    throw new FileError(
      'file_too_large',
      'open',
      `${key}: a multipart upload can't hold ${size} bytes`,
    );
  const cut: UploadOptions = {
    key,
    size,
    partSize,
    attributes: attributesOf(store.settings, options),
    acknowledged,
    pace,
    signal,
  };
  const resumed = resume && (await resumeUpload(store, cut, resume));
  // An earlier upload of this transfer that can't be resumed is of no use. If the abort is denied,
  // the bucket's lifecycle rule removes the upload.
  if (!resumed)
    await removeLeftovers(store, uploads, key, { transferId, resume, signal }).catch(() => {});
  const upload = resumed ?? (await begin());
  uploads.add(transferId, upload.id);
  const write = partSize === chunkSize ? wholeParts(upload) : streamedParts(upload, cut, chunkSize);

  return {
    parallelWrites: partSize === chunkSize ? 4 : 1,
    chunkSize,
    resumedFrom: upload.resumedFrom,
    write,
    resumePoint: async (bytes) => upload.resumePoint(bytes),
    async commit(whole) {
      if (whole.size !== size)
        throw new FileError(
          'size_mismatch',
          'commit',
          `${key}: ${whole.size} bytes were read, expected ${size}`,
        );
      const proof = await upload.complete(overwrite);
      const leftovers = uploads.hasForgotten(transferId);
      uploads.forget(transferId);
      return leftovers ? { ...proof, leftovers } : proof;
    },
  };

  async function begin(): Promise<MultipartUpload> {
    try {
      const { upload, isOnly } = await beginUpload(store, cut);
      if (!isOnly) uploads.addForgotten(transferId);
      return upload;
    } catch (error) {
      uploads.addForgotten(transferId);
      throw error;
    }
  }
}

type Write = DestinationFile['write'];

/** Sends each chunk as a part, with a checksum that the server checks as well. */
function wholeParts({ checksum, partSize, send }: MultipartUpload): Write {
  return async (offset, data) => {
    const body = asBuffer(data);
    const digest = digestOf(checksum.name, body);
    const declared = checksum.declared(digest);
    await send(offset / partSize + 1, { body, declared, digest: () => digest });
  };
}

/** Sends the consecutive chunks of one part in one request. */
function streamedParts(
  { checksum, partSize, send }: MultipartUpload,
  cut: UploadOptions,
  chunkSize: number,
): Write {
  return streamedPieces({ size: cut.size, pieceSize: partSize }, (index) => {
    const number = index + 1;
    const stream = createPartStream(bytesOfPart(number, cut), chunkSize, checksum);
    return {
      stream,
      sent: send(number, { body: stream.body, headers: stream.headers, digest: stream.digest }),
    };
  });
}
