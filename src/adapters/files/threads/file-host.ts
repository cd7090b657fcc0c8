/*
 * The module of a file thread. It holds endpoints and open files, and answers the calls of the main
 * thread (file-thread.ts).
 */
import { createPacer, type Pacer } from '../../../concurrency/pacer.ts';
import { answerCalls } from '../../../concurrency/thread.ts';
import { SMALL_FILE_BYTES } from '../../../domain/small-file.ts';
import { storable } from '../../../domain/storable.ts';
import { openFileEndpoint } from '../open.ts';
import type { FileEndpoint, FileIdentity, SourceFile } from '../port.ts';
import {
  describeError,
  type FileFunctions,
  type OpenedDestination,
  type OpenedSource,
  type WholeSource,
} from './file-functions.ts';
import {
  type PacedDestination,
  type PacedSource,
  pacedDestination,
  pacedSource,
  paceOf,
} from './paced-files.ts';

interface Target<Thing> {
  thing: Thing;
  /** Ends the signal of the call that opened it. */
  release(): void;
}

const endpoints = new Map<number, Target<FileEndpoint & { pacer: Pacer }>>();
const sources = new Map<number, Target<SourceFile>>();
const destinations = new Map<number, Target<PacedDestination>>();
/** By endpoint id, so that the connections of an older configuration share the limit. */
const pacers = new Map<string, Pacer>();
let lastTarget = 0;

function add<Thing>(
  targets: Map<number, Target<Thing>>,
  thing: Thing,
  release: () => void = () => undefined,
): number {
  targets.set(++lastTarget, { thing, release });
  return lastTarget;
}

function find<Thing>(targets: Map<number, Target<Thing>>, target: number): Thing {
  const found = targets.get(target);
  if (!found) throw new Error('A function was called on a closed file or endpoint');
  return found.thing;
}

function pacerOf(endpointId: string): Pacer {
  const pacer = pacers.get(endpointId) ?? createPacer();
  pacers.set(endpointId, pacer);
  return pacer;
}

answerCalls<FileFunctions>(
  {
    async openEndpoint(_, endpointId, definition, credentials) {
      const endpoint = await openFileEndpoint(definition, credentials);
      return add(endpoints, { ...endpoint, pacer: pacerOf(endpointId) });
    },
    setRate: (_, endpointId, bytesPerSecond) => pacerOf(endpointId).setRate(bytesPerSecond),
    connections: (_, endpoint) => find(endpoints, endpoint).connections(),
    announcedHostKeys: async (_, endpoint) =>
      (await find(endpoints, endpoint).announcedHostKeys?.()) ?? [],
    async openSource({ signal, keepSignal }, endpoint, path) {
      const { openSource, pacer } = find(endpoints, endpoint);
      const file = await openSource(path, signal);
      const paced = pacedSource(file, paceOf(pacer, signal));
      return openedSource(paced, keepSignal, () => file.stat());
    },
    async openDestination({ signal, keepSignal }, endpoint, path, options) {
      const { openDestination, pacer } = find(endpoints, endpoint);
      const pace = paceOf(pacer, signal);
      const content = pace.limited ? undefined : options.content;
      const opened = await openDestination(path, { ...options, content, pace, signal });
      const file = pacedDestination(opened, pace);
      const written = content ? await writeWhole(file, content) : null;
      const { parallelWrites, inOrder, chunkSize, resumedFrom } = file;
      const target = add(destinations, file, keepSignal());
      return { target, parallelWrites, inOrder, chunkSize, resumedFrom, ...written };
    },
    hasPart: async ({ signal }, endpoint, path, options) =>
      (await find(endpoints, endpoint).hasPart?.(path, { ...options, signal })) ?? false,
    probe: ({ signal }, endpoint) => find(endpoints, endpoint).probe(signal),
    async list({ signal }, endpoint, path) {
      const entries = await find(endpoints, endpoint).list(path, signal);
      for (const entry of entries) entry.name = storable(entry.name);
      return entries;
    },
    removeLeftovers: ({ signal }, endpoint, path, leftovers) =>
      find(endpoints, endpoint).removeLeftovers(path, { ...leftovers, signal }),
    remove: ({ signal }, endpoint, path) => find(endpoints, endpoint).remove(path, signal),
    dispose: ({ signal }, endpoint, path, options) =>
      find(endpoints, endpoint).dispose(path, { ...options, signal }),
    restoreSource: async ({ signal }, endpoint, path, options) =>
      (await find(endpoints, endpoint).restoreSource?.(path, { ...options, signal })) ?? true,
    read: (_, source, offset, buffer) => find(sources, source).read(offset, buffer),
    stat: (_, source) => find(sources, source).stat(),
    async openWritten(_, destination) {
      const file = await find(destinations, destination).openWritten();
      // Only this mover writes it.
      return (
        file &&
        openedSource(
          file,
          () => undefined,
          async () => file.identity,
        )
      );
    },
    showPart: (_, destination) => find(destinations, destination).showPart(),
    write: (_, destination, offset, data) => find(destinations, destination).write(offset, data),
    resumePoint: (_, destination, bytes) => find(destinations, destination).resumePoint(bytes),
    async commit(_, destination, whole) {
      const proof = await find(destinations, destination).commit(whole);
      if (proof !== null) void close(destination);
      return proof;
    },
    close: (_, target) => close(target),
  },
  { gather: true, describe: describeError },
);

async function close(target: number): Promise<void> {
  for (const targets of [endpoints, sources, destinations]) {
    const found = targets.get(target);
    targets.delete(target);
    found?.release();
    await found?.thing.close();
  }
}

/**
 * `keepSignal` lets the caller's signal end a file that stays open. `lookAgain` returns the
 * identity of a file that was read to its end.
 */
async function openedSource(
  file: PacedSource,
  keepSignal: () => (() => void) | undefined,
  lookAgain: () => Promise<FileIdentity>,
): Promise<OpenedSource> {
  const { identity, modifiedAt, headers, parallelReads, readAtOnce, pace } = file;
  // Other files wait until the endpoint has opened its first one: a limit must not delay that.
  const isWhole = !pace.limited && identity.size <= SMALL_FILE_BYTES;
  const whole = isWhole ? await readWhole(file, lookAgain) : null;
  const target = whole ? 0 : add(sources, file, keepSignal());
  return { target, identity, modifiedAt, headers, parallelReads, readAtOnce, whole };
}

/** Reads a file, asks for its identity again, and closes it. */
async function readWhole(
  file: SourceFile,
  lookAgain: () => Promise<FileIdentity>,
): Promise<WholeSource> {
  const bytes = new Uint8Array(file.identity.size);
  try {
    if (file.readWhole) return { bytes, after: await file.readWhole(bytes) };
    await file.read(0, bytes);
    return { bytes, after: file.readAtOnce ? file.identity : await lookAgain() };
  } catch (error) {
    return { error: describeError(error) };
  } finally {
    void file.close();
  }
}

/** Writes a whole file, if it is new and one chunk. Returns null if that was not done. */
async function writeWhole(
  file: PacedDestination,
  content: Uint8Array,
): Promise<Pick<OpenedDestination, 'resumedFrom' | 'written'> | null> {
  const isWritten = file.resumedFrom === content.length;
  if (!isWritten && (file.resumedFrom > 0 || content.length > file.chunkSize)) return null;
  try {
    if (!isWritten) await file.write(0, content);
    return { resumedFrom: content.length, written: await file.resumePoint(content.length) };
  } catch (error) {
    await file.close();
    throw error;
  }
}
