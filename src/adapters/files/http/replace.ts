/*
 * How a small object replaces another one. One request stores it, and a server may carry that out
 * late: after its connection broke or its mover froze, and another try has stored a newer file. So
 * each request names the version that it may replace:
 *
 * - At first none, which costs nothing for a new name.
 * - If the name is taken, the commit looks at what has it, and returns null. The caller makes sure
 *   that its claim is still held, and commits again. No successor has written that version then.
 * - If the name of the file before was taken, this one is looked at when it is opened, while its
 *   source is read. `looked` resolves before the mover saves its record, which proves its claim.
 *
 * A request that is late cannot tell whether a newer file was there and is gone, because a consumer
 * has taken it.
 */
import { type CommitProof, FileError } from '../port.ts';

/**
 * The version that a request may replace. Null allows none. Undefined allows any, because the server
 * does not tell versions.
 */
export type Replaceable = string | null | undefined;

/** Whether the last name that an endpoint wrote was taken. The next one often is, too. */
export interface LastName {
  taken: boolean;
}

/** More writers than that do not meet by accident. */
const MOST_LOOKS = 30;
/**
 * So often a server may refuse a name that has no object. A consumer may take an object between a
 * request and its look. Ceph refuses the name of a delete marker in a bucket that has suspended
 * versioning, however often it is asked.
 */
const MOST_EMPTY_LOOKS = 1;

export interface ReplaceRequests {
  /** Stores the object if its name has this version. */
  put(content: Buffer, md5: Buffer, version: Replaceable): Promise<CommitProof>;
  /** Returns whether `put` failed because the name has another version. */
  isUnmet(error: unknown, version: string | null): boolean | Promise<boolean>;
  /** Returns what the name has. `refused` is the version that the server has refused to replace. */
  look(refused: string | null): Promise<Replaceable>;
}

export interface Replace {
  /** Resolves when it is known what the first `put` replaces. Never rejects. */
  looked: Promise<void>;
  /** Returns null if the caller must call it again: see `commit` of the port. */
  put(content: Buffer, md5: Buffer): Promise<CommitProof | null>;
}

/** Without `overwrite`, nothing is replaced: the first `put` decides. */
export function beginReplace(
  name: string,
  { overwrite, last }: { overwrite: boolean; last: LastName },
  { put, isUnmet, look }: ReplaceRequests,
): Replace {
  let version: Replaceable = null;
  let looks = 0;
  let emptyLooks = 0;

  async function lookNow(): Promise<Replaceable> {
    const found = await look(version ?? null);
    last.taken = typeof found === 'string';
    return found;
  }

  async function lookAhead(): Promise<void> {
    version = (await lookNow().catch(() => null)) ?? null;
  }

  return {
    looked: overwrite && last.taken ? lookAhead() : Promise.resolve(),
    async put(content, md5) {
      try {
        return await put(content, md5, version);
      } catch (error) {
        if (!overwrite || version === undefined || !(await isUnmet(error, version))) throw error;
        if (++looks > MOST_LOOKS)
          throw new FileError('connection_failed', 'commit', `${name}: others keep replacing it`);
        const refused = version;
        version = await lookNow();
        if (refused === null && version === null && ++emptyLooks > MOST_EMPTY_LOOKS)
          version = undefined;
        return null;
      }
    },
  };
}
