import type { Context } from '../context.ts';
import type { Place, Places } from './places.ts';

/** What the steps after transfers have left or removed, by the keys of files. */
export interface FilesAfter {
  /** Markers and moved sources. */
  written: Map<string, { id: string; place: Place; content: { size: number; sha256: string } }>;
  /** Deleted and moved sources whose names were not used again. */
  removed: Map<string, { id: string; place: Place }>;
}

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

export function filesAfter(
  { evidence, log }: Context,
  places: Places,
  keyFor: (place: Place) => string,
): FilesAfter {
  const found: FilesAfter = { written: new Map(), removed: new Map() };
  const rewritten = new Set(
    evidence.versions.map(({ endpoint, path }) => keyFor(places.ofPath(endpoint, path))),
  );
  for (const [id, { state }] of log.transfers) {
    const { facts, after, checksum_sha256 } = state;
    const { marker, source } = after ?? {};
    if (marker?.type === 'transfer.marker_written') {
      const place = places.ofUri(String(marker.data.marker), facts.destination_endpoint_id);
      const content = { size: 0, sha256: EMPTY_SHA256 };
      found.written.set(keyFor(place), { id, place, content });
    }
    if (!source || source.type === 'transfer.source_kept') continue;
    if (source.type === 'transfer.source_moved') {
      const place = places.ofUri(String(source.data.moved_to), facts.source_endpoint_id);
      const content = { size: Number(facts.size_bytes), sha256: String(checksum_sha256) };
      found.written.set(keyFor(place), { id, place, content });
    }
    const place = places.ofUri(facts.source, facts.source_endpoint_id);
    if (!rewritten.has(keyFor(place))) found.removed.set(keyFor(place), { id, place });
  }
  return found;
}
