import { basename, dirname, join } from 'node:path/posix';

const MAX_NAME_BYTES = 150;

/** What stands in a resume point of a protocol with part files: the part's name, in the folder of the destination. */
export interface PartState {
  part: string;
}

/** Where a claim writes before the commit: hidden, beside the destination, unlike for every claim. */
export function partPath(path: string, transferId: string, claimId: string): string {
  return join(dirname(path), `${prefix(path, transferId)}${claimId}.part`);
}

/** Whether a name in the destination's folder is a part of any claim of the transfer. */
export function isPartOf(name: string, path: string, transferId: string): boolean {
  return name.startsWith(prefix(path, transferId)) && name.endsWith('.part');
}

/** Where the older file waits while a part takes its name, on a server that does not rename over a file. */
export function asidePath(part: string): string {
  return part.replace(/part$/, 'old');
}

/** Whether a name in the destination's folder is an older file that a claim of the transfer has set aside. */
export function isAsideOf(name: string, path: string, transferId: string): boolean {
  return name.startsWith(prefix(path, transferId)) && name.endsWith('.old');
}

function prefix(path: string, transferId: string): string {
  return `.${cut(basename(path))}.${transferId}.`;
}

/** At most 150 bytes of a name, not cut within a character: ids and dots come to it, and 255 is the common limit. */
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
