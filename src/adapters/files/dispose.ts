/*
 * Deletes or moves a source on a server with folders and renames.
 *
 * The file first gets a private name in the same folder (`heldPath`). No writer replaces it there,
 * so Waybill deletes the very file that it compared. A file other than the copied one gets its name
 * back. An interrupted call leaves the file under the private name, and the next call continues. A
 * caller that gives up calls `restoreSource` first.
 *
 * The server may carry out the rename of an interrupted call late, when a newer file has the name.
 * So each call has a private name of its own, and renames to it once. No call deletes a file that
 * appears there later, and `restoreSource` finds it.
 */
import { basename, join } from 'node:path/posix';
import { type Names, refusalOf } from './names.ts';
import { heldPath, heldPaths, nameWithId } from './part-name.ts';
import {
  type Disposed,
  type DisposeOptions,
  FileError,
  type FileIdentity,
  type FileStep,
  type RestoreOptions,
} from './port.ts';

/** What `dispose` needs of a server besides its names. */
export interface Sources extends Names {
  /** Returns the identity of a file, as `openSource` does. Null if there is none. */
  identityOf(path: string): Promise<FileIdentity | null>;
  makeFolder(path: string): Promise<void>;
}

export function isSame(one: FileIdentity, other: FileIdentity): boolean {
  return one.size === other.size && one.version === other.version;
}

/** Outlives a connection that breaks within a call. */
export interface DisposeProgress {
  /** True once the source may have been changed. */
  begun: boolean;
}

/** Connections of an endpoint, as the pools of SFTP and FTPS lend them. */
export interface Connections<Connection> {
  use<Result>(
    signal: AbortSignal,
    step: FileStep,
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result>;
}

/**
 * Returns the error as the caller of `dispose` may see it. An error of the step `connect` or
 * `sign_in` says that the source is untouched. So it has another step if an earlier connection of
 * the same call may have changed the source.
 */
export function afterProgress(error: FileError, { begun }: DisposeProgress): FileError {
  if (!begun || !error.ofServer) return error;
  return new FileError('connection_failed', 'commit', error.message);
}

/** Does what `dispose` of the port says. Throws FileError. */
export async function disposeOn<Connection>(
  pool: Connections<Connection>,
  sourcesOn: (connection: Connection) => Sources,
  fileError: (error: unknown, step: 'commit', path: string) => FileError,
  path: string,
  options: DisposeOptions,
): Promise<Disposed> {
  const progress = { begun: false };
  let failure: unknown;
  try {
    return await pool.use(options.signal, 'commit', async (connection) => {
      // Another connection would need another private name: that is for the next call.
      if (progress.begun) throw failure;
      return disposeByName(sourcesOn(connection), path, options, progress).catch((error) => {
        failure = error;
        throw error;
      });
    });
  } catch (error) {
    throw afterProgress(fileError(error, 'commit', path), progress);
  }
}

/** Does what `restoreSource` of the port says. Throws FileError. */
export async function restoreOn<Connection>(
  pool: Connections<Connection>,
  sourcesOn: (connection: Connection) => Sources,
  fileError: (error: unknown, step: 'commit', path: string) => FileError,
  path: string,
  { transferId, tried, signal }: RestoreOptions,
): Promise<boolean> {
  try {
    return await pool.use(signal, 'commit', async (connection) => {
      const sources = sourcesOn(connection);
      let restored = false;
      for (const held of heldPaths(path, transferId, tried).reverse()) {
        if (!(await sources.typeOf(held))) continue;
        await giveBack(sources, held, path, transferId);
        restored = true;
      }
      return restored || (await sources.typeOf(path)) !== null;
    });
  } catch (error) {
    throw fileError(error, 'commit', path);
  }
}

/**
 * Returns a private name that has the file, or one that has another file, the latest one first.
 * Null if none has one.
 */
async function findHeld(
  sources: Sources,
  path: string,
  { transferId, tried, identity }: DisposeOptions,
): Promise<string | null> {
  let other: string | null = null;
  for (const held of heldPaths(path, transferId, tried).reverse()) {
    if (!(await sources.typeOf(held))) continue;
    const found = await sources.identityOf(held);
    if (found && isSame(found, identity)) return held;
    other ??= held;
  }
  return other;
}

/** Throws FileError, or the server's refusal. */
async function disposeByName(
  sources: Sources,
  path: string,
  options: DisposeOptions,
  progress: DisposeProgress,
): Promise<Disposed> {
  const { transferId, tried, identity } = options;
  let held = await findHeld(sources, path, options);
  if (held === null) {
    const found = await sources.identityOf(path);
    if (found === null) return gone(sources, path, options);
    if (!isSame(found, identity)) return { outcome: 'changed', found };
    progress.begun = true;
    held = heldPath(path, transferId, tried);
    await sources.rename(path, held);
  }
  progress.begun = true;
  try {
    const found = await sources.identityOf(held);
    if (found === null) throw unclear(path);
    if (!isSame(found, identity)) {
      await giveBack(sources, held, path, transferId);
      return { outcome: 'changed', found };
    }
    return await take(sources, held, path, options);
  } catch (error) {
    if (sources.isRefusal(error) || error instanceof FileError)
      await giveBack(sources, held, path, transferId).catch(() => undefined);
    throw error;
  }
}

/** Creates the error after which the caller repeats the call, and knows that one has begun. */
export function unclear(path: string): FileError {
  const message = `${path}: it is gone, and the answer of the server was lost`;
  return new FileError('connection_failed', 'commit', message);
}

async function take(
  sources: Sources,
  held: string,
  path: string,
  { transferId, moveTo }: DisposeOptions,
): Promise<Disposed> {
  if (moveTo === null) {
    await sources.remove(held);
    return { outcome: 'deleted' };
  }
  for (const name of namesIn(path, transferId)) {
    const target = join(moveTo, name);
    // Many servers replace an existing file, even those that must not. So check first.
    if (await sources.typeOf(target)) continue;
    const refusal = await refusalOf(sources, sources.rename(held, target));
    if (refusal === null) return { outcome: 'moved', name };
    if (await sources.typeOf(target)) continue;
    await sources.makeFolder(join(moveTo, '.'));
    await sources.rename(held, target);
    return { outcome: 'moved', name };
  }
  throw new FileError('destination_exists', 'commit', `${moveTo} has files of these names already`);
}

/** Returns the names for a file in the folder that it moves to, the first that is free counts. */
export function namesIn(path: string, transferId: string): [string, string] {
  const name = basename(path);
  return [name, nameWithId(name, transferId)];
}

async function gone(
  sources: Sources,
  path: string,
  { transferId, identity, moveTo }: DisposeOptions,
): Promise<Disposed> {
  let movedAs: string | null = null;
  if (moveTo !== null)
    for (const name of namesIn(path, transferId)) {
      const found = await sources.identityOf(join(moveTo, name));
      if (found?.size === identity.size) movedAs = name;
    }
  return { outcome: 'gone', movedAs };
}

/**
 * Gives a file its name back. If a newer file has the name, the older one stays beside it: it may
 * be one that was never copied. So it replaces nothing there either.
 */
async function giveBack(
  sources: Sources,
  held: string,
  path: string,
  transferId: string,
): Promise<void> {
  if (!(await sources.typeOf(path))) {
    const refusal = await refusalOf(sources, sources.rename(held, path));
    if (refusal === null) return;
    if (!(await sources.typeOf(path))) throw refusal;
  }
  const beside = (id: string) => join(path, '..', nameWithId(basename(path), id));
  let target = beside(transferId);
  for (let n = 2; await sources.typeOf(target); n++) target = beside(`${transferId}-${n}`);
  await sources.rename(held, target);
}
