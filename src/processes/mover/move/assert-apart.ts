import { basename } from 'node:path/posix';
import type { DestinationFile } from '../../../adapters/files/port.ts';
import { AttemptError, onSide } from '../failure.ts';
import type { Move } from './move-state.ts';

/**
 * Throws AttemptError `destination_is_source` if the destination is the source itself, and the
 * source is removed after the transfer: that would delete the only copy. Two paths can lead to one
 * file by links, by mounts, or by two endpoints of one server. The part then is beside the source
 * too. Its name is that of the file with the ids, so the server compares the names, by its own
 * rules for letter case. The part has only the start of a long name, and names that differ in more
 * than that are of two files.
 *
 * Call it before the commit, so that nothing is replaced.
 */
export async function assertApart(
  { transferId, source, destination, removesSource, signal }: Move,
  file: DestinationFile,
): Promise<void> {
  if (!removesSource || !source.endpoint.hasPart) return;
  if (alike(source.path) !== alike(destination.path)) return;
  const part = await onSide('destination', () => file.showPart());
  if (part === null) return;
  const options = { transferId, part, signal };
  const isOne = await onSide('source', async () => source.endpoint.hasPart?.(source.path, options));
  if (!isOne) return;
  const message =
    `${destination.path} is the source itself: what is written beside it appears beside ` +
    `${source.path} too. \`after\` would remove the only copy`;
  throw new AttemptError({ code: 'destination_is_source', message, phase: 'verify' });
}

/** Returns a text that is the same for all names that a server may take for one. */
function alike(path: string): string {
  return basename(path).normalize('NFKC').toUpperCase().toLowerCase();
}
