import { createHash } from 'node:crypto';
import type { FaultRecord } from '../../evidence.ts';
import type { Context } from '../context.ts';
import type { CreateRecord } from '../evidence-files.ts';
import type { TransferStory } from '../log/contents.ts';
import type { Fields } from '../log/event.ts';
import type { Operation } from '../requests/operations.ts';
import { filesAfter } from './after.ts';
import { isKeptByCrash } from './kept-uploads.ts';
import { keyOf, type Place, type Places } from './places.ts';
import { openStorage, type Storage, type StoredFile } from './storage.ts';
import { destinationsOf, forbiddenReplacements, possibleWinners } from './winners.ts';

const READ_AT_ONCE = 8;
/** Names under which the service writes before the commit, and keeps an older file meanwhile. */
const LEFTOVER = /(^|\/)\.[^/]*txr_[0-9A-Z]{26}[^/]*\.(part|old|held)$/;
/**
 * S3 and Azure accept a file up to this size in one request, which a frozen mover may finish late.
 */
const ONE_REQUEST_BYTES = 8 << 20;

interface Content {
  size: number;
  sha256: string;
}

/**
 * Checks every file of every endpoint. The name of a completed transfer holds the whole content of
 * one that may have won. Other names hold nothing new. No part, no file set aside and no unfinished
 * upload is left.
 */
export async function checkFiles(
  context: Context,
  links: Map<string, Operation>,
  places: Places,
): Promise<void> {
  const { evidence, log, report } = context;
  const storages = new Map<string, Storage>();
  for (const record of evidence.run.endpoints) {
    const configured = [...log.endpoints.values()].find(
      ({ state }) => state.name === record.name,
    )?.state;
    const prefix = String(((configured?.settings ?? {}) as Fields).prefix ?? '').replace(
      /^\/+|\/+$/g,
      '',
    );
    storages.set(record.name, openStorage(record, prefix === '' ? '' : `${prefix}/`));
  }
  const keyFor = (place: Place) => fileKey(storages.get(place.endpoint), place);
  const { completed, unfinished, places: named } = destinationsOf(log, places, keyFor);
  const placed = new Map(
    evidence.placed.map((file) => [keyFor(places.ofPath(file.endpoint, file.path)), file]),
  );
  const after = filesAfter(context, places, keyFor);
  const sources = new Set(
    sourcesOf(evidence).map(({ endpoint, path }) => keyFor(places.ofPath(endpoint, path))),
  );
  const seen = new Set<string>();
  const startedAt = Date.parse(evidence.run.startedAt);
  const wrong = (check: string, place: Place, detail: string) =>
    report.finding(check, keyOf(place), detail);

  const looked = new Set<string>();
  for (const [endpoint, storage] of storages) {
    if (looked.has(storage.location)) continue;
    looked.add(storage.location);
    await each(storage.list(), (file) => checkFile(storage, { endpoint, path: file.path }, file));
    for (const upload of await storage.uploads()) {
      const place = { endpoint, path: upload.path };
      if (isKeptByCrash(upload, completed.get(keyFor(place)) ?? [], crashesOf(endpoint)))
        report.count('uploads_kept_by_crashes');
      else
        wrong(
          'files.leftover',
          place,
          `the multipart upload ${upload.id} is unfinished, with ${upload.bytes} bytes`,
        );
    }
    report.count('storages');
  }
  for (const [key, completions] of completed) {
    const place = named.get(key) as Place;
    if (!storages.has(place.endpoint))
      wrong('files.content', place, 'the run names no such endpoint');
    else if (!seen.has(key))
      wrong(
        'files.content',
        place,
        `nothing is there, and ${completions.map(({ id }) => id).join(', ')} completed to it`,
      );
    const mayOverwrite = (id: string) => log.endpoints.get(id)?.state.overwrite !== false;
    for (const [first, second] of forbiddenReplacements(completions, mayOverwrite)) {
      wrong(
        'files.overwrite',
        place,
        `${second.id} replaced the file of ${first.id}, and its endpoint does not overwrite`,
      );
    }
  }
  for (const [key, { endpoint, path }] of placed) {
    if (!seen.has(key))
      wrong('files.content', { endpoint, path }, 'the file that the run placed there is gone');
  }
  for (const [key, { place, id }] of after.written)
    if (!seen.has(key)) wrong('files.after', place, `nothing is there, and ${id} left it there`);
  for (const [key, { place, id }] of after.removed)
    if (seen.has(key)) wrong('files.after', place, `it is there, and ${id} removed it`);
  for (const storage of storages.values()) storage.close();
  report.expectSome('files.content', 'files', completed.size);

  function crashesOf(endpoint: string): FaultRecord[] {
    return evidence.faults.filter(
      ({ fault, target }) => fault === 'partner.restart' && target === endpoint,
    );
  }

  async function checkFile(storage: Storage, place: Place, file: StoredFile): Promise<void> {
    const key = keyFor(place);
    seen.add(key);
    report.count('names');
    if (LEFTOVER.test(file.path))
      return wrong(
        'files.leftover',
        place,
        `a part or a file set aside is left, ${file.size} bytes`,
      );
    const completions = completed.get(key);
    if (completions) {
      const actual = await contentOf(storage, file);
      const winners = possibleWinners(completions);
      const allowed = [...winners, ...lateWrites(place, key)];
      report.count('files');
      report.count('bytes', actual.size);
      if (allowed.some((content) => isSame(content, actual))) return;
      const loser = completions.find((completion) => isSame(completion, actual));
      const instead = winners
        .map(({ id, size, sha256 }) => `${id} (${size} bytes, ${sha256})`)
        .join(' or ');
      return wrong(
        'files.content',
        place,
        `${actual.size} bytes, ${actual.sha256}${loser ? ` of ${loser.id}` : ''}, in place ` +
          `of ${instead}`,
      );
    }
    const left = after.written.get(key);
    if (left) {
      report.count('files_after');
      const actual = await contentOf(storage, file);
      if (!isSame(left.content, actual))
        wrong(
          'files.after',
          place,
          `${actual.size} bytes, ${actual.sha256}: not as ${left.id} left it`,
        );
      return;
    }
    const mine = placed.get(key);
    if (mine) {
      report.count('placed_files');
      const actual = await contentOf(storage, file);
      if (!isSame(mine, actual))
        wrong(
          'files.content',
          place,
          `${actual.size} bytes, ${actual.sha256}: the run placed another file there`,
        );
      return;
    }
    if (sources.has(key) || file.changedAt < startedAt) return;
    const late = lateWrites(place, key);
    if (late.length > 0) {
      const actual = await contentOf(storage, file);
      if (late.some((content) => isSame(content, actual))) return;
    }
    const meant = (unfinished.get(key) ?? [])
      .map(({ id, story }) => `${id} is ${story.state.status}`)
      .join(', ');
    wrong(
      'files.unexpected',
      place,
      `${file.size} bytes are new there, and no transfer completed to it${meant && `: ${meant}`}`,
    );
  }

  /**
   * Returns the files that may be there although another transfer completed last. A mover that was
   * frozen within its one request may write late, as docs/architecture.md says. An abort that
   * arrives during the commit does not stop it.
   */
  function lateWrites({ endpoint }: Place, key: string): Content[] {
    const record = evidence.run.endpoints.find(({ name }) => name === endpoint);
    const ended = [...(completed.get(key) ?? []), ...(unfinished.get(key) ?? [])].map(
      ({ id }) => id,
    );
    const filesOf = (ids: string[]) =>
      ids.flatMap(
        (id) => links.get(id)?.requests.flatMap(({ file }) => (file ? [file] : [])) ?? [],
      );
    const aborted = filesOf(ended.filter((id) => wasAborted(log.transfers.get(id))));
    if (record?.kind === 'folder') return aborted;
    const lost = ended.filter((id) => (log.transfers.get(id)?.lost ?? 0) > 0);
    return [...aborted, ...filesOf(lost).filter(({ size }) => size <= ONE_REQUEST_BYTES)];
  }
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

/** Returns one key for one file, for every endpoint that reaches it. */
function fileKey(storage: Storage | undefined, { endpoint, path }: Place): string {
  return (storage?.location ?? `unknown ${endpoint}/`) + path;
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

function isSame(a: Content, b: Content): boolean {
  return a.size === b.size && a.sha256 === b.sha256;
}

async function contentOf(storage: Storage, file: StoredFile): Promise<Content> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const chunk of await storage.read(file)) {
    size += chunk.length;
    hash.update(chunk);
  }
  return { size, sha256: hash.digest('hex') };
}

async function each<T>(items: AsyncIterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const iterator = items[Symbol.asyncIterator]();
  const worker = async () => {
    for (let next = await iterator.next(); !next.done; next = await iterator.next())
      await work(next.value);
  };
  await Promise.all(Array.from({ length: READ_AT_ONCE }, worker));
}
