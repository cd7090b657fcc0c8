import { createFilter, GlobTooSlow } from '../../adapters/files/globs.ts';
import { isOfTransfer } from '../../adapters/files/part-name.ts';
import { type FileEntry, FileError } from '../../adapters/files/port.ts';
import type { BatchFolder, RejectedItem } from '../../domain/batches/batch.ts';

/** A file below the folder, or a folder that cannot be listed: then `path` ends in a slash. */
export interface Found {
  /** Relative to the folder of the batch, not encoded. */
  path: string;
  /** Absent for a folder that cannot be listed. */
  entry?: FileEntry;
  /** The file beside it that says that it is ready, if the folder asks for one. */
  marker?: FileEntry | undefined;
  /** True if the listing lacks its time. Its entry may have it all the same. */
  untimed?: true;
  /** Why it cannot become a transfer. */
  error?: RejectedItem['error'];
  /** True for a folder that no URI can name: no transfer can ever have a file of it. */
  unnameable?: true;
}

/** An entry of a listed folder. */
interface Listed {
  entry: FileEntry;
  /** Whether the globs take it. Of a folder, whether they may take what is in it. */
  taken: boolean;
  /** As in `Found`. */
  marker?: FileEntry | undefined;
}

/** What the walk goes through. */
export interface WalkedFolder extends Pick<BatchFolder, 'pattern' | 'recursive' | 'exclude'> {
  /** The end of the names of marker files. They are found with their files, not by themselves. */
  marker?: string | null;
}

/** `path` is relative to the folder of the batch; empty for itself. Throws FileError. */
export type List = (path: string) => Promise<FileEntry[]>;

/**
 * Yields the files of a folder that a batch takes, in an order that depends on their paths alone.
 * So an interrupted walk continues after `through`, the last path that was yielded, and yields
 * nothing twice. If a folder cannot be listed by then, it yields why, as for any other. Lists no folder
 * of which `exclude` leaves everything out. Holds the entries of one folder and its parents at a time.
 * Ends at the first folder for whose names the globs take too long: each further one would block the
 * process as long.
 */
export async function* walk(
  list: List,
  folder: WalkedFolder,
  through: string | null,
  signal: AbortSignal,
): AsyncGenerator<Found, void, void> {
  const takes = createFilter(folder);
  const enters = createFilter({ pattern: '*', exclude: folder.exclude.filter(isOfFolders) });
  const end = folder.marker ?? null;
  let isTooSlow = false;
  yield* below('');

  async function* below(parent: string): AsyncGenerator<Found, void, void> {
    const whole = parent === '' ? '' : `${parent}/`;
    const listed = await entriesOf(parent, whole);
    if (listed === null) return;
    if (!Array.isArray(listed)) {
      // Only a part of it may have been yielded.
      if (isNew(whole) || isBegun(whole)) yield { path: whole, error: listed };
      return;
    }
    for (const { taken, ...found } of listed) {
      const { entry } = found;
      if (signal.aborted || isTooSlow) return;
      const path = whole + entry.name;
      if (entry.type !== 'directory') {
        if (taken && isNew(path)) yield { path, ...found, ...objectionToFile(entry) };
      } else if (folder.recursive && taken) {
        const error = objectionToFolder(entry.name);
        if (error !== undefined) {
          if (isNew(`${path}/`)) yield { path: `${path}/`, error, unnameable: true };
        } else if (isOpen(path)) yield* below(path);
      }
    }
  }

  /** Returns the entries of a folder, or why it cannot be listed. Null if the signal aborts. */
  async function entriesOf(
    parent: string,
    whole: string,
  ): Promise<Listed[] | NonNullable<Found['error']> | null> {
    try {
      const all = await list(parent);
      const markers = new Map(all.filter(isMarker).map((entry) => [entry.name, entry]));
      const entries = all
        .filter((entry) => !isOfTransfer(entry.name) && !isMarker(entry))
        .sort(inOrder);
      const taken = await takes(entries.map(({ name }) => whole + name));
      // A folder without a name is to be rejected.
      const folders = entries.filter(({ name, type }) => type === 'directory' && name !== '');
      const entered = await enters(folders.map(({ name }) => whole + name));
      const leftOut = new Set(folders.filter((_, i) => !entered[i]));
      return entries.map((entry, i) => ({
        entry,
        taken: entry.type === 'directory' ? !leftOut.has(entry) : taken[i] === true,
        ...(end !== null && { marker: markers.get(entry.name + end) }),
      }));
    } catch (error) {
      if (signal.aborted) return null;
      isTooSlow = error instanceof GlobTooSlow;
      if (error instanceof FileError) return { code: error.shownCode, message: error.message };
      if (!isTooSlow) throw error;
      return { code: 'validation_failed', message: (error as Error).message };
    }
  }

  function isMarker({ name, type }: FileEntry): boolean {
    return end !== null && type === 'file' && name.endsWith(end) && name.length > end.length;
  }

  function isNew(path: string): boolean {
    return through === null || compare(path, through) > 0;
  }

  /** Returns whether the walk was interrupted within a folder. */
  function isBegun(whole: string): boolean {
    return through !== null && through !== whole && through.startsWith(whole);
  }

  /** Returns whether a folder may have new files. One that could not be listed has none. */
  function isOpen(path: string): boolean {
    if (through === null || through.startsWith(`${path}/`)) return through !== `${path}/`;
    return compare(path, through) >= 0;
  }
}

/** Returns whether a glob leaves out all that is below the folders that it matches. */
function isOfFolders(glob: string): boolean {
  return glob.endsWith('/**') && !glob.startsWith('!');
}

const NO_NAME = {
  code: 'validation_failed',
  message: 'The name of the folder is empty (two slashes in a row), so no URI can name its files',
};
const UNREADABLE = {
  code: 'validation_failed',
  message: 'Its name is not valid UTF-8 or has a line break, so no URI can name it',
};
const NOT_A_FILE = { code: 'not_a_file', message: 'It is a link or a device, not a file' };

function objectionToFile({ name, type }: FileEntry): Pick<Found, 'error'> {
  if (type !== 'file') return { error: NOT_A_FILE };
  return isUnreadable(name) ? { error: UNREADABLE } : {};
}

/** A key of an object store may have two slashes in a row. No path leads to what is between. */
function objectionToFolder(name: string): Found['error'] {
  if (name === '') return NO_NAME;
  return isUnreadable(name) ? UNREADABLE : undefined;
}

/** Returns whether an adapter could not read the whole name: another file may be called like that. */
function isUnreadable(name: string): boolean {
  return name.includes('\uFFFD');
}

/** A file comes before a folder of the same name: an object store may have both. */
function inOrder(a: FileEntry, b: FileEntry): number {
  if (a.name !== b.name) return a.name < b.name ? -1 : 1;
  return Number(a.type === 'directory') - Number(b.type === 'directory');
}

/** Compares paths segment by segment, as the walk meets them. */
function compare(a: string, b: string): number {
  const [some, others] = [a.split('/'), b.split('/')];
  for (const [i, segment] of some.entries()) {
    const other = others[i];
    if (other === undefined) return 1;
    if (segment !== other) return segment < other ? -1 : 1;
  }
  return some.length - others.length;
}
