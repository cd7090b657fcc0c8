import { Worker } from 'node:worker_threads';
import type { EndpointCredentials, EndpointDefinition } from '../../../domain/endpoint.ts';
import { type DestinationFile, type FileEndpoint, FileError, type OpenDestination, type ResumePoint, type SourceFile } from '../port.ts';
import {
  createOutbox,
  type FromThread,
  type OpenedDestination,
  type OpenedSource,
  SIGNAL,
  type ThreadError,
  type ToThread,
} from './messages.ts';

/** A thread that holds the connections of one side, so that neither side and not the main thread waits for the other's work. */
export interface FileThread {
  /** An endpoint whose work is done in the thread. Buffers given to it must lie in shared memory. */
  open(definition: EndpointDefinition, credentials: EndpointCredentials): FileEndpoint;
  close(): Promise<void>;
}

interface Remote {
  invoke<T>(target: number, method: string, args: unknown[], signal?: AbortSignal): Promise<T>;
  /** Waits where something is under way, whose buffers are the caller's again only when it has ended. */
  close(target: number): Promise<void>;
}

interface Pending {
  target: number;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** One life of the thread. It ends with an error that nobody caught there; what was under way fails, and the next call begins another. */
interface Life {
  worker: Worker;
  tell(message: ToThread): void;
  pending: Map<number, Pending>;
  over: boolean;
}

/** Bytes of files lie elsewhere, so that what a thread allocates dies at once: a larger nursery is only memory that stays. */
const MAX_YOUNG_MIB = 6;

export function createFileThread(name: string): FileThread {
  let life: Life | null = null;
  let lastCall = 0;

  function current(): Life {
    if (life && !life.over) return life;
    const worker = new Worker(new URL('./host.ts', import.meta.url), { name, resourceLimits: { maxYoungGenerationSizeMb: MAX_YOUNG_MIB } });
    const tell = createOutbox<ToThread>((messages) => worker.postMessage(messages));
    const begun: Life = { worker, tell, pending: new Map(), over: false };
    worker.on('message', (messages: FromThread[]) => {
      for (const message of messages) receive(begun, message);
    });
    worker.on('error', (error) => end(begun, error as Error));
    worker.on('exit', () => end(begun, new Error('it has ended')));
    life = begun;
    return begun;
  }

  function receive({ pending }: Life, message: FromThread): void {
    const caller = pending.get(message.call);
    pending.delete(message.call);
    if ('error' in message) caller?.reject(revive(message.error));
    else caller?.resolve(message.value);
  }

  function end(ended: Life, cause: Error): void {
    ended.over = true;
    const error = new FileError('connection_failed', 'transfer', `The thread that held the connection failed: ${cause.message}`, { cause });
    for (const { reject } of ended.pending.values()) reject(error);
    ended.pending.clear();
  }

  function remoteOf(begun: Life): Remote {
    const invoke = <T>(target: number, method: string, args: unknown[], signal?: AbortSignal) =>
      new Promise<T>((resolve, reject) => {
        if (begun.over) return reject(new FileError('connection_failed', 'connect', 'The thread that held the connection has ended'));
        const call = ++lastCall;
        begun.pending.set(call, { target, resolve: resolve as (value: unknown) => void, reject });
        // Stays for as long as the file is open; what lets go of it is the end of the attempt that the signal belongs to.
        signal?.addEventListener('abort', () => begun.tell({ type: 'abort', call }), { once: true });
        begun.tell({ type: 'call', call, target, method, args });
        if (signal?.aborted) begun.tell({ type: 'abort', call });
      });
    return {
      invoke,
      async close(target) {
        const underWay = [...begun.pending.values()].some((pending) => pending.target === target);
        if (underWay) await invoke<void>(target, 'close', []).catch(() => undefined);
        else begun.tell({ type: 'close', target });
      },
    };
  }

  return {
    open(definition, credentials) {
      let opened: { life: Life; target: Promise<number> } | null = null;
      return remoteEndpoint(async () => {
        const begun = current();
        const remote = remoteOf(begun);
        if (opened?.life !== begun) {
          opened = {
            life: begun,
            target: remote.invoke<{ target: number }>(0, 'open', [{ definition, credentials }]).then(({ target }) => target),
          };
        }
        return { remote, target: await opened.target };
      });
    },
    async close() {
      await life?.worker.terminate();
    },
  };
}

/** `endpoint` gives the endpoint in the thread as it lives now. */
function remoteEndpoint(endpoint: () => Promise<{ remote: Remote; target: number }>): FileEndpoint {
  async function call<T>(method: string, args: unknown[], signal?: AbortSignal): Promise<T> {
    const { remote, target } = await endpoint();
    return remote.invoke<T>(target, method, args, signal);
  }
  return {
    connections: () => call('connections', []),
    async openSource(path, signal) {
      const { remote, target } = await endpoint();
      return remoteSource(remote, await remote.invoke<OpenedSource>(target, 'openSource', [path, SIGNAL], signal));
    },
    async openDestination(path, { signal, ...options }: OpenDestination) {
      const { remote, target } = await endpoint();
      const opened = await remote.invoke<OpenedDestination>(target, 'openDestination', [path, { ...options, signal: SIGNAL }], signal);
      return remoteDestination(remote, opened);
    },
    probe: (signal) => call('probe', [SIGNAL], signal),
    list: (path, signal) => call('list', [path, SIGNAL], signal),
    removeLeftovers: (path, { signal, ...leftovers }) => call('removeLeftovers', [path, { ...leftovers, signal: SIGNAL }], signal),
    remove: (path, signal) => call('remove', [path, SIGNAL], signal),
    close: () => call<void>('close', []).catch(() => undefined),
  };
}

function remoteSource({ invoke, close }: Remote, { target, identity, parallelReads, readAtOnce, content }: OpenedSource): SourceFile {
  return {
    identity,
    parallelReads,
    readAtOnce,
    async read(offset, buffer) {
      if (content === null) return invoke<void>(target, 'read', [offset, buffer]);
      if ('error' in content) throw revive(content.error);
      buffer.set(content.bytes.subarray(offset, offset + buffer.length));
    },
    stat: () => invoke(target, 'stat', []),
    close: () => close(target),
  };
}

function remoteDestination(
  { invoke, close }: Remote,
  { target, parallelWrites, chunkSize, resumedFrom }: OpenedDestination,
): DestinationFile {
  return {
    parallelWrites,
    chunkSize,
    resumedFrom,
    write: (offset, data) => invoke(target, 'write', [offset, data]),
    resumePoint: (bytes) => invoke<ResumePoint>(target, 'resumePoint', [bytes]),
    commit: (whole) => invoke(target, 'commit', [whole]),
    close: () => close(target),
  };
}

function revive({ message, stack, file }: ThreadError): Error {
  const error = file ? new FileError(file.code, file.step, message) : new Error(message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
