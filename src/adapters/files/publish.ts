import { dirname, join } from 'node:path/posix';
import { asidePath, isAsideOf, isPartOf, type PartState } from './part-name.ts';
import { FileError, type Leftovers } from './port.ts';

/** What a server does with names. Each fails with what it answered. */
export interface Names {
  /** null where there is nothing, or the server says nothing of it. */
  typeOf(path: string): Promise<'file' | 'directory' | null>;
  /** May replace a file, and may refuse to: servers differ. */
  rename(from: string, to: string): Promise<void>;
  /** Replaces a file for sure; null where the server knows no such thing. */
  renameOver: ((from: string, to: string) => Promise<void>) | null;
  /** Resolves also where there is none. */
  remove(path: string): Promise<void>;
  /** Whether an error is the server's answer, so that the connection is still of use. */
  isRefusal(error: unknown): boolean;
}

/**
 * Gives a finished part its name. `atomicReplace` is false where an older file had to be set aside first, so
 * that for a moment there was none. Throws FileError `destination_exists`, or what the server answered.
 */
export async function publish(names: Names, part: string, path: string, overwrite: boolean): Promise<{ atomicReplace: boolean }> {
  const exists = (why: string) => new FileError('destination_exists', 'commit', `${path} exists ${why}`);
  const renameOver = overwrite ? names.renameOver : null;
  // Most servers replace an existing file, also those that must not: so look first.
  if (!overwrite && (await names.typeOf(path))) throw exists('and the endpoint does not overwrite');
  try {
    await (renameOver ?? names.rename)(part, path);
    return { atomicReplace: true };
  } catch (error) {
    const there = names.isRefusal(error) ? await names.typeOf(path) : null;
    if (!there) throw error;
    if (!overwrite) throw exists('and the endpoint does not overwrite');
    if (there === 'directory') throw exists('and is a directory');
    if (renameOver) throw error;
    await replace(names, part, path);
    return { atomicReplace: false };
  }
}

/**
 * Gives a part the name of an older file, on a server that does not rename over one. The older one is set aside until the
 * part has its name, and goes back where it does not get it: one of the two is whole at any moment. Whoever is
 * ended in between leaves the rest to `settle`. Fails with what the server refused; all is then as before.
 */
async function replace(names: Names, part: string, path: string): Promise<void> {
  const aside = asidePath(part);
  await names.rename(path, aside);
  try {
    await names.rename(part, path);
    await names.remove(aside).catch(async (error) => {
      // Who may rename but not remove would leave one of these for every file.
      await names.rename(path, part).catch(() => undefined);
      throw error;
    });
  } catch (error) {
    await settle(names, aside, path).catch(() => undefined);
    throw error;
  }
}

/** Ends what broke off in `replace`: the older file gets its name back where nothing has it, and is removed where something has. */
export async function settle(names: Names, aside: string, path: string): Promise<void> {
  if (!(await names.typeOf(aside))) return;
  if (await names.typeOf(path)) await names.remove(aside);
  else await names.rename(aside, path);
}

/** Removes the parts of all claims of a transfer, as far as they are listed or were saved, and settles what they have set aside. */
export async function removeParts(names: Names, listed: string[], path: string, { transferId, resume }: Leftovers): Promise<void> {
  const found = new Set(listed);
  if (resume) {
    const { part } = resume.state as PartState;
    found.add(part).add(asidePath(part));
  }
  for (const name of found) {
    const place = join(dirname(path), name);
    if (isAsideOf(name, path, transferId)) await settle(names, place, path);
    else if (isPartOf(name, path, transferId)) await names.remove(place);
  }
}
