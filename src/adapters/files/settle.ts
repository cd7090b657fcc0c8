import { basename, dirname, join } from 'node:path/posix';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import { type Names, refusalOf } from './names.ts';
import { asideOf, isAsideOf, isPartOf, type PartState } from './part-name.ts';
import { FileError, type Leftovers, type OpenDestination } from './port.ts';

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
export async function giveBack(names: Names, aside: string, path: string): Promise<void> {
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

/** What `removeParts` needs of a server besides its names. */
export interface Parts extends Names {
  /** Returns the SHA-256 of a file of that many bytes. Throws FileError or the refusal. */
  sha256Of(path: string, size: number): Promise<string>;
}

/**
 * Removes the parts of all claims of a transfer: those that are listed, and those that the resume
 * point names. Before that, settles the files that the claims set aside: a part that is left shows
 * that none was published. If the listing is refused, does so with the names of the resume point.
 * Throws a refusal that may pass. Stops when the signal aborts: a claim that has ended must not
 * remove the part of its successor.
 *
 * The server can carry out a request late: after its connection was given up, its successor has
 * published the file, and other transfers have replaced it. So a file set aside by an opening
 * before the one of the resume point gets its name back, whatever it is, even if no part is left.
 * The same holds for each file that a repeated clean-up finds. The opening of the resume point is
 * the last one. If the transfer has completed, it has set the older file aside, and may not have
 * removed it. Only a file of the size and the SHA-256 of the delivered one gets its name back then.
 */
export async function removeParts(
  names: Parts,
  path: string,
  { transferId, resume, completed, repeated, size, sha256, signal }: Leftovers,
): Promise<void> {
  const { listed, refusal } = await tryListing(names, path, transferId, signal);
  const state = resume && (resume.state as PartState);
  const found = new Set(state ? [state.part, asideOf(state), ...listed] : listed);

  /** Returns whether a file may have been set aside after its opening was settled. */
  const isLate = (aside: string) =>
    repeated === true || (state !== null && basename(aside) !== asideOf(state));

  /** Returns whether a file set aside must not get its name back. */
  async function isOlder(aside: string): Promise<boolean> {
    if (isLate(aside)) return false;
    if (!completed) return isReplaced(listed, aside, path, transferId);
    const held = await names.sizeOf(aside);
    if (typeof size !== 'number' || held === null) return false;
    if (held !== size) return true;
    return typeof sha256 === 'string' && (await differs(aside, size, sha256));
  }

  /** Returns false if that is unknown, because the account may not read. */
  async function differs(aside: string, held: number, delivered: string): Promise<boolean> {
    // `giveBack` removes it then, whatever it is.
    if (await names.typeOf(path)) return false;
    try {
      return (await names.sha256Of(aside, held)) !== delivered;
    } catch (error) {
      signal.throwIfAborted();
      const refused = error instanceof FileError && !isNetworkFailure(error.code);
      if (refused || names.isRefusal(error)) return false;
      throw error;
    }
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
