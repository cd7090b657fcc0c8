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
  /** Why it cannot become a transfer. */
  error?: RejectedItem['error'];
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
 * nothing twice. Holds the entries of one folder and its parents at a time. Ends at the first folder
 * for whose names the globs take too long: each further one would block the process as long.
 */
export async function* walk(
  list: List,
  folder: WalkedFolder,
  through: string | null,
  signal: AbortSignal,
): AsyncGenerator<Found, void, void> {
  const takes = createFilter(folder);
  const end = folder.marker ?? null;
  let isTooSlow = false;
  yield* below('');

  async function* below(parent: string): AsyncGenerator<Found, void, void> {
    const whole = parent === '' ? '' : `${parent}/`;
    let entries: FileEntry[];
    const markers = new Map<string, FileEntry>();
    let taken: boolean[];
    try {
      const all = await list(parent);
      for (const entry of all) if (isMarker(entry)) markers.set(entry.name, entry);
      entries = all.filter((entry) => !isOfTransfer(entry.name) && !isMarker(entry)).sort(inOrder);
      taken = await takes(entries.map(({ name }) => whole + name));
    } catch (error) {
      if (signal.aborted) return;
      isTooSlow = error instanceof GlobTooSlow;
      if (!(error instanceof FileError || isTooSlow)) throw error;
      const { message } = error as Error;
      const code = error instanceof FileError ? error.code : 'validation_failed';
      if (isNew(whole)) yield { path: whole, error: { code, message } };
      return;
    }
    for (const [i, entry] of entries.entries()) {
      const { name, type } = entry;
      if (signal.aborted || isTooSlow) return;
      const path = whole + name;
      if (type === 'directory') {
        if (!folder.recursive) continue;
        // A key of an object store may have two slashes in a row. No path leads to what is between.
        if (name === '' || isUnreadable(name)) {
          const error = name === '' ? NO_NAME : UNREADABLE;
          if (isNew(`${path}/`)) yield { path: `${path}/`, error };
        } else if (isOpen(path)) yield* below(path);
      } else if (taken[i] && isNew(path)) {
        const found = { path, entry, ...(end !== null && { marker: markers.get(name + end) }) };
        if (type !== 'file') yield { ...found, error: NOT_A_FILE };
        else yield isUnreadable(name) ? { ...found, error: UNREADABLE } : found;
      }
    }
  }

  function isMarker({ name, type }: FileEntry): boolean {
    return end !== null && type === 'file' && name.endsWith(end) && name.length > end.length;
  }

  function isNew(path: string): boolean {
    return through === null || compare(path, through) > 0;
  }

  /** Returns whether a folder may have new files. One that could not be listed has none. */
  function isOpen(path: string): boolean {
    if (through === null || through.startsWith(`${path}/`)) return through !== `${path}/`;
    return compare(path, through) >= 0;
  }
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
