/*
 * The module of a file thread. It holds endpoints and open files, and answers the calls of the main
 * thread (file-thread.ts).
 */
import { createPacer, type Pacer } from '../../../concurrency/pacer.ts';
import { answerCalls } from '../../../concurrency/thread.ts';
import { SMALL_FILE_BYTES } from '../../../domain/small-file.ts';
import { openFileEndpoint } from '../open.ts';
import type { FileEndpoint, SourceFile } from '../port.ts';
import { describeError, type FileFunctions, type OpenedSource } from './file-functions.ts';
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
      return openedSource(pacedSource(file, paceOf(pacer, signal)), keepSignal());
    },
    async openDestination({ signal, keepSignal }, endpoint, path, options) {
      const { openDestination, pacer } = find(endpoints, endpoint);
      const pace = paceOf(pacer, signal);
      const file = await openDestination(path, { ...options, pace, signal });
      const { parallelWrites, chunkSize, resumedFrom } = file;
      const target = add(destinations, pacedDestination(file, pace), keepSignal());
      return { target, parallelWrites, chunkSize, resumedFrom };
    },
    probe: ({ signal }, endpoint) => find(endpoints, endpoint).probe(signal),
    list: ({ signal }, endpoint, path) => find(endpoints, endpoint).list(path, signal),
    removeLeftovers: ({ signal }, endpoint, path, leftovers) =>
      find(endpoints, endpoint).removeLeftovers(path, { ...leftovers, signal }),
    remove: ({ signal }, endpoint, path) => find(endpoints, endpoint).remove(path, signal),
    dispose: ({ signal }, endpoint, path, options) =>
      find(endpoints, endpoint).dispose(path, { ...options, signal }),
    read: (_, source, offset, buffer) => find(sources, source).read(offset, buffer),
    stat: (_, source) => find(sources, source).stat(),
    async openWritten(_, destination) {
      const file = await find(destinations, destination).openWritten();
      return file && openedSource(file);
    },
    write: (_, destination, offset, data) => find(destinations, destination).write(offset, data),
    resumePoint: (_, destination, bytes) => find(destinations, destination).resumePoint(bytes),
    commit: (_, destination, whole) => find(destinations, destination).commit(whole),
    async close(_, target) {
      for (const targets of [endpoints, sources, destinations]) {
        const found = targets.get(target);
        targets.delete(target);
        found?.release();
        await found?.thing.close();
      }
    },
  },
  { gather: true, describe: describeError },
);

async function openedSource(file: PacedSource, release?: () => void): Promise<OpenedSource> {
  const { identity, modifiedAt, parallelReads, readAtOnce, pace } = file;
  const target = add(sources, file, release);
  // Other files wait until the endpoint has opened its first one: a limit must not delay that.
  const content = pace.limited ? null : await contentOf(file);
  return { target, identity, modifiedAt, parallelReads, readAtOnce, content };
}

async function contentOf(file: SourceFile): Promise<OpenedSource['content']> {
  if (file.identity.size > SMALL_FILE_BYTES) return null;
  const bytes = new Uint8Array(file.identity.size);
  return file.read(0, bytes).then(
    () => ({ bytes }),
    (error: unknown) => ({ error: describeError(error) }),
  );
}
