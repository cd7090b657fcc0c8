import { basename, dirname, join } from 'node:path/posix';
import { type Names, refusalOf } from './names.ts';
import { asidePath, isAsideOf, isPartOf, type PartState } from './part-name.ts';
import type { Leftovers, OpenDestination } from './port.ts';

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

/**
 * Removes the parts of all claims of a transfer: those that are listed, and those that the resume
 * point names. Before that, settles the files that the claims set aside: a part that is left shows
 * that none was published. If the listing is refused, does so with the names of the resume point.
 * Throws a refusal that may pass. Stops when the signal aborts: a claim that has ended must not
 * remove the part of its successor.
 *
 * The server can carry out a late request of a stale claim, after its successor has removed parts.
 * So a file that a claim before the one of the resume point set aside gets its name back, even if no
 * part is left. If the transfer has completed, a file set aside under no other name may be the
 * delivered one. One of another size is the older file.
 */
export async function removeParts(
  names: Names,
  path: string,
  { transferId, resume, completed, repeated, size, signal }: Leftovers,
): Promise<void> {
  const { listed, refusal } = await tryListing(names, path, transferId, signal);
  const recorded = resume && (resume.state as PartState).part;
  const found = new Set(recorded ? [recorded, asidePath(recorded), ...listed] : listed);

  /** Returns whether a claim set a file aside after its successor had settled what it left. */
  const isLate = (aside: string) => recorded !== null && basename(aside) !== asidePath(recorded);

  /** Returns whether a file set aside must not get its name back. */
  async function isOlder(aside: string): Promise<boolean> {
    if (!completed)
      return !repeated && !isLate(aside) && isReplaced(listed, aside, path, transferId);
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
