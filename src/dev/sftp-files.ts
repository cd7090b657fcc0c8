import { constants, type Dirent, type Stats } from 'node:fs';
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  rm,
  rmdir,
  truncate,
  utimes,
} from 'node:fs/promises';
import { join, posix, sep } from 'node:path';
import ssh2, { type Attributes, type FileEntry, type SFTPWrapper } from 'ssh2';

const { OPEN_MODE, STATUS_CODE } = ssh2.utils.sftp;
const NO_SUCH_FILE = { code: STATUS_CODE.NO_SUCH_FILE, message: 'No such file' };
const PERMISSION_DENIED = { code: STATUS_CODE.PERMISSION_DENIED, message: 'Permission denied' };
const STATUS_OF: Record<string, { code: number; message: string }> = {
  ENOENT: NO_SUCH_FILE,
  ENOTDIR: NO_SUCH_FILE,
  EACCES: PERMISSION_DENIED,
  EPERM: PERMISSION_DENIED,
  ELOOP: PERMISSION_DENIED,
  // As OpenSSH does.
  ENAMETOOLONG: { code: STATUS_CODE.BAD_MESSAGE, message: 'Bad message' },
};
const LONGEST_READ = 255 * 1024;
const NAMES_AT_ONCE = 128;

type OpenHandle =
  | { kind: 'file'; file: FileHandle }
  | { kind: 'directory'; path: string; unread: Dirent[] };

/**
 * Serves the files under `root`, a real path, to one SFTP session. Clients cannot reach files
 * outside: paths are normalised below `root`, and no symbolic link leads out of it.
 */
export function serveFiles(sftp: SFTPWrapper, root: string): void {
  const handles = new Map<number, OpenHandle>();
  let nextHandle = 0;

  /** Runs `work`, which sends the response. Sends a status if it throws. */
  function answer(id: number, work: () => Promise<unknown>): void {
    work().catch((error: NodeJS.ErrnoException) => {
      const { code, message } = STATUS_OF[error.code ?? ''] ?? {
        code: STATUS_CODE.FAILURE,
        message: error.code ?? error.message,
      };
      sftp.status(id, code, message);
    });
  }

  function done(id: number, work: () => Promise<unknown>): void {
    answer(id, async () => {
      await work();
      sftp.status(id, STATUS_CODE.OK);
    });
  }

  function giveHandle(id: number, opened: OpenHandle): void {
    const key = Buffer.alloc(4);
    key.writeUInt32BE(nextHandle);
    handles.set(nextHandle++, opened);
    sftp.handle(id, key);
  }

  function fileOf(handle: Buffer): FileHandle {
    const opened = handles.get(handle.readUInt32BE());
    if (opened?.kind !== 'file') throw new Error('no such handle');
    return opened.file;
  }

  sftp.on('OPEN', (id, path, flags, { mode }) =>
    answer(id, async () =>
      giveHandle(id, {
        kind: 'file',
        file: await open(await inside(root, path), openFlags(flags), mode ?? 0o644),
      }),
    ),
  );
  sftp.on('READ', (id, handle, offset, length) =>
    answer(id, async () => {
      const buffer = Buffer.allocUnsafe(Math.min(length, LONGEST_READ));
      const { bytesRead } = await fileOf(handle).read(buffer, 0, buffer.length, offset);
      if (bytesRead === 0) sftp.status(id, STATUS_CODE.EOF);
      else sftp.data(id, buffer.subarray(0, bytesRead));
    }),
  );
  sftp.on('WRITE', (id, handle, offset, data) =>
    done(id, () => writeAll(fileOf(handle), data, offset)),
  );
  sftp.on('CLOSE', (id, handle) =>
    done(id, async () => {
      const key = handle.readUInt32BE();
      const opened = handles.get(key);
      handles.delete(key);
      if (opened?.kind === 'file') await opened.file.close();
    }),
  );

  const stat = (id: number, path: string) =>
    answer(id, async () => sftp.attrs(id, attributes(await lstat(await inside(root, path)))));
  sftp.on('STAT', stat);
  sftp.on('LSTAT', stat);
  sftp.on('FSTAT', (id, handle) =>
    answer(id, async () => sftp.attrs(id, attributes(await fileOf(handle).stat()))),
  );
  sftp.on('SETSTAT', (id, path, wanted) =>
    done(id, async () => setAttributes(await inside(root, path), wanted)),
  );
  sftp.on('FSETSTAT', (id, handle, wanted) =>
    done(id, async () => {
      const file = fileOf(handle);
      if (wanted.size !== undefined) await file.truncate(wanted.size);
      if (wanted.mtime !== undefined) await file.utimes(wanted.atime, wanted.mtime);
    }),
  );

  sftp.on('OPENDIR', (id, path) =>
    answer(id, async () => {
      const directory = await inside(root, path);
      giveHandle(id, {
        kind: 'directory',
        path: directory,
        unread: await readdir(directory, { withFileTypes: true }),
      });
    }),
  );
  sftp.on('READDIR', (id, handle) =>
    answer(id, async () => {
      const opened = handles.get(handle.readUInt32BE());
      if (opened?.kind !== 'directory') throw new Error('no such handle');
      const names = opened.unread.splice(0, NAMES_AT_ONCE);
      if (names.length === 0) return sftp.status(id, STATUS_CODE.EOF);
      const found = await Promise.all(names.map((entry) => listed(opened.path, entry)));
      sftp.name(
        id,
        found.filter((entry) => entry !== null),
      );
    }),
  );
  sftp.on('REALPATH', (id, path) =>
    sftp.name(id, [{ filename: virtual(path), longname: virtual(path), attrs: {} as Attributes }]),
  );

  sftp.on('MKDIR', (id, path, { mode }) =>
    done(id, async () => mkdir(await inside(root, path), mode ?? 0o755)),
  );
  sftp.on('RMDIR', (id, path) => done(id, async () => rmdir(await inside(root, path))));
  sftp.on('REMOVE', (id, path) => done(id, async () => rm(await inside(root, path))));
  sftp.on('RENAME', (id, from, to) =>
    done(id, async () => {
      const target = await inside(root, to);
      // SFTP 3: a rename never replaces a file.
      if (await exists(target)) throw new Error('the target exists');
      await rename(await inside(root, from), target);
    }),
  );

  sftp.on('end', () => sftp.end());
  sftp.on('close', () => {
    for (const opened of handles.values())
      if (opened.kind === 'file') opened.file.close().catch(() => undefined);
    handles.clear();
  });
}

function virtual(path: string): string {
  return posix.normalize(`/${path}`).replace(/(?<=.)\/$/, '');
}

/**
 * Returns the real path of a name below the root. Throws EACCES if its folder is outside the root,
 * or if the name is a symbolic link.
 */
async function inside(root: string, path: string): Promise<string> {
  const name = virtual(path);
  const folder = await realpath(join(root, posix.dirname(name)));
  if (folder !== root && !folder.startsWith(root + sep))
    throw Object.assign(new Error('outside of the root'), { code: 'EACCES' });
  const real = join(folder, posix.basename(name));
  if ((await lstat(real).catch(() => null))?.isSymbolicLink())
    throw Object.assign(new Error('a symbolic link'), { code: 'EACCES' });
  return real;
}

function openFlags(flags: number): number {
  const reads = (flags & OPEN_MODE.READ) !== 0;
  const writes = (flags & OPEN_MODE.WRITE) !== 0;
  let open =
    constants.O_NOFOLLOW |
    (reads && writes ? constants.O_RDWR : writes ? constants.O_WRONLY : constants.O_RDONLY);
  if (flags & OPEN_MODE.APPEND) open |= constants.O_APPEND;
  if (flags & OPEN_MODE.CREAT) open |= constants.O_CREAT;
  if (flags & OPEN_MODE.TRUNC) open |= constants.O_TRUNC;
  if (flags & OPEN_MODE.EXCL) open |= constants.O_EXCL;
  return open;
}

async function writeAll(file: FileHandle, data: Buffer, offset: number): Promise<void> {
  for (let written = 0; written < data.length; ) {
    const { bytesWritten } = await file.write(
      data,
      written,
      data.length - written,
      offset + written,
    );
    written += bytesWritten;
  }
}

async function setAttributes(path: string, wanted: Attributes): Promise<void> {
  if (wanted.size !== undefined) await truncate(path, wanted.size);
  if (wanted.mtime !== undefined) await utimes(path, wanted.atime, wanted.mtime);
}

function attributes({ mode, uid, gid, size, atimeMs, mtimeMs }: Stats): Attributes {
  return {
    mode,
    uid,
    gid,
    size,
    atime: Math.floor(atimeMs / 1_000),
    mtime: Math.floor(mtimeMs / 1_000),
  };
}

/** Returns null for a file that was renamed or removed since the folder was opened. */
async function listed(folder: string, entry: Dirent): Promise<FileEntry | null> {
  const stats = await lstat(join(folder, entry.name)).catch(() => null);
  if (stats === null) return null;
  const type = stats.isDirectory() ? 'd' : '-';
  const date = stats.mtime.toISOString().slice(0, 10);
  const longname = `${type}rw-r--r-- 1 demo demo ${stats.size} ${date} ${entry.name}`;
  return { filename: entry.name, longname, attrs: attributes(stats) };
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null)) !== null;
}
