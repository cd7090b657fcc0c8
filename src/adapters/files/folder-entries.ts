import { FileError } from './port.ts';

/** What the names of one folder may take, in bytes. A folder is held in memory. */
export const MAX_LISTING_BYTES = 64 << 20;
/** Entries of one folder, at most: the checkpoints of four years, one a minute. */
const MAX_ENTRIES = 2_500_000;

/**
 * Collects the entries of a folder. Throws FileError if they are too many: a server whose listing
 * never ends would use up the memory of the process.
 */
export function createFolderEntries<Entry>(path: string): {
  readonly all: Entry[];
  add(name: string, entry: Entry): void;
} {
  const all: Entry[] = [];
  let bytes = 0;
  return {
    all,
    add(name, entry) {
      bytes += Buffer.byteLength(name);
      if (bytes > MAX_LISTING_BYTES || all.length === MAX_ENTRIES)
        throw new FileError('connection_failed', 'open', `${path}: the listing is too long`);
      all.push(entry);
    },
  };
}
