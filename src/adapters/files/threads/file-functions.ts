import type { EndpointDefinition } from '../../../domain/endpoints/endpoint.ts';
import type { AnnouncedHostKey } from '../../../domain/protocols/host-keys.ts';
import type { EndpointCredentials } from '../../../domain/protocols/index.ts';
import type { UnixTime } from '../modification-time.ts';
import {
  type CommitProof,
  type ContentHeaders,
  type Disposed,
  type DisposeOptions,
  type FileEntry,
  FileError,
  type FileIdentity,
  type Leftovers,
  type OpenDestination,
  type PartOptions,
  type Peer,
  type RestoreOptions,
  type ResumePoint,
} from '../port.ts';

/**
 * The functions of a thread that holds connections: those of the port (port.ts), with the number of
 * an endpoint or open file as the first argument. The signal of the call replaces the signal of the
 * port. The signal of the call that opened a file also ends later calls of that file. Buffers are
 * shared, not copied.
 */
export type FileFunctions = {
  openEndpoint(
    endpointId: string,
    definition: EndpointDefinition,
    credentials: EndpointCredentials,
  ): number;
  /** Limits the bandwidth of all files of an endpoint, also of those that are open. */
  setRate(endpointId: string, bytesPerSecond: number | null): void;
  connections(endpoint: number): number;
  announcedHostKeys(endpoint: number): AnnouncedHostKey[];
  /** A small file is read to its end and closed: see `whole`. */
  openSource(endpoint: number, path: string): OpenedSource;
  openDestination(
    endpoint: number,
    path: string,
    options: Omit<OpenDestination, 'signal' | 'pace'>,
  ): OpenedDestination;
  /** False for a protocol without part files. */
  hasPart(endpoint: number, path: string, options: Omit<PartOptions, 'signal'>): boolean;
  probe(endpoint: number): Peer;
  list(endpoint: number, path: string): FileEntry[];
  removeLeftovers(endpoint: number, path: string, leftovers: Omit<Leftovers, 'signal'>): void;
  remove(endpoint: number, path: string): void;
  dispose(endpoint: number, path: string, options: Omit<DisposeOptions, 'signal'>): Disposed;
  /** True for a protocol that sets nothing aside. */
  restoreSource(endpoint: number, path: string, options: Omit<RestoreOptions, 'signal'>): boolean;
  read(source: number, offset: number, buffer: Uint8Array): void;
  stat(source: number): FileIdentity;
  openWritten(destination: number): OpenedSource | null;
  showPart(destination: number): string | null;
  write(destination: number, offset: number, data: Uint8Array): void;
  resumePoint(destination: number, bytes: number): ResumePoint;
  /** Closes the file if it returns a proof. */
  commit(destination: number, whole: { size: number; sha256: string }): CommitProof | null;
  /** Closes an endpoint or a file. Does nothing if it is closed. */
  close(target: number): void;
};

export interface OpenedSource {
  target: number;
  identity: FileIdentity;
  modifiedAt: UnixTime | null;
  headers: ContentHeaders | undefined;
  parallelReads: number;
  readAtOnce: boolean;
  /** What one call does with a small file. It is closed then. Null for a larger file. */
  whole: WholeSource | null;
}

/** A small file: its content, and its identity after the last byte. Or the error of one of them. */
export type WholeSource = { bytes: Uint8Array; after: FileIdentity } | { error: ThreadError };

export interface OpenedDestination {
  target: number;
  parallelWrites: number;
  inOrder: boolean | undefined;
  chunkSize: number;
  resumedFrom: number;
  /** The resume point at the end of a file whose content is written. */
  written?: ResumePoint;
}

/** An error on its way between threads, which lose its class. */
export interface ThreadError {
  message: string;
  stack: string | undefined;
  /** Set for a FileError. */
  file: Pick<FileError, 'code' | 'step' | 'busy' | 'ofMachine'> | null;
}

export function describeError(error: unknown): ThreadError {
  const { message, stack } = error as Error;
  if (!(error instanceof FileError)) return { message, stack, file: null };
  const { code, step, busy, ofMachine } = error;
  return { message, stack, file: { code, step, busy, ofMachine } };
}

export function reviveError(described: unknown): Error {
  const { message, stack, file } = described as ThreadError;
  const error = file ? new FileError(file.code, file.step, message, file) : new Error(message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
