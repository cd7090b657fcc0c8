/*
 * Deletes or moves an object on a server without renames: S3 and Azure. A move is a copy on the
 * server, and then a delete on the condition that the source is still the one that was copied.
 */
import { abortError } from '../abort.ts';
import { afterProgress, type DisposeProgress, isSame, namesIn } from '../dispose.ts';
import { type Disposed, type DisposeOptions, FileError, type FileIdentity } from '../port.ts';

type Changed = Extract<Disposed, { outcome: 'changed' }>;

/** The requests about one source, as a server has them. `Found` is what it says of an object. */
export interface DisposeRequests<Found> {
  /** Returns null if no object has the key. */
  find(key: string): Promise<Found | null>;
  identityOf(found: Found): FileIdentity;
  /** Returns whether an object is the copy that the transfer made, which may look like its source. */
  isCopy(found: Found): boolean;
  /** Returns the bytes of an object; undefined for one that is not complete. */
  sizeOf(found: Found): number | undefined;
  /** Copies the source, unless another object has the key. An interrupted call may have copied it. */
  copyTo(key: string, source: Found): Promise<'copied' | 'taken'>;
  /** Deletes the source that was found. Returns what has its key, if that is another one. */
  remove(progress: DisposeProgress, source: Found): Promise<Changed | null>;
  /** Converts an error of the server. Leaves a FileError as it is. */
  fileError(error: unknown): FileError;
}

/** Does what `dispose` of the port says. Throws FileError. */
export async function disposeByCopy<Found>(
  requests: DisposeRequests<Found>,
  key: string,
  options: DisposeOptions,
): Promise<Disposed> {
  const progress = { begun: false };
  try {
    return await deleteOrMove(requests, key, options, progress);
  } catch (error) {
    throw options.signal.aborted
      ? abortError(options.signal, 'commit')
      : afterProgress(requests.fileError(error), progress);
  }
}

async function deleteOrMove<Found>(
  requests: DisposeRequests<Found>,
  key: string,
  { identity, transferId, moveTo }: DisposeOptions,
  progress: DisposeProgress,
): Promise<Disposed> {
  const names = moveTo === null ? [] : namesIn(key, transferId);
  const source = await requests.find(key);
  if (source === null) {
    let movedAs: string | null = null;
    for (const name of names) {
      const there = await requests.find(moveTo + name);
      if (there !== null && requests.sizeOf(there) === identity.size) movedAs = name;
    }
    return { outcome: 'gone', movedAs };
  }
  if (requests.isCopy(source))
    throw new FileError(
      'destination_is_source',
      'commit',
      `${key} is the copy itself, under another name of the bucket`,
    );
  const found = requests.identityOf(source);
  if (!isSame(found, identity)) return { outcome: 'changed', found };
  if (moveTo === null) return (await requests.remove(progress, source)) ?? { outcome: 'deleted' };

  for (const name of names) {
    if ((await requests.copyTo(moveTo + name, source)) === 'taken') continue;
    // The copy stays also if the source has changed: an earlier try, or another process, may have
    // deleted the one that was copied.
    return (await requests.remove(progress, source)) ?? { outcome: 'moved', name };
  }
  throw new FileError('destination_exists', 'commit', `${moveTo} has files of these names already`);
}
