import type { LogContents, TransferStory } from '../log/contents.ts';
import type { Place, Places } from './places.ts';

/** A transfer that completed to a name. */
export interface Completion {
  id: string;
  size: number;
  sha256: string;
  /** Start of the last attempt: it committed at some time after that. */
  startedAt: string;
  completedAt: string;
  position: bigint;
  endpointId: string;
  /** It found its file in place, written by an earlier attempt. */
  foundInPlace: boolean;
}

/** Groups transfers by their destination name. `keyFor` returns one key for one file. */
export interface Destinations {
  completed: Map<string, Completion[]>;
  /** Transfers that did not complete. */
  unfinished: Map<string, { id: string; story: TransferStory }[]>;
  places: Map<string, Place>;
}

export function destinationsOf(
  { transfers }: LogContents,
  places: Places,
  keyFor: (place: Place) => string,
): Destinations {
  const found: Destinations = { completed: new Map(), unfinished: new Map(), places: new Map() };
  for (const [id, story] of transfers) {
    const { facts, status } = story.state;
    const place = places.ofUri(facts.destination, facts.destination_endpoint_id);
    const key = keyFor(place);
    found.places.set(key, place);
    if (status === 'completed') push(found.completed, key, completionOf(id, story));
    else push(found.unfinished, key, { id, story });
  }
  return found;
}

function completionOf(
  id: string,
  { state, startedAt, lastAt, ended, position }: TransferStory,
): Completion {
  const { facts, checksum_sha256, verification } = state;
  return {
    id,
    size: facts.size_bytes ?? -1,
    sha256: String(checksum_sha256),
    startedAt: startedAt ?? lastAt,
    completedAt: ended?.at ?? lastAt,
    position: ended?.position ?? position,
    endpointId: facts.destination_endpoint_id,
    foundInPlace: (verification as { read_back?: boolean } | undefined)?.read_back === true,
  };
}

/**
 * Returns the transfers whose file may be there now: the last to complete, and each that may have
 * committed after it.
 */
export function possibleWinners(completions: Completion[]): Completion[] {
  const last = completions.reduce((a, b) => (a.position > b.position ? a : b));
  return completions.filter(
    (completion) => completion === last || completion.completedAt >= last.startedAt,
  );
}

/**
 * Returns pairs in which the second replaced the first although its endpoint does not overwrite.
 */
export function forbiddenReplacements(
  completions: Completion[],
  mayOverwrite: (endpointId: string) => boolean,
): [Completion, Completion][] {
  return completions
    .filter(({ endpointId, foundInPlace }) => !mayOverwrite(endpointId) && !foundInPlace)
    .flatMap((second) => {
      const first = completions.find(
        (other) => other !== second && other.completedAt < second.startedAt,
      );
      return first ? [[first, second] as [Completion, Completion]] : [];
    });
}

function push<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
}
