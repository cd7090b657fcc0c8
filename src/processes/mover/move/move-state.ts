import type { UnixTime } from '../../../adapters/files/modification-time.ts';
import type { FileEndpoint, FileIdentity, ResumePoint } from '../../../adapters/files/port.ts';
import type { TransferOptions } from '../../../domain/transfers/options.ts';
import type { MtimeOutcome, Verification } from '../../../domain/transfers/transfer.ts';
import type { FileBuffers } from '../buffer-pool.ts';
import type { Hasher } from '../hash/hasher.ts';
import type { Meter } from '../meter.ts';

/** One end of a move. */
export interface MoveEnd {
  endpoint: FileEndpoint;
  path: string;
}

export interface Move {
  transferId: string;
  claimId: string;
  source: MoveEnd;
  destination: MoveEnd;
  overwrite: boolean;
  options: TransferOptions;
  /** True if the source is deleted or moved after the transfer. */
  removesSource: boolean;
  /** The only version that may be copied, as a listing showed it. Null for any. */
  listed: string | null;
  /** Saved by the claim before this one. Null for the first claim. */
  record: ResumeRecord | null;
  meter: Meter;
  buffers: FileBuffers;
  /** Waits until a file of this size may move. Called with the size of the open source. */
  opened(bytes: number): Promise<void>;
  /** Creates a hasher for a file of `size` bytes. */
  createHasher(size: number): Hasher;
  /** Saves the record for a successor and renews the lease. Returns false if the claim is lost. */
  save(record: ResumeRecord): Promise<boolean>;
  /**
   * Called before anything else follows from a lost connection to the destination. Its server may
   * carry out the last requests late.
   */
  destinationLost(): Promise<void>;
  signal: AbortSignal;
}

export interface Moved {
  bytes: number;
  sha256: string;
  verification: Verification;
  mtime?: MtimeOutcome;
  /** True if the commit may have left something unfinished at the destination. */
  leftovers?: boolean | undefined;
}

/** What the destination should have after the commit. */
export interface Committing {
  size: number;
  /** Lowercase hex. */
  sha256: string;
  /** Only if the modification time is to be preserved; null if the source has none. */
  modifiedAt?: UnixTime | null;
}

export interface MovedFrom extends Moved {
  /** Of the source that was read: modification time, ETag or version. */
  sourceVersion: string | null;
}

/** What a successor needs to resume a move, or to find that it is complete. Saved in the job. */
export interface ResumeRecord {
  source: FileIdentity;
  chunkSize: number;
  /**
   * The sum after each chunk that the destination has acknowledged, big-endian, in base64: see
   * `RunningHash`. Absent in a record of an older version: the move starts over.
   */
  sums?: string;
  destination: ResumePoint;
  /** Set before the commit. From then on the file may have its final name. */
  committing: Committing | null;
  /** Counts the saves of a transfer. A save that arrives late must not replace a later one. */
  saves: number;
}

/** The progress of a move. It outlives connections. After a crash only the record remains. */
export interface MoveState {
  /** The source as it was when the first byte was read. */
  source: FileIdentity;
  chunkSize: number;
  /**
   * Sums by the number of the chunk that each one follows: see `RunningHash`. Absent or 0 if it is
   * unknown, as within a chunk that was cut into smaller ones.
   */
  sums: number[];
  /** Number of chunks from the start, without a gap, that the destination has. */
  delivered: number;
  /** Number of chunks from the start that `hasher` has hashed. */
  hashed: number;
  hasher: Hasher;
}

export function chunkCount({ source, chunkSize }: MoveState): number {
  return Math.ceil(source.size / chunkSize);
}

/** Cuts the chunks of a move into smaller ones: a chunk has a whole number of these. */
export function cutChunks(state: MoveState, chunkSize: number): void {
  const times = state.chunkSize / chunkSize;
  const chunks = Math.ceil(state.source.size / chunkSize);
  const inSmaller = (count: number) => Math.min(chunks, count * times);
  const sums: number[] = [];
  for (const [chunk, sum] of state.sums.entries()) sums[inSmaller(chunk + 1) - 1] = sum;
  const { delivered, hashed } = state;
  const counts = { delivered: inSmaller(delivered), hashed: inSmaller(hashed) };
  Object.assign(state, { chunkSize, sums, ...counts });
}

/** Returns the number of bytes from the start that the destination has. */
export function deliveredBytes({ source, chunkSize, delivered }: MoveState): number {
  return Math.min(source.size, delivered * chunkSize);
}

export function encodeSums(sums: readonly number[]): string {
  const bytes = Buffer.alloc(sums.length * 4);
  for (const [i, sum = 0] of sums.entries()) bytes.writeUInt32BE(sum, i * 4);
  return bytes.toString('base64');
}

export function decodeSums(text: string): number[] {
  const bytes = Buffer.from(text, 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readUInt32BE(i * 4));
}
