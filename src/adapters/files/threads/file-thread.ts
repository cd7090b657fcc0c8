import { createThread, type ThreadRun } from '../../../concurrency/thread.ts';
import type { EndpointConfigured, EndpointDefinition } from '../../../domain/endpoints/endpoint.ts';
import type { EndpointCredentials } from '../../../domain/protocols/index.ts';
import {
  type DestinationFile,
  type FileEndpoint,
  FileError,
  type OpenDestination,
  type SourceFile,
} from '../port.ts';
import {
  type FileFunctions,
  type OpenedDestination,
  type OpenedSource,
  reviveError,
  type WholeSource,
} from './file-functions.ts';

/**
 * A thread with the connections of one side. So neither side waits for the other's work, and nor
 * does the main thread.
 */
export interface FileThread {
  /**
   * Returns an endpoint whose work runs in the thread. Buffers passed to it must be in shared
   * memory.
   */
  open(
    endpoint: EndpointDefinition & Pick<EndpointConfigured, 'endpoint_id'>,
    credentials: EndpointCredentials,
  ): FileEndpoint;
  /**
   * Limits the bytes per second of all files of an endpoint, also of those that are open. Null for
   * no limit. A thread that fails forgets it.
   */
  setRate(endpointId: string, bytesPerSecond: number | null): void;
  close(): Promise<void>;
}

type Run = ThreadRun<FileFunctions>;

/**
 * The bytes of files are elsewhere, so the thread's own allocations are short-lived. A larger young
 * generation would only keep memory.
 */
const MAX_YOUNG_MIB = 6;

export function createFileThread(name: string): FileThread {
  const thread = createThread<FileFunctions>(new URL('./file-host.ts', import.meta.url), {
    name,
    resourceLimits: { maxYoungGenerationSizeMb: MAX_YOUNG_MIB },
    gather: true,
    lost: (cause) =>
      new FileError(
        'connection_failed',
        'transfer',
        `The thread that held the connection failed: ${cause.message}`,
        { cause },
      ),
    revive: reviveError,
  });

  return {
    open(endpoint, credentials) {
      let opened: { run: Run; target: Promise<number> } | null = null;
      return remoteEndpoint(async () => {
        const run = thread.run();
        if (opened?.run !== run) {
          const target = run.call('openEndpoint', [endpoint.endpoint_id, endpoint, credentials]);
          opened = { run, target };
          // A shortage of open files may last a moment only: the next call opens again.
          target.catch(() => {
            if (opened?.target === target) opened = null;
          });
        }
        return { run, target: await opened.target };
      });
    },
    setRate: (endpointId, bytesPerSecond) =>
      thread.run().notify('setRate', [endpointId, bytesPerSecond]),
    close: thread.close,
  };
}

/** `endpoint` returns the endpoint in the current run of the thread. */
function remoteEndpoint(endpoint: () => Promise<{ run: Run; target: number }>): FileEndpoint {
  return {
    async connections() {
      const { run, target } = await endpoint();
      return run.call('connections', [target]);
    },
    async announcedHostKeys() {
      const { run, target } = await endpoint();
      return run.call('announcedHostKeys', [target]);
    },
    async openSource(path, signal) {
      const { run, target } = await endpoint();
      return remoteSource(run, await run.call('openSource', [target, path], signal));
    },
    async openDestination(path, { signal, pace: _, ...options }: OpenDestination) {
      const { run, target } = await endpoint();
      const opened = await run.call('openDestination', [target, path, options], signal);
      return remoteDestination(run, opened);
    },
    async hasPart(path, { signal, ...options }) {
      const { run, target } = await endpoint();
      return run.call('hasPart', [target, path, options], signal);
    },
    async probe(signal) {
      const { run, target } = await endpoint();
      return run.call('probe', [target], signal);
    },
    async list(path, signal) {
      const { run, target } = await endpoint();
      return run.call('list', [target, path], signal);
    },
    async removeLeftovers(path, { signal, ...leftovers }) {
      const { run, target } = await endpoint();
      return run.call('removeLeftovers', [target, path, leftovers], signal);
    },
    async remove(path, signal) {
      const { run, target } = await endpoint();
      return run.call('remove', [target, path], signal);
    },
    async dispose(path, { signal, ...options }) {
      const { run, target } = await endpoint();
      return run.call('dispose', [target, path, options], signal);
    },
    async restoreSource(path, { signal, ...options }) {
      const { run, target } = await endpoint();
      return run.call('restoreSource', [target, path, options], signal);
    },
    async close() {
      const closed = endpoint().then(({ run, target }) => run.call('close', [target]));
      await closed.catch(() => undefined);
    },
  };
}

function remoteSource(run: Run, { target, whole, ...opened }: OpenedSource): SourceFile {
  if (whole) return wholeSource(opened, whole);
  const calls = createCallCount();
  return {
    ...opened,
    read: (offset, buffer) => calls.count(run.call('read', [target, offset, buffer])),
    stat: () => calls.count(run.call('stat', [target])),
    close: () => closeFile(run, target, calls.underWay()),
  };
}

function wholeSource(
  opened: Omit<OpenedSource, 'target' | 'whole'>,
  whole: WholeSource,
): SourceFile {
  const found = () => {
    if ('error' in whole) throw reviveError(whole.error);
    return whole;
  };
  return {
    ...opened,
    content: 'bytes' in whole ? whole.bytes : undefined,
    read: async (offset, buffer) =>
      buffer.set(found().bytes.subarray(offset, offset + buffer.length)),
    stat: async () => found().after,
    close: async () => undefined,
  };
}

function remoteDestination(
  run: Run,
  { target, parallelWrites, inOrder, chunkSize, resumedFrom, written }: OpenedDestination,
): DestinationFile {
  const calls = createCallCount();
  let committed = false;
  return {
    parallelWrites,
    inOrder,
    chunkSize,
    resumedFrom,
    write: (offset, data) => calls.count(run.call('write', [target, offset, data])),
    async openWritten() {
      const opened = await calls.count(run.call('openWritten', [target]));
      return opened && remoteSource(run, opened);
    },
    showPart: () => calls.count(run.call('showPart', [target])),
    resumePoint: async (bytes) => written ?? calls.count(run.call('resumePoint', [target, bytes])),
    async commit(whole) {
      const proof = await calls.count(run.call('commit', [target, whole]));
      committed = proof !== null;
      return proof;
    },
    close: async () => {
      if (!committed) await closeFile(run, target, calls.underWay());
    },
  };
}

/**
 * Closes a file. Waits only if a call is under way: its buffer belongs to the caller again when the
 * call has ended.
 */
async function closeFile(run: Run, target: number, underWay: boolean): Promise<void> {
  if (underWay) await run.call('close', [target]).catch(() => undefined);
  else run.notify('close', [target]);
}

function createCallCount() {
  let calls = 0;
  return {
    count<T>(call: Promise<T>): Promise<T> {
      calls++;
      return call.finally(() => {
        calls--;
      });
    },
    underWay: () => calls > 0,
  };
}
