import type { FileEndpoint, FileIdentity, ResumePoint } from '../../adapters/files/port.ts';
import type { AttemptFigures, Verification } from '../../domain/transfer.ts';
import type { Hasher } from './hasher.ts';
import type { SlotPool } from './slots.ts';

export interface Place {
  endpoint: FileEndpoint;
  path: string;
}

export interface Move {
  transferId: string;
  claimId: string;
  source: Place;
  destination: Place;
  overwrite: boolean;
  /** What the claim before this one saved; null at the first. */
  record: ResumeRecord | null;
  /** Live, for whoever watches. */
  figures: AttemptFigures;
  slots: SlotPool;
  /** A hasher for a file of so many bytes. */
  createHasher(size: number): Hasher;
  /** Keeps the record for a successor and renews the lease; false where the claim is lost. */
  save(record: ResumeRecord): Promise<boolean>;
  /** Told of bytes that the destination has acknowledged. */
  moved(bytes: number): void;
  signal: AbortSignal;
}

export interface Moved {
  bytes: number;
  sha256: string;
  verification: Verification;
}

/** What a successor needs to go on, or to find out that all was done: kept in the to-do row while the file moves. */
export interface ResumeRecord {
  source: FileIdentity;
  chunkSize: number;
  /** CRC-32 of each chunk that is safely at the destination, big-endian, in base64. */
  crcs: string;
  destination: ResumePoint;
  /** Set before the commit: from then on the file may have its name already. */
  committing: { size: number; sha256: string } | null;
}

/** How far a move is. It outlives its connections; what a process that dies leaves of it is the record. */
export interface MoveState {
  /** As it was when the first byte was read. */
  source: FileIdentity;
  chunkSize: number;
  /** CRC-32 of chunks, by their number, as far as they are known. */
  crcs: number[];
  /** Chunks from the start on, without a gap, that the destination has. */
  delivered: number;
  /** Chunks from the start on that `hasher` has seen. */
  hashed: number;
  hasher: Hasher;
}

export function chunkCount({ source, chunkSize }: MoveState): number {
  return Math.ceil(source.size / chunkSize);
}

/** Bytes from the start on that the destination has. */
export function deliveredBytes({ source, chunkSize, delivered }: MoveState): number {
  return Math.min(source.size, delivered * chunkSize);
}

export function encodeCrcs(crcs: readonly number[]): string {
  const bytes = Buffer.alloc(crcs.length * 4);
  for (const [i, crc] of crcs.entries()) bytes.writeUInt32BE(crc, i * 4);
  return bytes.toString('base64');
}

export function decodeCrcs(text: string): number[] {
  const bytes = Buffer.from(text, 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readUInt32BE(i * 4));
}
