import { asBuffer } from '../as-buffer.ts';
import { destinationFile, streamedPieces, type UploadedFile } from '../http/destination-file.ts';
import { createLifetime } from '../http/lifetime.ts';
import { type DestinationFile, FileError, type OpenDestination } from '../port.ts';
import { createBlockStream } from './block-stream.ts';
import { type Blocks, type BlocksState, bytesOfBlock, openBlocks } from './blocks.ts';
import { fileError, isForbidden, serverAnswer } from './errors.ts';
import { type BlockLimits, blockSizeOf } from './limits.ts';
import { openSingleBlob } from './single-blob.ts';
import type { Store } from './store.ts';

/**
 * Opens a new blob, or continues with the blocks that a predecessor staged. No blob has the name
 * before the commit.
 */
export async function openDestination(
  store: Store,
  usualLimits: BlockLimits,
  name: string,
  options: OpenDestination,
): Promise<DestinationFile> {
  const limits = limitsOf(usualLimits, options);
  const lifetime = createLifetime(name, options.signal, (error, step) =>
    fileError(error, step, name, 'destination'),
  );
  const { ended } = lifetime;
  return lifetime.run('open', async () => {
    if (!options.overwrite && options.resume === null) await refuseExisting(store, name, ended);
    const isSingle = options.size <= limits.chunkSize;
    const file = isSingle
      ? openSingleBlob(store, name, options, ended)
      : await openBlockBlob(store, limits, name, options, ended);
    return destinationFile(file, lifetime);
  });
}

/**
 * Returns the limits with smaller chunks, if they are wanted and the blob can be cut into as many.
 * All blocks of a blob have one size, so one that has some keeps it.
 */
function limitsOf(limits: BlockLimits, { size, chunkSize, resume }: OpenDestination): BlockLimits {
  const staged = resume?.state as BlocksState | null | undefined;
  const wanted = staged?.written_by.length ? staged.block_size : chunkSize;
  if (wanted === undefined || wanted >= limits.chunkSize) return limits;
  return size / wanted <= limits.maxBlocks ? { ...limits, chunkSize: wanted } : limits;
}

/** Checks early, to save the work. The condition of the commit decides. */
async function refuseExisting(store: Store, name: string, signal: AbortSignal): Promise<void> {
  try {
    await store.properties(name, signal);
  } catch (error) {
    // A SAS may permit writing only.
    if (serverAnswer(error) === 'BlobNotFound' || isForbidden(error)) return;
    throw error;
  }
  throw new FileError(
    'destination_exists',
    'open',
    `${name} exists and the endpoint does not overwrite`,
  );
}

async function openBlockBlob(
  store: Store,
  limits: BlockLimits,
  name: string,
  options: OpenDestination,
  signal: AbortSignal,
): Promise<UploadedFile> {
  const { transferId, size, overwrite, resume, modifiedAt, headers, acknowledged, pace } = options;
  const { chunkSize } = limits;
  const blockSize = blockSizeOf(size, limits);
  if (blockSize === null)
    throw new FileError('file_too_large', 'open', `${name}: a block blob can't hold ${size} bytes`);
  const isWhole = blockSize === chunkSize;
  const checksum = isWhole ? 'md5' : 'crc64';
  const blocks = await openBlocks(
    store,
    {
      name,
      transferId,
      size,
      blockSize,
      checksum,
      modifiedAt,
      headers,
      acknowledged,
      pace,
      signal,
    },
    resume,
  );
  return {
    parallelWrites: isWhole ? 4 : 1,
    chunkSize,
    resumedFrom: blocks.resumedFrom,
    write: isWhole ? wholeBlocks(blocks, blockSize) : streamedBlocks(blocks, size, blockSize),
    resumePoint: async (bytes) => blocks.resumePoint(bytes),
    async commit(whole) {
      if (whole.size !== size)
        throw new FileError(
          'size_mismatch',
          'commit',
          `${name}: ${whole.size} bytes were read, expected ${size}`,
        );
      return blocks.commit(overwrite);
    },
  };
}

type Write = DestinationFile['write'];

/** Sends each chunk as a block. */
function wholeBlocks(blocks: Blocks, blockSize: number): Write {
  return (offset, data) => blocks.stage(offset / blockSize, asBuffer(data));
}

/** Sends the consecutive chunks of one block in one request. */
function streamedBlocks(blocks: Blocks, size: number, blockSize: number): Write {
  return streamedPieces({ size, pieceSize: blockSize }, (number) => {
    const stream = createBlockStream(bytesOfBlock(number, { size, blockSize }));
    return { stream, sent: blocks.stage(number, stream) };
  });
}
