import { constants } from 'node:fs';
import type { Attributes } from 'ssh2';
import type { FileEntry } from '../port.ts';
import { isRefusal } from './errors.ts';
import { closeHandle } from './handles.ts';
import type { Connection } from './session.ts';

export type FileType = FileEntry['type'];

const BY_FORMAT: Record<number, FileType> = {
  [constants.S_IFREG]: 'file',
  [constants.S_IFDIR]: 'directory',
};

/**
 * Returns the type in the attributes. Null if they have none: a server may leave out any attribute,
 * and some send permissions without a type.
 */
export function typeIn({ mode = 0 }: Partial<Attributes>): FileType | null {
  const format = mode & constants.S_IFMT;
  return format === 0 ? null : (BY_FORMAT[format] ?? 'other');
}

const SPECIAL = [constants.S_IFIFO, constants.S_IFSOCK, constants.S_IFCHR, constants.S_IFBLK];

/** Returns whether the attributes are those of a device, pipe or socket. */
export function isSpecial({ mode = 0 }: Partial<Attributes>): boolean {
  return SPECIAL.includes(mode & constants.S_IFMT);
}

/** Returns the type in the attributes. If they have none, what the server lists is a folder. */
export async function typeOf(
  connection: Connection,
  path: string,
  attributes: Partial<Attributes>,
): Promise<FileType> {
  const type = typeIn(attributes);
  if (type !== null) return type;
  try {
    const handle = await connection.request<Buffer>((sftp, done) => sftp.opendir(path, done));
    await closeHandle(connection, handle);
    return 'directory';
  } catch (error) {
    if (isRefusal(error)) return 'file';
    throw error;
  }
}
