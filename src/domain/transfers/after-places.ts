import { fieldError } from '../errors.ts';
import { encodePath, parseTransferUri } from '../uri.ts';
import type { After, MoveSource } from './after.ts';

/** Returns the URI of the marker of a destination. */
export function markerOf(destination: string, { destination_marker }: After): string | null {
  return destination_marker === null ? null : destination + destination_marker;
}

/** Returns the URI of a file in the folder that the source moves to. `name` is not encoded. */
export function movedTo(source: string, { move_to }: MoveSource, name: string): string {
  return source.slice(0, source.lastIndexOf('/') + 1) + encodePath(move_to + name);
}

/** Throws `validation_failed` if a step would write to the source or to the destination. */
export function assertApart(
  { source, destination, file_name }: { source: string; destination: string; file_name: string },
  after: After,
  isSame: (uri: string, other: string) => boolean,
): void {
  const marker = markerOf(destination, after);
  if (marker !== null && isSame(marker, source))
    throw fieldError('after.destination_marker', 'must not make the name of the source');
  if (typeof after.source === 'string') return;
  const target = movedTo(source, after.source, file_name);
  parseTransferUri(target, 'after.source.move_to');
  if (isSame(target, destination) || (marker !== null && isSame(target, marker)))
    throw fieldError(
      'after.source.move_to',
      'must not be the folder of the destination: the source would take its place',
    );
}
