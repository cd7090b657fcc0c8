import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { newId } from '../../../domain/ids.ts';
import { assertCommitted } from '../http/destination-file.ts';
import { type CommitProof, FileError, type OpenDestination, type ResumePoint } from '../port.ts';
import { isForbidden, serverAnswer } from './errors.ts';
import { attributesOf, type Store } from './store.ts';

/** The state in a resume point of staged blocks. */
export interface BlocksState {
  transfer_id: string;
  block_size: number;
  /** The openings that wrote the blocks, from the first one on, each with its number of blocks. */
  written_by: [opening: string, blocks: number][];
  /** True if the checksum of each of these blocks was compared. */
  compared: boolean;
}

export interface BlocksOptions
  extends Pick<OpenDestination, 'modifiedAt' | 'headers' | 'acknowledged' | 'pace'> {
  name: string;
  transferId: string;
  size: number;
  blockSize: number;
  /** The checksum that verifies the blocks: MD5 of a block in memory, CRC-64 of a streamed one. */
  checksum: 'md5' | 'crc64';
  signal: AbortSignal;
}

/**
 * The bytes of a block, or the stream of a block that is too large for memory. `crc64` returns the
 * CRC-64 of what was sent.
 */
export type BlockContent = Buffer | { body: Readable; crc64(): Buffer };

/** The staged blocks of an uncommitted blob. Only their ids make them visible. */
export interface Blocks {
  /** Bytes from the start that the service already had. */
  readonly resumedFrom: number;
  /** Stages a block, numbered from 0. Throws if the service received other bytes. */
  stage(number: number, content: BlockContent): Promise<void>;
  resumePoint(bytes: number): ResumePoint;
  commit(overwrite: boolean): Promise<CommitProof>;
}

/**
 * Opens the blocks of a blob: first those of earlier openings that the service still lists as they
 * were sent, then its own. These have an id that no other opening uses. A late request of an earlier
 * one, even of the same claim, then replaces no block. A resume point of another transfer is
 * ignored, because its blocks are not ours to commit.
 */
export async function openBlocks(
  store: Store,
  options: BlocksOptions,
  resume: ResumePoint | null,
): Promise<Blocks> {
  const state = resume?.state as BlocksState | null | undefined;
  const usable =
    state && state.transfer_id === options.transferId && state.block_size === options.blockSize;
  const taken = usable ? await stillStaged(store, options, state) : [];
  return stagedBlocks(store, options, taken, usable ? state.compared : true);
}

/**
 * Returns the openings that wrote the first blocks, up to one that the service does not list with
 * its size.
 */
async function stillStaged(
  store: Store,
  options: BlocksOptions,
  state: BlocksState,
): Promise<string[]> {
  const listed = await sizesOfStaged(store, options);
  const openings = state.written_by.flatMap(([opening, blocks]) =>
    Array<string>(blocks).fill(opening),
  );
  const gap = openings.findIndex(
    (opening, number) => listed.get(blockId(opening, number)) !== bytesOfBlock(number, options),
  );
  return gap < 0 ? openings : openings.slice(0, gap);
}

async function sizesOfStaged(
  store: Store,
  { name, signal }: BlocksOptions,
): Promise<Map<string, number>> {
  try {
    const { uncommittedBlocks = [] } = await store
      .blob(name)
      .getBlockList('uncommitted', { abortSignal: signal });
    return new Map(uncommittedBlocks.map(({ name: id, size }) => [id, size]));
  } catch (error) {
    // A SAS may permit writing only.
    if (serverAnswer(error) === 'BlobNotFound' || isForbidden(error)) return new Map();
    throw error;
  }
}

function stagedBlocks(
  store: Store,
  options: BlocksOptions,
  taken: string[],
  comparedBefore: boolean,
): Blocks {
  const { name, transferId, size, blockSize, checksum, signal } = options;
  const count = Math.ceil(size / blockSize);
  // As long as the ids of claims, which older versions used: see `blockId`.
  const own = newId('clm');
  /** The opening that wrote each block, by block number. */
  const writers = new Map(taken.entries());
  let compared = comparedBefore;

  /** Returns the openings of the first blocks, at most `wanted`, up to the first gap. */
  function first(wanted: number): string[] {
    const found: string[] = [];
    for (
      let opening = writers.get(0);
      opening !== undefined && found.length < wanted;
      opening = writers.get(found.length)
    )
      found.push(opening);
    return found;
  }

  /**
   * Compares what the service reports with what was committed, if the credentials permit that. A
   * consumer may have taken the blob already.
   */
  async function checkCommitted(version: string | undefined): Promise<void> {
    const found = await store.properties(name, signal).catch((error: unknown) => {
      if (isForbidden(error) || serverAnswer(error) === 'BlobNotFound') return null;
      throw error;
    });
    if (found === null) return;
    const { contentLength = 0, etag } = found;
    assertCommitted(name, { size, version }, { size: contentLength, version: etag });
  }

  return {
    resumedFrom: Math.min(size, taken.length * blockSize),
    async stage(number, content) {
      const id = blockId(own, number);
      const bytes = bytesOfBlock(number, options);
      const counted = store.counted(options, bytes, signal);
      if (Buffer.isBuffer(content)) {
        // The service checks the MD5 before it accepts the block.
        const transactionalContentMD5 = createHash('md5').update(content).digest();
        await counted((abortSignal) =>
          store.blob(name).stageBlock(id, content, bytes, { abortSignal, transactionalContentMD5 }),
        );
      } else {
        const { xMsContentCrc64 } = await counted((abortSignal) =>
          store.blobOnce(name).stageBlock(id, () => content.body, bytes, { abortSignal }),
        );
        if (xMsContentCrc64 === undefined) compared = false;
        else if (!content.crc64().equals(xMsContentCrc64)) {
          throw new FileError(
            'checksum_mismatch',
            'transfer',
            `${name}: block ${number} was damaged on its way: its checksum differs`,
          );
        }
      }
      writers.set(number, own);
    },
    resumePoint(bytes) {
      const kept = first(bytes >= size ? count : Math.floor(bytes / blockSize));
      const state = {
        transfer_id: transferId,
        block_size: blockSize,
        written_by: runs(kept),
        compared,
      };
      return {
        bytes: Math.min(bytes, kept.length * blockSize),
        state: state satisfies BlocksState,
      };
    },
    async commit(overwrite) {
      const openings = first(count);
      if (openings.length !== count) {
        throw new FileError(
          'size_mismatch',
          'commit',
          `${name}: ${writers.size} of ${count} blocks were written`,
        );
      }
      const blob = overwrite ? store.blob(name) : store.blobOnce(name);
      const conditions = overwrite ? {} : { ifNoneMatch: '*' };
      const { etag: version } = await blob.commitBlockList(openings.map(blockId), {
        abortSignal: signal,
        conditions,
        ...attributesOf(options),
      });
      await checkCommitted(version);
      const destinationChecksum = compared ? checksum : 'none';
      return { size, destinationChecksum, atomicReplace: true, version };
    },
  };
}

/**
 * Returns the id of a block. All ids of a blob must have the same length, at most 64 bytes before
 * encoding ("Put Block").
 */
function blockId(opening: string, number: number): string {
  return Buffer.from(`${opening}.${String(number).padStart(5, '0')}`).toString('base64');
}

export function bytesOfBlock(
  number: number,
  { size, blockSize }: Pick<BlocksOptions, 'size' | 'blockSize'>,
): number {
  return Math.min(blockSize, size - number * blockSize);
}

function runs(openings: readonly string[]): [string, number][] {
  const found: [string, number][] = [];
  for (const opening of openings) {
    const last = found.at(-1);
    if (last?.[0] === opening) last[1]++;
    else found.push([opening, 1]);
  }
  return found;
}
