import { constants } from 'node:fs';
import type { Attributes, FileEntryWithStats } from 'ssh2';
import type { FileEntry } from '../port.ts';
import type { Connection } from './connection.ts';

const BY_LETTER: Record<string, FileEntry['type']> = { '-': 'file', d: 'directory' };

/** Returns all entries of a folder. A link is of type `other`. Throws the server's refusal. */
export async function list(connection: Connection, path: string): Promise<FileEntry[]> {
  const entries = await connection.request<FileEntryWithStats[]>((sftp, done) =>
    sftp.readdir(path, done),
  );
  return entries.map((entry) => {
    // A server may leave out any attribute.
    const { size, mtime }: Partial<Attributes> = entry.attrs;
    const type = typeOf(entry);
    return {
      name: entry.filename,
      type,
      size: type === 'file' ? (size ?? null) : null,
      modified_at: mtime === undefined ? null : new Date(mtime * 1_000).toISOString(),
    };
  });
}

/**
 * Returns the type in the attributes. The long name is for people to read, says the draft
 * (draft-ietf-secsh-filexfer-02, section 7). It decides only if the attributes have no type.
 */
function typeOf({ attrs, longname }: FileEntryWithStats): FileEntry['type'] {
  if (attrs.isFile()) return 'file';
  if (attrs.isDirectory()) return 'directory';
  const hasType = (attrs.mode & constants.S_IFMT) !== 0;
  return (hasType ? null : BY_LETTER[longname.charAt(0)]) ?? 'other';
}
