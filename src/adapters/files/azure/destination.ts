import { abortError } from '../abort.ts';
import { type DestinationFile, FileError, type FileStep, type OpenDestination } from '../port.ts';
import { createBlockStream } from './block-stream.ts';
import { type Blocks, bytesOfBlock, openBlocks } from './blocks.ts';
import { fileError, isForbidden, serverAnswer } from './errors.ts';
import { type BlockLimits, blockSizeOf } from './limits.ts';
import { openSingleBlob } from './single-blob.ts';
import type { Store } from './store.ts';

/** Opens a new blob, or goes on with the blocks that a predecessor has staged. Nothing stands under its name before the commit. */
export async function openDestination(store: Store, limits: BlockLimits, name: string, options: OpenDestination): Promise<DestinationFile> {
  const { signal, size } = options;
  const closed = new AbortController();
  const ended = AbortSignal.any([signal, closed.signal]);

  function fail(error: unknown, step: FileStep): FileError {
    if (signal.aborted) return abortError(signal, step);
    if (closed.signal.aborted) return new FileError('connection_failed', step, `${name} was closed`);
    return fileError(error, step, name, 'destination');
  }

  try {
    if (!options.overwrite && options.resume === null) await refuseExisting(store, name, ended);
    const isSingle = size <= limits.chunkSize;
    const file = isSingle ? openSingleBlob(store, name, options, ended) : await openBlockBlob(store, limits, name, options, ended);
    return guarded(file, fail, closed, ended);
  } catch (error) {
    throw fail(error, 'open');
  }
}

/** Early, to save the work: what decides is the condition of the commit. */
async function refuseExisting(store: Store, name: string, signal: AbortSignal): Promise<void> {
  try {
    await store.properties(name, signal);
  } catch (error) {
    // A SAS may be for writing only.
    if (serverAnswer(error) === 'BlobNotFound' || isForbidden(error)) return;
    throw error;
  }
  throw new FileError('destination_exists', 'open', `${name} exists and the endpoint does not overwrite`);
}

/** Turns all errors into FileErrors, and ends with `closed` what is under way. */
function guarded(
  file: DestinationFile,
  fail: (error: unknown, step: FileStep) => FileError,
  closed: AbortController,
  ended: AbortSignal,
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

async function openBlockBlob(
  store: Store,
  limits: BlockLimits,
  name: string,
  { transferId, claimId, size, overwrite, resume }: OpenDestination,
  signal: AbortSignal,
): Promise<DestinationFile> {
  const { chunkSize } = limits;
  const blockSize = blockSizeOf(size, limits);
  if (blockSize === null) throw new FileError('file_too_large', 'open', `${name}: no blob takes ${size} bytes`);
  const isWhole = blockSize === chunkSize;
  const checksum = isWhole ? 'md5' : 'crc64';
  const blocks = await openBlocks(store, { name, transferId, claimId, size, blockSize, checksum, signal }, resume);
  return {
    parallelWrites: isWhole ? 4 : 1,
    chunkSize,
    resumedFrom: blocks.resumedFrom,
    write: isWhole ? wholeBlocks(blocks, blockSize) : streamedBlocks(blocks, size, blockSize),
    resumePoint: async (bytes) => blocks.resumePoint(bytes),
    async commit(whole) {
      if (whole.size !== size) throw new FileError('size_mismatch', 'commit', `${name}: ${whole.size} bytes in place of ${size}`);
      return blocks.commit(overwrite);
    },
    async close() {},
  };
}

type Write = DestinationFile['write'];

/** Each chunk is a block. */
function wholeBlocks(blocks: Blocks, blockSize: number): Write {
  return (offset, data) => blocks.stage(offset / blockSize, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
}

/**
 * Chunks of one block after the other go into one request. Only the last chunk of a block waits for the service's answer:
 * the resume point, unlike a written chunk, counts only blocks that were answered.
 */
function streamedBlocks(blocks: Blocks, size: number, blockSize: number): Write {
  let block: ReturnType<typeof begin> | null = null;

  function begin(number: number) {
    const stream = createBlockStream(bytesOfBlock(number, { size, blockSize }));
    const sent = blocks.stage(number, stream);
    sent.catch(() => stream.body.destroy());
    return { stream, sent };
  }

  return async (offset, data) => {
    if (offset % blockSize === 0) block = begin(offset / blockSize);
    if (block === null) throw new Error('a block was begun in its middle');
    const { stream, sent } = block;
    const end = offset + data.length;
    // The cause of a body that nobody reads is what became of its request.
    await stream.push(data).catch((error) => sent.then(() => Promise.reject(error)));
    if (end % blockSize === 0 || end === size) await sent;
  };
}
