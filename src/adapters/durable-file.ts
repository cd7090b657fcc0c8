import { closeSync, constants, fchownSync, fstatSync, openSync, statSync } from 'node:fs';
import {
  link,
  open,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** What `writeWhole` adds to a name until the file is complete. */
const UNFINISHED = /\.[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\.new$/;
/** The writer of an unfinished file that is older than this was killed, in milliseconds. */
const ABANDONED_AFTER_MS = 3_600_000;

/**
 * Writes as `writeWhole`. Then removes what a killed writer of this file left more than an hour ago,
 * so the whole folder is read.
 */
export async function replaceFile(file: string, text: string, mode = 0o600): Promise<void> {
  await writeWhole(file, text, mode);
  const name = basename(file);
  await removeAbandoned(dirname(file), (replaced) => replaced === name);
}

/**
 * Writes a file that appears whole, and replaces one of its name. Root gives it to the owner of the
 * file that it replaces, or of the folder: the service may run as that user. After this returns, a
 * power failure does not undo it. Leaves nothing behind if it fails.
 *
 * Another process may replace the same file meanwhile. So each writes under a name of its own:
 * otherwise one would rename what the other has only begun to write.
 */
export async function writeWhole(file: string, text: string, mode: number): Promise<void> {
  const temporary = `${file}.${crypto.randomUUID()}.new`;
  const owner = await ownerFor(file);
  try {
    await writeForOwner(temporary, text, mode, owner);
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
  await syncFolder(dirname(file));
}

/**
 * Removes what killed processes left of `writeWhole` in a folder, of the files that `isOurs` names.
 * Never rejects. If the folder allows no removal, the files stay.
 */
export async function removeAbandoned(
  folder: string,
  isOurs: (name: string) => boolean,
): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    if (!UNFINISHED.test(name) || !isOurs(name.replace(UNFINISHED, ''))) continue;
    const path = join(folder, name);
    // Another process may have completed or removed it since.
    const found = await stat(path).catch(() => null);
    if (found && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS)
      await rm(path).catch(() => undefined);
  }
}

/**
 * Creates an empty file that belongs to the owner of its folder, if this process is root and there
 * is no such file. Others create their own.
 */
export function createForOwner(file: string, mode: number): void {
  if (!isRoot()) return;
  let fd: number;
  try {
    fd = openSync(file, 'wx', mode);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw error;
  }
  try {
    giveTo(fd, statSync(dirname(file)));
  } finally {
    closeSync(fd);
  }
}

/** Gives a new folder of root to the owner of its parent. Does nothing for other users. */
export function giveToParentOwner(folder: string): void {
  if (!isRoot()) return;
  // That owner may have put a link in its place.
  const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    giveTo(fd, statSync(dirname(folder)));
  } finally {
    closeSync(fd);
  }
}

/**
 * Writes a text where a person wants it: to a file, which it replaces as `replaceFile` does, or to
 * a device or pipe, such as `/dev/stdout`. The link to a file stays.
 */
export async function writeOutput(path: string, text: string): Promise<void> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (found && !found.isFile()) return writeFile(path, text);
  const file = found ? await realpath(path) : path;
  await replaceFile(file, text, (found?.mode ?? 0o666) & 0o777).catch((error: unknown) => {
    // The person knows no other file, and a full disk names none.
    throw Object.assign(error as Error, { path });
  });
}

/**
 * Writes a new file, readable by its owner only. Root gives it to the owner of the folder. It has
 * its name when all of it is on disk. Leaves nothing behind if it fails. Throws Error if there is a
 * file of that name.
 */
export async function writeNewFile(file: string, pieces: AsyncIterable<string>): Promise<void> {
  const temporary = `${file}.new`;
  try {
    await rm(temporary, { force: true });
    await writeForOwner(temporary, pieces, 0o600, await ownerFor(temporary));
    // A link never replaces a file.
    await link(temporary, file);
  } finally {
    await unlink(temporary).catch(() => undefined);
  }
  await syncFolder(dirname(file));
}

/** Makes files that were created, renamed or removed in a folder survive a power failure. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

interface Owner {
  uid: number;
  gid: number;
}

/** Writes a new file to the disk, and gives it to the owner if that is not null. */
async function writeForOwner(
  file: string,
  content: string | AsyncIterable<string>,
  mode: number,
  owner: Owner | null,
): Promise<void> {
  // Only a new file: root must not give away what another user has linked to this name.
  const handle = await open(file, 'wx', mode);
  try {
    if (owner !== null) giveTo(handle.fd, owner);
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Returns who owns what replaces this file, if this process may give files away; else null. */
async function ownerFor(file: string): Promise<Owner | null> {
  if (!isRoot()) return null;
  return stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return stat(dirname(file));
    throw error;
  });
}

/** Does nothing if the file has this owner: not every file system knows owners. */
function giveTo(fd: number, { uid, gid }: Owner): void {
  const now = fstatSync(fd);
  if (now.uid !== uid || now.gid !== gid) fchownSync(fd, uid, gid);
}

function isRoot(): boolean {
  return process.geteuid?.() === 0;
}
