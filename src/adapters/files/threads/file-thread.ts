import { Worker } from 'node:worker_threads';
import type { EndpointCredentials, EndpointDefinition } from '../../../domain/endpoint.ts';
import { type DestinationFile, type FileEndpoint, FileError, type OpenDestination, type ResumePoint, type SourceFile } from '../port.ts';
import { type FromThread, type OpenedDestination, type OpenedSource, SIGNAL, type ThreadError, type ToThread } from './messages.ts';

/** A thread that holds the connections of one side, so that neither side and not the main thread waits for the other's work. */
export interface FileThread {
  /** An endpoint whose work is done in the thread. Buffers given to it must lie in shared memory. */
  open(definition: EndpointDefinition, credentials: EndpointCredentials): FileEndpoint;
  close(): Promise<void>;
}

type Invoke = <T>(target: number, method: string, args: unknown[], signal?: AbortSignal) => Promise<T>;

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** One life of the thread. It ends with an error that nobody caught there; what was under way fails, and the next call begins another. */
interface Life {
  worker: Worker;
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
    const begun: Life = { worker, pending: new Map(), over: false };
    worker.on('message', (message: FromThread) => receive(begun, message));
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

  function invokeIn(begun: Life): Invoke {
    return <T>(target: number, method: string, args: unknown[], signal?: AbortSignal) =>
      new Promise<T>((resolve, reject) => {
        if (begun.over) return reject(new FileError('connection_failed', 'connect', 'The thread that held the connection has ended'));
        const call = ++lastCall;
        begun.pending.set(call, { resolve: resolve as (value: unknown) => void, reject });
        // Stays for as long as the file is open; what lets go of it is the end of the attempt that the signal belongs to.
        signal?.addEventListener('abort', () => tell(begun, { type: 'abort', call }), { once: true });
        tell(begun, { type: 'call', call, target, method, args });
        if (signal?.aborted) tell(begun, { type: 'abort', call });
      });
  }

  function tell({ worker, over }: Life, message: ToThread): void {
    if (!over) worker.postMessage(message);
  }

  return {
    open(definition, credentials) {
      let opened: { life: Life; target: Promise<number> } | null = null;
      return remoteEndpoint(async () => {
        const begun = current();
        const invoke = invokeIn(begun);
        if (opened?.life !== begun) {
          opened = {
            life: begun,
            target: invoke<{ target: number }>(0, 'open', [{ definition, credentials }]).then(({ target }) => target),
          };
        }
        return { invoke, target: await opened.target };
      });
    },
    async close() {
      await life?.worker.terminate();
    },
  };
}

/** `endpoint` gives the endpoint in the thread as it lives now. */
function remoteEndpoint(endpoint: () => Promise<{ invoke: Invoke; target: number }>): FileEndpoint {
  async function call<T>(method: string, args: unknown[], signal?: AbortSignal): Promise<T> {
    const { invoke, target } = await endpoint();
    return invoke<T>(target, method, args, signal);
  }
  return {
    connections: () => call('connections', []),
    async openSource(path, signal) {
      const { invoke, target } = await endpoint();
      return remoteSource(invoke, await invoke<OpenedSource>(target, 'openSource', [path, SIGNAL], signal));
    },
    async openDestination(path, { signal, ...options }: OpenDestination) {
      const { invoke, target } = await endpoint();
      const opened = await invoke<OpenedDestination>(target, 'openDestination', [path, { ...options, signal: SIGNAL }], signal);
      return remoteDestination(invoke, opened);
    },
    probe: (signal) => call('probe', [SIGNAL], signal),
    list: (path, signal) => call('list', [path, SIGNAL], signal),
    removeLeftovers: (path, { signal, ...leftovers }) => call('removeLeftovers', [path, { ...leftovers, signal: SIGNAL }], signal),
    remove: (path, signal) => call('remove', [path, SIGNAL], signal),
    close: () => call<void>('close', []).catch(() => undefined),
  };
}

function remoteSource(invoke: Invoke, { target, identity, parallelReads }: OpenedSource): SourceFile {
  return {
    identity,
    parallelReads,
    read: (offset, buffer) => invoke(target, 'read', [offset, buffer]),
    stat: () => invoke(target, 'stat', []),
    close: () => invoke<void>(target, 'close', []).catch(() => undefined),
  };
}

function remoteDestination(invoke: Invoke, { target, parallelWrites, chunkSize, resumedFrom }: OpenedDestination): DestinationFile {
  return {
    parallelWrites,
    chunkSize,
    resumedFrom,
    write: (offset, data) => invoke(target, 'write', [offset, data]),
    resumePoint: (bytes) => invoke<ResumePoint>(target, 'resumePoint', [bytes]),
    commit: (whole) => invoke(target, 'commit', [whole]),
    close: () => invoke<void>(target, 'close', []).catch(() => undefined),
  };
}

function revive({ message, stack, file }: ThreadError): Error {
  const error = file ? new FileError(file.code, file.step, message) : new Error(message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
