import { basename, dirname, join, parse } from 'node:path/posix';
import type { OpenDestination } from './port.ts';

const MAX_NAME_BYTES = 150;
const MAX_ENDING_BYTES = 50;

/**
 * The state in a resume point of a protocol with part files: the part's name, in the folder of the
 * destination.
 */
export interface PartState {
  part: string;
  /**
   * The name under which the opening sets an older file aside. A record of an older version lacks
   * it: see `asideOf`.
   */
  aside?: string;
}

/** The use of a destination by a claim: see `OpenDestination`. */
type Opening = Pick<OpenDestination, 'transferId' | 'claimId' | 'opening'>;

/**
 * Returns the path that a claim writes to before the commit: a hidden file beside the destination,
 * different for each claim, and for each `opening` of the destination by it.
 */
export function partPath(path: string, transferId: string, claimId: string, opening = 1): string {
  return join(dirname(path), `${ofOpening(path, transferId, claimId, opening)}.part`);
}

function ofOpening(path: string, transferId: string, claimId: string, opening: number): string {
  const writer = opening === 1 ? claimId : `${claimId}-${opening}`;
  return `${prefix(path, transferId)}${writer}`;
}

/**
 * Returns the path under which an opening takes over a part. A part of its own claim keeps its name.
 * That of another claim gets the name of the first opening: an opening that broke off may have
 * renamed it already.
 */
export function takenOverPath(
  path: string,
  theirs: string,
  { transferId, claimId }: { transferId: string; claimId: string },
): string {
  const isOwn = basename(theirs).startsWith(`${prefix(path, transferId)}${claimId}`);
  return isOwn ? theirs : partPath(path, transferId, claimId);
}

/** Returns the path that a part would have if it were beside another file. */
export function partBeside(path: string, transferId: string, part: string): string {
  const [, writer] = part.split(`.${transferId}.`);
  return join(dirname(path), `${prefix(path, transferId)}${writer}`);
}

/**
 * Returns whether a name in the destination's folder is a part file of any claim of the transfer.
 */
export function isPartOf(name: string, path: string, transferId: string): boolean {
  return name.startsWith(prefix(path, transferId)) && name.endsWith('.part');
}

/**
 * Returns the path of the older file while a part takes its name, on a server that can't rename
 * over a file. It is different for each opening. So a rename of an older connection, which the
 * server carries out late, hides no file under the name that a newer opening removes.
 */
export function asidePath(path: string, { transferId, claimId, opening = 1 }: Opening): string {
  return join(dirname(path), `${ofOpening(path, transferId, claimId, opening)}.old`);
}

/** Returns the name under which the opening of a resume point has set an older file aside. */
export function asideOf({ part, aside }: PartState): string {
  return aside ?? part.replace(/part$/, 'old');
}

/**
 * Returns whether a name in the destination's folder is an older file that a claim of the transfer
 * set aside.
 */
export function isAsideOf(name: string, path: string, transferId: string): boolean {
  return name.startsWith(prefix(path, transferId)) && name.endsWith('.old');
}

/**
 * Returns the path of a source while it is compared with the file that was copied: nothing can
 * replace it there. It is different for each try. So a rename of an earlier try, which the server
 * carries out late, hides no newer file under the name that a later try deletes.
 */
export function heldPath(path: string, transferId: string, tried = 1): string {
  const name = tried === 1 ? 'source' : `source-${tried}`;
  return join(dirname(path), `${prefix(path, transferId)}${name}.held`);
}

/** Returns the paths that the tries of a source up to `tried` have used, in their order. */
export function heldPaths(path: string, transferId: string, tried = 1): string[] {
  return Array.from({ length: tried }, (_, i) => heldPath(path, transferId, i + 1));
}

/**
 * Returns a name with the id of a transfer, for one that is taken: `report.txr_....csv`. A long
 * text after the last dot is no ending that a program looks at.
 */
export function nameWithId(name: string, transferId: string): string {
  const { name: stem, ext } = parse(name);
  if (Buffer.byteLength(ext) > MAX_ENDING_BYTES) return `${cut(name)}.${transferId}`;
  return `${cut(stem)}.${transferId}${ext}`;
}

/** Returns whether a name is one that an unfinished transfer uses for a while. */
export function isOfTransfer(name: string): boolean {
  return /^\..*\.txr_[0-9A-Z]{26}\..*\.(part|old|held)$/.test(name);
}

function prefix(path: string, transferId: string): string {
  return `.${cut(basename(path))}.${transferId}.`;
}

/**
 * Returns at most 150 bytes of a name, without splitting a character. Ids and dots are added, and
 * most file systems limit a name to 255 bytes.
 */
function cut(name: string): string {
  let bytes = 0;
  let kept = '';
  for (const character of name) {
    bytes += Buffer.byteLength(character);
    if (bytes > MAX_NAME_BYTES) break;
    kept += character;
  }
  return kept;
}
