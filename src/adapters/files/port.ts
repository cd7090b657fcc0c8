import type { PacedRequest } from '../../concurrency/pacer.ts';
import type { SharedCounter } from '../../concurrency/shared-counter.ts';
import type { AnnouncedHostKey } from '../../domain/protocols/host-keys.ts';
import { storable } from '../../domain/storable.ts';
import type { TransferErrorCode } from '../../domain/transfers/errors.ts';
import type { Verification } from '../../domain/transfers/transfer.ts';
import { shortageOf } from '../own-shortage.ts';
import type { UnixTime } from './modification-time.ts';

/** The step in the use of one endpoint that failed. The mover adds the side. */
export type FileStep = 'connect' | 'sign_in' | 'open' | 'transfer' | 'verify' | 'commit';

/**
 * The end of a transfer that a request is for. The same answer can mean different errors at each
 * end.
 */
export type Side = 'source' | 'destination';

/** The longest message of an error. A server may send any number of characters. */
const MAX_MESSAGE = 4_000;

function shortened(message: string): string {
  return message.length <= MAX_MESSAGE ? message : `${message.slice(0, MAX_MESSAGE)}…`;
}

/**
 * The only error that leaves an adapter: a code of the table in `domain/transfers/errors.ts`, the
 * step, and the server's own text without secrets, shortened to 4,000 characters.
 */
export class FileError extends Error {
  override readonly name = 'FileError';
  readonly code: TransferErrorCode;
  readonly step: FileStep;
  /** True if all connections of the endpoint are in use, or all that the server accepts. */
  readonly busy: boolean;
  /**
   * True if this process or its machine lacked something, such as a place for an open file. The
   * server has no part in it, and no answer of it came.
   */
  readonly ofMachine: boolean;

  constructor(
    code: TransferErrorCode,
    step: FileStep,
    message: string,
    {
      busy = false,
      ofMachine,
      ...options
    }: ErrorOptions & { busy?: boolean; ofMachine?: boolean } = {},
  ) {
    super(storable(shortened(message)), options);
    this.code = code;
    this.step = step;
    this.busy = busy;
    const { cause } = options;
    this.ofMachine =
      ofMachine ?? (cause instanceof FileError ? cause.ofMachine : shortageOf(cause) !== null);
  }

  /** The code to show to people, with its advice: that of a network error would blame the server. */
  get shownCode(): TransferErrorCode {
    return this.ofMachine ? 'internal_error' : this.code;
  }

  /**
   * True if the connection or the sign-in failed, so the server as a whole is at fault. No request
   * about a file was sent.
   */
  get ofServer(): boolean {
    return this.step === 'connect' || this.step === 'sign_in';
  }
}

/** The bandwidth that a file may use. */
export interface Pace {
  /** False while there is no limit. */
  readonly limited: boolean;
  /**
   * Resolves with how many bytes may move now: at least 1, at most `wanted`. Throws FileError when
   * the file is closed.
   */
  take(wanted: number): Promise<number>;
  /**
   * Waits until a request with so many bytes of content may begin. Sign the request after that: the
   * wait may be long. Throws as `take` does.
   */
  request(bytes: number): Promise<PacedRequest>;
}

/** Shows whether a file is still the one that was opened. */
export interface FileIdentity {
  size: number;
  /**
   * Modification time, ETag or version, whichever the protocol has, compared as text. Null if the
   * server gives none.
   */
  version: string | null;
}

/** What an object store sends with an object, so that a program knows what it gets. */
export interface ContentHeaders {
  contentType?: string | undefined;
  contentEncoding?: string | undefined;
  contentLanguage?: string | undefined;
  contentDisposition?: string | undefined;
  cacheControl?: string | undefined;
}

export interface SourceFile {
  readonly identity: FileIdentity;
  /** When its content was last changed, as the server or its metadata says. Null if unknown. */
  readonly modifiedAt: UnixTime | null;
  /** Absent if the protocol has none. */
  readonly headers?: ContentHeaders | undefined;
  /**
   * Number of parallel reads, in any order. 1 means one after the other, from the start to the end.
   */
  readonly parallelReads: number;
  /**
   * True if the whole file came in the answer that opened it, so it could not change during the
   * read.
   */
  readonly readAtOnce: boolean;
  /** The whole file, if opening it has read it: `read` and `stat` then ask the server nothing. */
  readonly content?: Uint8Array | undefined;
  /**
   * Fills the whole of `target` from `offset`. Throws FileError `source_changed` if the file ends
   * before that: a short read never counts as a full one.
   */
  read(offset: number, target: Uint8Array): Promise<void>;
  /**
   * Fills `target` with the whole of a small file, as `read` does, and returns its identity after
   * that. Takes one round trip for both. Absent if the server may carry them out in another order.
   */
  readWhole?(target: Uint8Array): Promise<FileIdentity>;
  /** Asks the server for the current identity, at the end of a move. */
  stat(): Promise<FileIdentity>;
  /** Ends requests under way. Never throws; may be called twice. */
  close(): Promise<void>;
}

/**
 * What another process needs to continue a half-written destination. Plain JSON, saved during the
 * move.
 */
export interface ResumePoint {
  /** Bytes from the start that are durable at the destination, without a gap. */
  bytes: number;
  /** Part name, upload id or parts. Only the adapter that made it reads it. */
  state: unknown;
}

export interface OpenDestination {
  transferId: string;
  /**
   * Different for each claim. The claim takes over what a predecessor left; writes of a stale claim
   * go elsewhere.
   */
  claimId: string;
  /**
   * The number of times that the claim has opened the destination, with this one; 1 by default. A
   * part that is created has another name each time. So a request about an older part, which the
   * server carries out late, does not reach it.
   */
  opening?: number;
  /** Size of the source, in bytes. */
  size: number;
  /** Whether to replace an existing file. If false, the commit fails with `destination_exists`. */
  overwrite: boolean;
  resume: ResumePoint | null;
  /**
   * The whole of a new file. The adapter may ignore it; if it does not, everything is written when
   * this resolves, and `resumedFrom` is `size`.
   */
  content?: Uint8Array | undefined;
  /** The modification time that the file gets. Absent: whatever the server gives it. */
  modifiedAt?: UnixTime | undefined;
  /**
   * The largest chunk that the line may let through. A destination that cannot resume there keeps
   * its own size, which is a multiple of this one. Absent: its own size.
   */
  chunkSize?: number | undefined;
  /** The headers that the file gets, if the protocol has them. */
  headers?: ContentHeaders | undefined;
  /**
   * Whether an object names its transfer, so that `dispose` knows it. Another name of the bucket may
   * be that of the source. Azure needs no such mark: each write of a blob changes its ETag.
   */
  marked?: boolean | undefined;
  /**
   * Counts the bytes of the file from where it was opened on, as the server acknowledges them, or
   * as the socket has sent them if the protocol acknowledges only a whole request. For people to
   * watch: the resume point alone says what is safe. Absent for small files.
   */
  acknowledged?: SharedCounter | undefined;
  /** For a destination that sends whole chunks in one request: see `pacesRequests`. */
  pace?: Pace | undefined;
  signal: AbortSignal;
}

export interface CommitProof {
  /** Bytes that the destination reports. */
  size: number;
  destinationChecksum: Verification['destination_checksum'];
  atomicReplace: boolean;
  /** The version that the commit made, as in `FileIdentity`. Absent if the server names none. */
  version?: string | undefined;
  /** Why the file has not the modification time that was asked for. */
  timeRefused?: string;
  /** True if something unfinished may be left at the destination all the same. */
  leftovers?: boolean;
}

export interface DestinationFile {
  /** Number of parallel writes. 1 means one after the other, from the start to the end. */
  readonly parallelWrites: number;
  /**
   * True if parallel writes must begin in the order of their offsets, because some servers write a
   * file from its start to its end only.
   */
  readonly inOrder?: boolean | undefined;
  /** Every chunk but the last has exactly this many bytes. */
  readonly chunkSize: number;
  /**
   * Where to continue; 0 for a new file. At most the `bytes` of the resume point that was passed
   * in, or `size` if `content` is written.
   */
  readonly resumedFrom: number;
  /**
   * True if requests take their bytes from `pace`. Otherwise a chunk is written in several calls
   * while the bandwidth is limited.
   */
  readonly pacesRequests?: true;
  /** Resolves when the server has acknowledged every byte. */
  write(offset: number, data: Uint8Array): Promise<void>;
  /**
   * Opens the bytes written so far for reading, when all of them are written. Close it before the
   * commit. Null if the server shows no byte before the commit.
   */
  openWritten(): Promise<SourceFile | null>;
  /**
   * Ends the writes, when all bytes are written, so that the server shows the part file under its
   * hidden name. Returns that name. Null if the protocol has no part files.
   */
  showPart(): Promise<string | null>;
  /** Returns what a successor needs to continue after the first `bytes` bytes. */
  resumePoint(bytes: number): Promise<ResumePoint>;
  /**
   * Makes the whole file appear under its name: flush, check the size, rename (or complete, or
   * commit). Nothing else may be called afterwards but `close`. Throws FileError `size_mismatch`,
   * `destination_exists`, `checksum_mismatch`.
   *
   * Returns null after it has found another file under the name of an object. Make sure that the
   * claim is still held, and call it again: it replaces that file, and no newer one.
   */
  commit(whole: { size: number; sha256: string }): Promise<CommitProof | null>;
  /**
   * Ends requests under way and leaves the written bytes for the next claim. Never throws; may be
   * called twice.
   */
  close(): Promise<void>;
}

export interface Leftovers {
  transferId: string;
  /** The last resume point that was saved, if any. */
  resume: ResumePoint | null;
  /**
   * When the transfer was created. Set after its end only: also removes what was begun since and
   * what no resume point names.
   */
  since?: Date;
  /**
   * True if the transfer has completed. A file that its claims had set aside then gets its name back
   * only if it may be the delivered one: a consumer may have taken that, and would get an older file
   * again.
   */
  completed?: boolean;
  /** Size of the file that a completed transfer has delivered, in bytes. Null if unknown. */
  size?: number | null;
  /** SHA-256 of that file, in lowercase hex. Null if unknown. */
  sha256?: string | null;
  /**
   * True if an earlier clean-up may have removed the parts. That none is left then does not show that
   * one of them got its name. A file set aside is not the older one: that clean-up has settled it.
   */
  repeated?: boolean;
  signal: AbortSignal;
}

export interface DisposeOptions {
  /** Names what the call sets aside or cannot name otherwise, so that a repeated call finds it. */
  transferId: string;
  /** The file to delete or move, and no other. Its `version` is not null. */
  identity: FileIdentity;
  /** Remote path of the folder that it moves to, with a slash at the end. Null to delete it. */
  moveTo: string | null;
  /**
   * The number of the call, among all for this transfer; 1 by default. A file is set aside under
   * another name each time, and the call finds what earlier ones have set aside.
   */
  tried?: number;
  signal: AbortSignal;
}

/** A part file of a transfer, by its name. */
export type PartOptions = Pick<OpenDestination, 'transferId' | 'signal'> & { part: string };

/** The transfer whose calls of `dispose`, up to `tried`, may have set a file aside. */
export type RestoreOptions = Pick<DisposeOptions, 'transferId' | 'tried' | 'signal'>;

export type Disposed =
  | { outcome: 'deleted' }
  /** `name` is the file's own, or has the id of the transfer if that was taken. */
  | { outcome: 'moved'; name: string }
  /** Another file has the name. It is untouched. */
  | { outcome: 'changed'; found: FileIdentity }
  /** No file has the name. `movedAs` is the name of a file of that size in the folder, if any. */
  | { outcome: 'gone'; movedAs: string | null };

/** One line of a listing. */
export interface FileEntry {
  /** U+FFFD stands for a NUL and what is not valid UTF-8. By FTPS, also for a line break. */
  name: string;
  type: 'file' | 'directory' | 'other';
  size: number | null;
  modified_at: string | null;
  /** Differs for each version of the file. Absent if the server lists none. */
  etag?: string;
}

/** The server that answered at an endpoint's address. */
export interface Peer {
  /**
   * Host key (`SHA256:...` as `ssh-keygen -l` prints it) or the certificate's SHA-256. Null if
   * there is none (plain http).
   */
  fingerprint: string | null;
  /** True if it is an accepted host key, or if the certificate verifies. */
  trusted: boolean;
  /** Why the server is not trusted, as text; null when trusted. */
  reason: string | null;
}

/**
 * One configured endpoint with its pool of connections. Paths are remote paths, as `matchEndpoint`
 * returns them for a URI. Every method throws FileError and nothing else.
 */
export interface FileEndpoint {
  /** Connections that are open now, in use or idle. */
  connections(): Promise<number>;
  /**
   * Host keys that the verified server has announced since the endpoint was opened, and proved to
   * own. None of them is trusted by that. A protocol without host keys lacks it.
   */
  announcedHostKeys?(): Promise<AnnouncedHostKey[]>;
  openSource(path: string, signal: AbortSignal): Promise<SourceFile>;
  openDestination(path: string, options: OpenDestination): Promise<DestinationFile>;
  /**
   * Returns whether the server shows the part file of a transfer for this path, also if a mover
   * writes it by another endpoint. The server compares the names by its own rules. A protocol
   * without part files lacks it.
   */
  hasPart?(path: string, options: PartOptions): Promise<boolean>;
  /**
   * Connects to the server through the endpoint's hop, if it has one, and closes the connection.
   * For endpoint tests: an endpoint in another thread does not have it.
   */
  reach?(signal: AbortSignal): Promise<void>;
  /**
   * Connects and checks the host key or certificate. Signs in to nothing but a hop before the
   * server.
   */
  probe(signal: AbortSignal): Promise<Peer>;
  list(path: string, signal: AbortSignal): Promise<FileEntry[]>;
  /**
   * Removes everything unfinished that any claim of a transfer left at its destination: parts,
   * uploads, blocks. Never changes a file under the destination's own name. If no file has that
   * name, an older file that an interrupted commit had set aside gets it back, unless a newer one
   * was published. To be called when the transfer has ended. Throws FileError if something is left,
   * to be called again later.
   */
  removeLeftovers(path: string, leftovers: Leftovers): Promise<void>;
  /**
   * Removes a file, such as the one written by an endpoint test. Throws FileError
   * `source_not_found` if there is none.
   */
  remove(path: string, signal: AbortSignal): Promise<void>;
  /**
   * Deletes a file, or moves it to another folder, if it is still the one that was copied.
   * Overwrites nothing. May be repeated after a crash, as the next `tried`. After a FileError, the
   * file has its name, unless the connection broke: then the next call continues. The server may
   * still carry out a request of that connection, and set aside whatever has the name by then:
   * `restoreSource` gives it its name back. After an error of the step `connect`
   * or `sign_in`, the file is untouched.
   */
  dispose(path: string, options: DisposeOptions): Promise<Disposed>;
  /**
   * Gives a file its name back that an interrupted `dispose` has set aside. Returns false if there
   * is no file under any of the names. A protocol that sets nothing aside lacks it.
   */
  restoreSource?(path: string, options: RestoreOptions): Promise<boolean>;
  /** Closes all connections, idle or in use. */
  close(): Promise<void>;
}
