import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import type { Operation } from '../requests/operations.ts';
import { type Content, type ExpectedFiles, expectedFiles } from './expected.ts';
import { isKeptByCrash } from './kept-uploads.ts';
import { keyOf, type Place, type Places } from './places.ts';
import { openStorages, type Storage, type StoredFile } from './storage.ts';
import { forbiddenReplacements, possibleWinners } from './winners.ts';

const READ_AT_ONCE = 8;
/** Names under which the service writes before the commit, and keeps an older file meanwhile. */
const LEFTOVER = /(^|\/)\.[^/]*txr_[0-9A-Z]{26}[^/]*\.(part|old|held)$/;

/** What the steps of this check share. */
interface FilesCheck extends Context {
  /** By the names of their endpoints. */
  storages: Map<string, Storage>;
  expected: ExpectedFiles;
  /** The keys of the files that were found. */
  seen: Set<string>;
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
  const storages = openStorages(context);
  const expected = expectedFiles(context, links, places, storages);
  const check: FilesCheck = { ...context, storages, expected, seen: new Set() };
  for (const [endpoint, storage] of oneForEachLocation(storages)) {
    await each(storage.list(), (file) =>
      checkFile(check, storage, { endpoint, path: file.path }, file),
    );
    await checkUploads(check, endpoint, storage);
    context.report.count('storages');
  }
  checkCompleted(check);
  checkPlaced(check);
  checkAfter(check);
  for (const storage of storages.values()) storage.close();
  context.report.expectSome('files.content', 'files', expected.completed.size);
}

/** Two endpoints may reach the same files. */
function oneForEachLocation(storages: Map<string, Storage>): [string, Storage][] {
  const found = new Map<string, [string, Storage]>();
  for (const [endpoint, storage] of storages)
    if (!found.has(storage.location)) found.set(storage.location, [endpoint, storage]);
  return [...found.values()];
}

async function checkFile(
  check: FilesCheck,
  storage: Storage,
  place: Place,
  file: StoredFile,
): Promise<void> {
  const { expected, report } = check;
  const key = expected.keyFor(place);
  check.seen.add(key);
  report.count('names');
  if (LEFTOVER.test(file.path)) {
    const detail = `a part or a file set aside is left, ${file.size} bytes`;
    return wrong(check, 'files.leftover', place, detail);
  }
  const content = () => contentOf(storage, file);
  if (expected.completed.has(key)) return checkWinner(check, place, key, await content());
  const left = expected.after.written.get(key);
  if (left) {
    report.count('files_after');
    const detail = `not as ${left.id} left it`;
    return compare(check, 'files.after', place, left.content, await content(), detail);
  }
  const placed = expected.placed.get(key);
  if (placed) {
    report.count('placed_files');
    const detail = 'the run placed another file there';
    return compare(check, 'files.content', place, placed, await content(), detail);
  }
  if (expected.sources.has(key) || file.changedAt < Date.parse(check.evidence.run.startedAt))
    return;
  const late = expected.lateWrites(place, key);
  if (late.length > 0 && includes(late, await content())) return;
  const meant = (expected.unfinished.get(key) ?? [])
    .map(({ id, story }) => `${id} is ${story.state.status}`)
    .join(', ');
  const detail = `${file.size} bytes are new there, and no transfer completed to it`;
  wrong(check, 'files.unexpected', place, `${detail}${meant && `: ${meant}`}`);
}

/** Checks a name to which transfers have completed. */
function checkWinner(check: FilesCheck, place: Place, key: string, actual: Content): void {
  const { expected, report } = check;
  const completions = expected.completed.get(key) ?? [];
  const winners = possibleWinners(completions);
  report.count('files');
  report.count('bytes', actual.size);
  if (includes([...winners, ...expected.lateWrites(place, key)], actual)) return;
  const loser = completions.find((completion) => isSame(completion, actual));
  const instead = winners
    .map(({ id, size, sha256 }) => `${id} (${size} bytes, ${sha256})`)
    .join(' or ');
  const detail = `${inWords(actual)}${loser ? ` of ${loser.id}` : ''}, in place of ${instead}`;
  wrong(check, 'files.content', place, detail);
}

async function checkUploads(check: FilesCheck, endpoint: string, storage: Storage): Promise<void> {
  const { expected, evidence, report } = check;
  const crashes = evidence.faults.filter(
    ({ fault, target }) => fault === 'partner.restart' && target === endpoint,
  );
  for (const upload of await storage.uploads()) {
    const place = { endpoint, path: upload.path };
    const completions = expected.completed.get(expected.keyFor(place)) ?? [];
    const detail = `the multipart upload ${upload.id} is unfinished, with ${upload.bytes} bytes`;
    if (isKeptByCrash(upload, completions, crashes)) report.count('uploads_kept_by_crashes');
    else wrong(check, 'files.leftover', place, detail);
  }
}

function checkCompleted(check: FilesCheck): void {
  const { expected, log, seen, storages } = check;
  const mayOverwrite = (id: string) => log.endpoints.get(id)?.state.overwrite !== false;
  for (const [key, completions] of expected.completed) {
    const place = expected.places.get(key) as Place;
    const ids = completions.map(({ id }) => id).join(', ');
    if (!storages.has(place.endpoint))
      wrong(check, 'files.content', place, 'the run names no such endpoint');
    else if (!seen.has(key))
      wrong(check, 'files.content', place, `nothing is there, and ${ids} completed to it`);
    for (const [first, second] of forbiddenReplacements(completions, mayOverwrite)) {
      const replaced = `${second.id} replaced the file of ${first.id}`;
      wrong(check, 'files.overwrite', place, `${replaced}, and its endpoint does not overwrite`);
    }
  }
}

function checkPlaced(check: FilesCheck): void {
  for (const [key, place] of check.expected.placed)
    if (!check.seen.has(key))
      wrong(check, 'files.content', place, 'the file that the run placed there is gone');
}

function checkAfter(check: FilesCheck): void {
  const { expected, seen } = check;
  for (const [key, { place, id }] of expected.after.written)
    if (!seen.has(key))
      wrong(check, 'files.after', place, `nothing is there, and ${id} left it there`);
  for (const [key, { place, id }] of expected.after.removed)
    if (seen.has(key)) wrong(check, 'files.after', place, `it is there, and ${id} removed it`);
}

function compare(
  check: FilesCheck,
  name: string,
  place: Place,
  expected: Content,
  actual: Content,
  detail: string,
): void {
  if (!isSame(expected, actual)) wrong(check, name, place, `${inWords(actual)}: ${detail}`);
}

function wrong({ report }: Context, check: string, place: Place, detail: string): void {
  report.finding(check, keyOf(place), detail);
}

function inWords({ size, sha256 }: Content): string {
  return `${size} bytes, ${sha256}`;
}

function includes(contents: Content[], actual: Content): boolean {
  return contents.some((content) => isSame(content, actual));
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
