import { basename, dirname, join } from 'node:path/posix';
import { setTimeout as sleep } from 'node:timers/promises';
import { asidePath, isAsideOf, isPartOf, type PartState } from './part-name.ts';
import { FileError, type FileStep, type Leftovers, type OpenDestination } from './port.ts';

/** The operations of a server on names. Each one fails with the server's answer. */
export interface Names {
  /** Returns null if nothing has the name, or if the server does not say. */
  typeOf(path: string): Promise<'file' | 'directory' | null>;
  /** Returns the bytes of a file. Null if there is none, or if the server does not say. */
  sizeOf(path: string): Promise<number | null>;
  /**
   * Returns the names in a folder that have the marker in them. The folder may have any number of
   * others. None if the account may not list it. Throws any other refusal, or the signal's reason.
   */
  list(folder: string, marker: string, signal: AbortSignal): Promise<string[]>;
  /** May replace a file or fail: servers differ. */
  rename(from: string, to: string): Promise<void>;
  /** Always replaces a file; null if the server has no such operation. */
  renameOver: ((from: string, to: string) => Promise<void>) | null;
  /** Also resolves if there is no such file. */
  remove(path: string): Promise<void>;
  /** Returns whether an error is the server's answer, so that the connection is still usable. */
  isRefusal(error: unknown): boolean;
}

/**
 * How many times longer than for other requests a server may take for those of the commit of a big
 * file. It may have to write gigabytes to its disk, and servers in front of object stores copy the
 * file that they rename.
 */
export const STALLS_TO_COMMIT = 5;

/** Refusals in a row, without a change in between, after which a refusal is final. */
const REFUSALS = 10;
const PAUSE_MS = 100;
/** How long a publication continues while other transfers replace the same file. */
const CONTENDED_MS = 60_000;

/**
 * Gives a finished part its name.
 *
 * If the server can't rename over a file, the older file is set aside until the part has its name.
 * It goes back if the part does not get the name. One of the two is whole at any moment.
 * `atomicReplace` is then false, because no file had the name for a moment.
 *
 * Another transfer may publish under the name meanwhile; then the publication starts over. `settle`
 * repairs what a crash in between leaves. Throws FileError `destination_exists`, `timeout`, or
 * `connection_failed` if the part is gone, or the server's refusal; then everything is as before.
 */
export async function publish(
  names: Names,
  part: string,
  path: string,
  overwrite: boolean,
): Promise<{ atomicReplace: boolean }> {
  const exists = (why: string) =>
    new FileError('destination_exists', 'commit', `${path} exists ${why}`);
  const renameOver = overwrite ? names.renameOver : null;
  // Most servers replace an existing file, even those that must not. So check first.
  if (!overwrite && (await names.typeOf(path))) throw exists('and the endpoint does not overwrite');
  const aside = asidePath(part);
  const contention = createContention(path);
  let isAside = false;
  let atomicReplace = true;
  try {
    for (;;) {
      const refusal = await refusalOf(names, (renameOver ?? names.rename)(part, path));
      if (refusal === null) break;
      const there = await names.typeOf(path);
      if (there && !overwrite) throw exists('and the endpoint does not overwrite');
      if (there === 'directory') throw isAFolder(path, 'commit');
      // A successor may have taken the part over and published it: the file is then not an older
      // one. If that happens just after this check, the next refusal puts the file back.
      await assertPart(names, part, 'commit', refusal);
      if (renameOver) throw refusal;
      if (there === null) {
        await contention.wait(refusal);
        continue;
      }
      // Another transfer has published since, so the file set aside is older than that.
      if (isAside) await names.remove(aside);
      isAside = false;
      const kept = await refusalOf(names, names.rename(path, aside));
      isAside = kept === null;
      if (isAside) atomicReplace = false;
      if (isAside || (await names.typeOf(path)) === null) contention.changed();
      if (kept !== null) await contention.wait(kept);
    }
  } catch (error) {
    // The part may be gone: see `assertPart`. This claim does not know what it has set aside then,
    // an older file or the one of a successor.
    if (isAside) await giveBack(names, aside, path).catch(() => undefined);
    throw error;
  }
  if (isAside) await removeAside(names, aside, part, path);
  return { atomicReplace };
}

/** Creates the error for a destination whose name a folder has. */
export function isAFolder(path: string, step: FileStep): FileError {
  const advice = 'end the destination with a slash to copy the file into it';
  return new FileError('destination_exists', step, `${path} is a folder: ${advice}`);
}

/** Creates the error for a destination whose name a device, pipe or socket has. */
export function isNoFile(path: string): FileError {
  const message = `${path} is a device, pipe or socket: choose another name`;
  return new FileError('destination_exists', 'open', message);
}

/** Creates the error for a part that the server denies. It may deny only such names. */
export function partDenied(part: string, cause: Error): FileError {
  const said = cause.message.replace(/[\s.]+$/, '');
  const why = 'Waybill writes a file under such a hidden name until it is complete';
  return new FileError('permission_denied', 'open', `${part}: ${said}. ${why}`, { cause });
}

/**
 * Throws FileError `connection_failed` if the part is gone. The move then connects again and sends
 * the file again.
 */
async function assertPart(
  names: Names,
  part: string,
  step: FileStep,
  cause: unknown,
): Promise<void> {
  if (await names.typeOf(part)) return;
  const why =
    'another claim took it over, a program on the server removed it, or the server discarded it, ' +
    'as some do over a quota';
  const advice = 'Let programs ignore names that end in .part, and check the quota of the user';
  throw new FileError('connection_failed', step, `${part} is gone: ${why}. ${advice}`, { cause });
}

/** Returns the answer to a request about a part. A refusal has the error of `assertPart`. */
export async function onPart<Answer>(
  names: Names,
  part: string,
  step: FileStep,
  request: Promise<Answer>,
): Promise<Answer> {
  try {
    return await request;
  } catch (error) {
    if (names.isRefusal(error)) await assertPart(names, part, step, error);
    throw error;
  }
}

/**
 * Removes the file set aside. If that is denied, the publication is undone: an account that may
 * rename but not remove would leave such a file for each transfer. It cannot be undone if a consumer
 * has taken the newer file.
 */
async function removeAside(names: Names, aside: string, part: string, path: string): Promise<void> {
  const refusal = await refusalOf(names, names.remove(aside));
  if (refusal === null) return;
  const undone = await refusalOf(names, names.rename(path, part)).catch((error) => error);
  if (undone === null) await giveBack(names, aside, path).catch(() => undefined);
  throw refusal;
}

/**
 * Waits between the attempts to publish, for a random time, so that competing transfers do not stay
 * in step.
 */
function createContention(path: string) {
  const until = performance.now() + CONTENDED_MS;
  let refusals = 0;
  return {
    /** Records that another transfer works on the same name. */
    changed(): void {
      refusals = 0;
    },
    /** Throws the refusal if the server repeats it without a change in between. */
    async wait(refusal: unknown): Promise<void> {
      if (++refusals === REFUSALS) throw refusal;
      if (performance.now() > until)
        throw new FileError(
          'timeout',
          'commit',
          `${path}: other transfers have kept replacing it for ${CONTENDED_MS / 1000} s`,
          { cause: refusal },
        );
      await sleep(Math.random() * PAUSE_MS);
    },
  };
}

/** Returns the server's refusal; null if the operation succeeded. Throws any other error. */
export async function refusalOf(names: Names, work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return null;
  } catch (error) {
    if (names.isRefusal(error)) return error;
    throw error;
  }
}

/**
 * Completes a publication that broke off: gives the older file its name back, or removes it. Call it
 * after the part was taken over: a stale claim can then no longer publish it. `part` is its new name.
 *
 * The process or the connection may have ended between any two requests of `publish`:
 * - If a part of the transfer is left, it has not got its name. So the older file gets its own back,
 *   unless a newer one has it. The part may have the name of any claim: a successor renames it, and
 *   may end before the next resume point.
 * - If none is left, the part got its name: a clean-up settles before it removes parts. So the older
 *   file was replaced. Nothing under the name then means that a consumer has taken the newer file.
 * - If the listing fails, or hides such names, nothing is certain. A file that appears again is
 *   better than a lost one, so the older file goes back.
 */
export async function settle(
  names: Names,
  aside: string,
  part: string,
  path: string,
  { transferId, signal }: Pick<OpenDestination, 'transferId' | 'signal'>,
): Promise<void> {
  if (!(await names.typeOf(aside))) return;
  if (await names.typeOf(part)) return giveBack(names, aside, path);
  const { listed } = await tryListing(names, path, transferId, signal);
  if (isReplaced(listed, aside, path, transferId)) await names.remove(aside);
  else await giveBack(names, aside, path);
}

/** Gives an older file its name back. Removes it if another file has the name. */
async function giveBack(names: Names, aside: string, path: string): Promise<void> {
  if (!(await names.typeOf(path))) {
    const refusal = await refusalOf(names, names.rename(aside, path));
    if (refusal === null) return;
    // Another transfer may have published in between.
    if (!(await names.typeOf(path))) throw refusal;
  }
  await names.remove(aside);
}

/** Returns whether a listing shows a file that was set aside, and no part of the transfer. */
function isReplaced(listed: string[], aside: string, path: string, transferId: string): boolean {
  const hasPart = listed.some((name) => isPartOf(name, path, transferId));
  return !hasPart && listed.includes(basename(aside));
}

/** Lists the names of a transfer. Also returns the server's refusal to do so. */
async function tryListing(
  names: Names,
  path: string,
  transferId: string,
  signal: AbortSignal,
): Promise<{ listed: string[]; refusal: unknown }> {
  let listed: string[] = [];
  const listing = names.list(dirname(path), transferId, signal).then((found) => {
    listed = found;
  });
  const refusal = await refusalOf(names, listing);
  signal.throwIfAborted();
  return { listed, refusal };
}

/**
 * Removes the parts of all claims of a transfer: those that are listed, and those that the resume
 * point names. Before that, settles the files that the claims set aside: a part that is left shows
 * that none was published. If the listing is refused, does so with the names of the resume point.
 * Throws a refusal that may pass. Stops when the signal aborts: a claim that has ended must not
 * remove the part of its successor.
 *
 * If the transfer has completed, a file set aside under no other name may be the delivered one: the
 * server can carry out a late request of a stale claim. One of another size is the older file.
 */
export async function removeParts(
  names: Names,
  path: string,
  { transferId, resume, completed, repeated, size, signal }: Leftovers,
): Promise<void> {
  const { listed, refusal } = await tryListing(names, path, transferId, signal);
  const recorded = resume && (resume.state as PartState).part;
  const found = new Set(recorded ? [recorded, asidePath(recorded), ...listed] : listed);

  /** Returns whether a file set aside must not get its name back. */
  async function isOlder(aside: string): Promise<boolean> {
    if (!completed) return !repeated && isReplaced(listed, aside, path, transferId);
    const held = await names.sizeOf(aside);
    return typeof size === 'number' && held !== null && held !== size;
  }

  const at = (name: string) => join(dirname(path), name);
  for (const name of [...found].filter((other) => isAsideOf(other, path, transferId))) {
    signal.throwIfAborted();
    const aside = at(name);
    if (!(await names.typeOf(aside))) continue;
    if (await isOlder(aside)) await names.remove(aside);
    else await giveBack(names, aside, path);
  }
  for (const name of [...found].filter((other) => isPartOf(other, path, transferId))) {
    signal.throwIfAborted();
    await names.remove(at(name));
  }
  if (refusal !== null) throw refusal;
}
