import { setTimeout as sleep } from 'node:timers/promises';
import { type Names, refusalOf } from './names.ts';
import { FileError, type FileStep } from './port.ts';
import { giveBack } from './settle.ts';

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

export interface Publication {
  part: string;
  /** Where an older file waits until the part has its name. */
  aside: string;
  path: string;
  overwrite: boolean;
}

/**
 * Gives a finished part its name.
 *
 * If the server can't rename over a file, the older file waits as `aside` until the part has its
 * name. No earlier connection has used `aside`. The older file goes back if the part does not get
 * the name. One of the two is whole at any moment. `atomicReplace` is then false, because no file
 * had the name for a moment.
 *
 * Another transfer may publish under the name meanwhile; then the publication starts over. `settle`
 * repairs what a crash in between leaves. Throws FileError `destination_exists`, `timeout`, or
 * `connection_failed` if the part is gone, or the server's refusal; then everything is as before.
 */
export async function publish(
  names: Names,
  { part, aside, path, overwrite }: Publication,
): Promise<{ atomicReplace: boolean }> {
  const exists = (why: string) =>
    new FileError('destination_exists', 'commit', `${path} exists ${why}`);
  const renameOver = overwrite ? names.renameOver : null;
  // Most servers replace an existing file, even those that must not. So check first.
  if (!overwrite && (await names.typeOf(path))) throw exists('and the endpoint does not overwrite');
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
