import { dirname, join } from 'node:path/posix';
import { asidePath, isAsideOf, isPartOf, type PartState } from './part-name.ts';
import type { Leftovers } from './port.ts';

/** What a server does with names. Each fails with what it answered. */
export interface Names {
  exists(path: string): Promise<boolean>;
  rename(from: string, to: string): Promise<void>;
  /** Resolves also where there is none. */
  remove(path: string): Promise<void>;
}

/**
 * Gives a part the name of an older file, on a server that does not rename over one. The older one is set aside until the
 * part has its name, and goes back where it does not get it: one of the two is whole at any moment. Whoever is
 * ended in between leaves the rest to `settle`. Fails with what the server refused; all is then as before.
 */
export async function replace(names: Names, part: string, path: string): Promise<void> {
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
  if (!(await names.exists(aside))) return;
  if (await names.exists(path)) await names.remove(aside);
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
