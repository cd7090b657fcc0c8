import { join } from 'node:path/posix';
import type { Attributes, FileEntryWithStats } from 'ssh2';
import { createSemaphore } from '../../../concurrency/semaphore.ts';
import { createFolderEntries } from '../folder-entries.ts';
import type { FileEntry } from '../port.ts';
import { hasStatus, SSH_FX_EOF } from './errors.ts';
import { type FileType, typeIn, typeOf } from './file-type.ts';
import { closeHandle } from './handles.ts';
import type { Connection } from './session.ts';

const BY_LETTER: Record<string, FileType> = { '-': 'file', d: 'directory', l: 'other' };
/** Parallel requests for the types of entries. */
const TYPES_AT_ONCE = 16;

/** Returns all entries of a folder. A link is of type `other`. Throws the server's refusal. */
export async function list(connection: Connection, path: string): Promise<FileEntry[]> {
  const entries = createFolderEntries<FileEntryWithStats>(path);
  await readFolder(connection, path, (some) => {
    for (const entry of some) entries.add(entry.filename, entry);
  });
  const requests = createSemaphore(TYPES_AT_ONCE);
  return Promise.all(
    entries.all.map(async (entry) => {
      // A server may leave out any attribute.
      const { size, mtime }: Partial<Attributes> = entry.attrs;
      const ask = () => typeOf(connection, join(path, entry.filename), entry.attrs);
      const type = typeSaid(entry) ?? (await requests.run(ask));
      return {
        name: entry.filename,
        type,
        size: type === 'file' ? (size ?? null) : null,
        modified_at: mtime === undefined ? null : new Date(mtime * 1_000).toISOString(),
      };
    }),
  );
}

/**
 * Returns the names in a folder that `isWanted` accepts. The folder may have any number of others.
 * Throws the server's refusal, or the reason of the signal.
 */
export async function namesIn(
  connection: Connection,
  path: string,
  isWanted: (name: string) => boolean,
  signal: AbortSignal,
): Promise<string[]> {
  const names = createFolderEntries<string>(path);
  await readFolder(connection, path, (entries) => {
    signal.throwIfAborted();
    for (const { filename } of entries) if (isWanted(filename)) names.add(filename, filename);
  });
  return names.all;
}

/** Passes the entries of a folder on, answer by answer. Ends when `take` throws. */
async function readFolder(
  connection: Connection,
  path: string,
  take: (entries: FileEntryWithStats[]) => void,
): Promise<void> {
  const handle = await connection.request<Buffer>((sftp, done) => sftp.opendir(path, done));
  try {
    for (;;) {
      const some = await readSome(connection, handle);
      if (some === null) break;
      take(some);
    }
  } catch (error) {
    await closeHandle(connection, handle).catch(() => {});
    throw error;
  }
  await closeHandle(connection, handle);
}

/** Returns the entries of the server's next answer. Null after the last one. */
async function readSome(
  connection: Connection,
  handle: Buffer,
): Promise<FileEntryWithStats[] | null> {
  try {
    return await connection.request((sftp, done) => sftp.readdir(handle, done));
  } catch (error) {
    if (hasStatus(error, SSH_FX_EOF)) return null;
    throw error;
  }
}

/**
 * Returns the type that the server says, or null. The long name is for people to read, says the
 * draft (draft-ietf-secsh-filexfer-02, section 7). It decides only if the attributes have no type.
 */
function typeSaid({ attrs, longname }: FileEntryWithStats): FileType | null {
  return typeIn(attrs) ?? BY_LETTER[longname.charAt(0)] ?? null;
}
