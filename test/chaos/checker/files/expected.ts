import type { PlacedFileRecord } from '../../evidence.ts';
import type { Context } from '../context.ts';
import type { CreateRecord } from '../evidence-files.ts';
import type { TransferStory } from '../log/contents.ts';
import type { Operation } from '../requests/operations.ts';
import { type FilesAfter, filesAfter } from './after.ts';
import type { Place, Places } from './places.ts';
import type { Storage } from './storage.ts';
import { type Destinations, destinationsOf } from './winners.ts';

/**
 * S3 and Azure accept a file up to this size in one request, which a frozen mover may finish late.
 */
const ONE_REQUEST_BYTES = 8 << 20;

export interface Content {
  size: number;
  sha256: string;
}

/** Which files may be where, by their keys. */
export interface ExpectedFiles extends Destinations {
  /** Returns one key for one file, for every endpoint that reaches it. */
  keyFor(place: Place): string;
  after: FilesAfter;
  /** Files that the runner placed itself. */
  placed: Map<string, PlacedFileRecord>;
  sources: Set<string>;
  /**
   * Returns the files that may be there although another transfer completed last. A mover that was
   * frozen within its one request may write late, as docs/architecture.md says. An abort that
   * arrives during the commit does not stop it.
   */
  lateWrites(place: Place, key: string): Content[];
}

/** `links`: the requests that created each transfer. */
export function expectedFiles(
  context: Context,
  links: Map<string, Operation>,
  places: Places,
  storages: Map<string, Storage>,
): ExpectedFiles {
  const { evidence, log } = context;
  const keyFor = ({ endpoint, path }: Place) =>
    (storages.get(endpoint)?.location ?? `unknown ${endpoint}/`) + path;
  const keyOfPath = ({ endpoint, path }: Place) => keyFor(places.ofPath(endpoint, path));
  const destinations = destinationsOf(log, places, keyFor);

  return {
    ...destinations,
    keyFor,
    after: filesAfter(context, places, keyFor),
    placed: new Map(evidence.placed.map((file) => [keyOfPath(file), file])),
    sources: new Set(sourcesOf(evidence).map(keyOfPath)),
    lateWrites({ endpoint }, key) {
      const { completed, unfinished } = destinations;
      const ended = [...(completed.get(key) ?? []), ...(unfinished.get(key) ?? [])];
      const ids = ended.map(({ id }) => id);
      const filesOf = (id: string) =>
        links.get(id)?.requests.flatMap(({ file }) => (file ? [file] : [])) ?? [];
      const aborted = ids.filter((id) => wasAborted(log.transfers.get(id))).flatMap(filesOf);
      const record = evidence.run.endpoints.find(({ name }) => name === endpoint);
      if (record?.kind === 'folder') return aborted;
      const lost = ids.filter((id) => (log.transfers.get(id)?.lost ?? 0) > 0).flatMap(filesOf);
      return [...aborted, ...lost.filter(({ size }) => size <= ONE_REQUEST_BYTES)];
    },
  };
}

/** Returns whether an operator aborted a transfer that had begun. */
function wasAborted(story: TransferStory | undefined): boolean {
  const error = story?.state.facts.error as { code?: string } | null | undefined;
  return (
    story?.startedAt != null &&
    story.state.status === 'failed' &&
    error?.code === 'aborted_by_operator'
  );
}

function sourcesOf({ requests, versions }: Context['evidence']): CreateRecord['source'][] {
  return [
    ...versions,
    ...requests.flatMap((request) => {
      if (request.kind === 'create') return request.file === null ? [] : [request.source];
      return request.kind === 'create_batch' ? request.files.map(({ source }) => source) : [];
    }),
  ];
}
