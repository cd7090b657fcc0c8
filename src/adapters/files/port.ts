import type { TransferErrorCode } from '../../domain/transfer-errors.ts';

/** Where in the use of one endpoint something went wrong; the mover adds which side it was. */
export type FileStep = 'connect' | 'sign_in' | 'open' | 'transfer' | 'verify' | 'commit';

/** Which end of a transfer a request is about: the same answer can mean another thing at either. */
export type Side = 'source' | 'destination';

/** Every error that leaves an adapter: a code of the one table, the step, the server's own words without secrets. */
export class FileError extends Error {
  override readonly name = 'FileError';
  readonly code: TransferErrorCode;
  readonly step: FileStep;

  constructor(code: TransferErrorCode, step: FileStep, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.step = step;
  }
}

/** What tells whether a file is still the one that was opened. */
export interface FileIdentity {
  size: number;
  /** Modification time, ETag or version as the protocol has it, compared as text; null where the server gives none. */
  version: string | null;
}

export interface SourceFile {
  readonly identity: FileIdentity;
  /** Reads in any order and so many at once; 1 means from the start to the end, one after the other. */
  readonly parallelReads: number;
  /** All of it came in the one answer that opened it: there was no time to change while it was read. */
  readonly readAtOnce: boolean;
  /**
   * Fills the whole of `target` from `offset`. Throws FileError `source_changed` where the file ends
   * before that: a short read is never taken for a full one.
   */
  read(offset: number, target: Uint8Array): Promise<void>;
  /** Asks the server again, at the end of a move, what the file is now. */
  stat(): Promise<FileIdentity>;
  /** Ends what is under way. Never throws; may be called twice. */
  close(): Promise<void>;
}

/** What is needed to go on with a half-written destination in another process. Plain JSON, saved as it goes. */
export interface ResumePoint {
  /** Bytes from the start that are safely at the destination, without a gap. */
  bytes: number;
  /** Part name, upload id, parts: only the adapter that made it reads it. */
  state: unknown;
}

export interface OpenDestination {
  transferId: string;
  /** Unlike for every claim: what a predecessor left is taken over, what a stale one writes is not ours. */
  claimId: string;
  /** Size of the source, in bytes. */
  size: number;
  /** Replace an existing file. Where false, the commit fails with `destination_exists`. */
  overwrite: boolean;
  resume: ResumePoint | null;
  signal: AbortSignal;
}

export interface CommitProof {
  /** Bytes that the destination itself says it holds. */
  size: number;
  destinationChecksum: 'none' | 'md5' | 'crc32' | 'crc64' | 'sha256';
  atomicReplace: boolean;
}

export interface DestinationFile {
  /** Writes in any order and so many at once; 1 means in order. */
  readonly parallelWrites: number;
  /** Every chunk but the last has exactly this many bytes. */
  readonly chunkSize: number;
  /** Where to go on; 0 for a new file. At most the `bytes` of the resume point that was handed in. */
  readonly resumedFrom: number;
  /** Resolves when the server has acknowledged every byte. */
  write(offset: number, data: Uint8Array): Promise<void>;
  /** What a successor needs to go on after the first `bytes` bytes. */
  resumePoint(bytes: number): Promise<ResumePoint>;
  /**
   * Makes the file appear under its name, whole: flush, check the size, rename (or complete, or
   * commit). Throws FileError `size_mismatch`, `destination_exists`, `checksum_mismatch`.
   */
  commit(whole: { size: number; sha256: string }): Promise<CommitProof>;
  /** Ends what is under way and leaves what is written for the next claim. Never throws; may be called twice. */
  close(): Promise<void>;
}

export interface Leftovers {
  transferId: string;
  /** The last one that was saved, where there was one. */
  resume: ResumePoint | null;
  signal: AbortSignal;
}

/** One line of a listing. */
export interface FileEntry {
  name: string;
  type: 'file' | 'directory' | 'other';
  size: number | null;
  modified_at: string | null;
}

/** Who answered under an endpoint's address. */
export interface Peer {
  /** Host key (`SHA256:...` as `ssh-keygen -l` prints it) or the certificate's SHA-256; null where there is none (plain http). */
  fingerprint: string | null;
  /** It is the pinned key, or the certificate verifies. */
  trusted: boolean;
  /** Why not, in words; null when trusted. */
  reason: string | null;
}

/**
 * One configured endpoint, with its connections pooled. Paths are remote paths: what `matchEndpoint`
 * made of a URI. Every method throws FileError and nothing else.
 */
export interface FileEndpoint {
  /** Connections that are open now, in use or idle. */
  connections(): Promise<number>;
  openSource(path: string, signal: AbortSignal): Promise<SourceFile>;
  openDestination(path: string, options: OpenDestination): Promise<DestinationFile>;
  /** Connects and checks the host key or certificate; never signs in. */
  probe(signal: AbortSignal): Promise<Peer>;
  list(path: string, signal: AbortSignal): Promise<FileEntry[]>;
  /**
   * Removes whatever any claim of a transfer has left unfinished at its destination: parts, uploads,
   * blocks. Never touches what stands under the destination's own name; where nothing does, an older file that a broken-off
   * commit had set aside has it back. To be called when the transfer has ended.
   */
  removeLeftovers(path: string, leftovers: Leftovers): Promise<void>;
  /** Removes a file, such as the probe of an endpoint's test. Throws FileError `source_not_found` where there is none. */
  remove(path: string, signal: AbortSignal): Promise<void>;
  /** Ends idle and used connections alike. */
  close(): Promise<void>;
}
