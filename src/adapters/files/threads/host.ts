import { parentPort } from 'node:worker_threads';
import { openFileEndpoint } from '../open.ts';
import { type DestinationFile, type FileEndpoint, FileError, type OpenDestination, type SourceFile } from '../port.ts';
import {
  type Call,
  createOutbox,
  type FromThread,
  type OpenEndpoint,
  type OpenedDestination,
  type OpenedSource,
  SIGNAL,
  type ThreadError,
  type ToThread,
} from './messages.ts';

/** Runs in a thread of its own: holds endpoints and open files, and does with them what the other side calls. */

interface Held {
  thing: FileEndpoint | SourceFile | DestinationFile;
  /** The call that opened it, whose signal ends whatever it does later. */
  openedBy: number;
}

/** Up to here a file is read when it is opened, which spares it a message each way. */
const READ_AHEAD_BYTES = 256 * 1024;

const port = parentPort as NonNullable<typeof parentPort>;
const send = createOutbox<FromThread>((messages) => port.postMessage(messages));
const held = new Map<number, Held>();
const signals = new Map<number, AbortController>();
let lastTarget = 0;

port.on('message', (messages: ToThread[]) => {
  for (const message of messages) {
    if (message.type === 'abort') signals.get(message.call)?.abort();
    else if (message.type === 'close') void letGo(message.target)?.close();
    else void answer(message);
  }
});

async function answer(request: Call): Promise<void> {
  const { call } = request;
  const controller = new AbortController();
  signals.set(call, controller);
  let opened = false;
  try {
    const value = await perform(request, withSignal(request.args, controller.signal));
    opened = request.method.startsWith('open');
    send({ type: 'answer', call, value });
  } catch (error) {
    send({ type: 'answer', call, error: describe(error) });
  } finally {
    if (!opened) signals.delete(call);
  }
}

async function perform({ call, target, method }: Call, args: unknown[]): Promise<unknown> {
  if (target === 0) {
    const { definition, credentials } = args[0] as OpenEndpoint;
    return { target: hold(await openFileEndpoint(definition, credentials), call) };
  }
  const thing = (method === 'close' ? letGo(target) : held.get(target)?.thing) as unknown as
    | Record<string, (...args: unknown[]) => Promise<unknown>>
    | undefined;
  if (!thing) {
    if (method === 'close') return null;
    throw new Error(`${method} was called on what is closed`);
  }
  const result = await (thing[method] as (...args: unknown[]) => Promise<unknown>)(...args);
  if (method === 'openSource') {
    const file = result as SourceFile;
    const { identity, parallelReads, readAtOnce } = file;
    return { target: hold(file, call), identity, parallelReads, readAtOnce, content: await contentOf(file) } satisfies OpenedSource;
  }
  if (method === 'openDestination') {
    const file = result as DestinationFile;
    const { parallelWrites, chunkSize, resumedFrom } = file;
    return { target: hold(file, call), parallelWrites, chunkSize, resumedFrom } satisfies OpenedDestination;
  }
  return result;
}

async function contentOf(file: SourceFile): Promise<OpenedSource['content']> {
  if (file.identity.size > READ_AHEAD_BYTES) return null;
  const bytes = new Uint8Array(file.identity.size);
  return file.read(0, bytes).then(
    () => ({ bytes }),
    (error: unknown) => ({ error: describe(error) }),
  );
}

function hold(thing: Held['thing'], openedBy: number): number {
  held.set(++lastTarget, { thing, openedBy });
  return lastTarget;
}

function letGo(target: number): Held['thing'] | null {
  const found = held.get(target);
  if (!found) return null;
  held.delete(target);
  signals.delete(found.openedBy);
  return found.thing;
}

function withSignal(args: unknown[], signal: AbortSignal): unknown[] {
  return args.map((arg) => {
    if (arg === SIGNAL) return signal;
    const options = arg as Partial<OpenDestination> | null;
    return options && typeof options === 'object' && (options.signal as unknown) === SIGNAL ? { ...options, signal } : arg;
  });
}

function describe(error: unknown): ThreadError {
  const { message, stack } = error as Error;
  return { message, stack, file: error instanceof FileError ? { code: error.code, step: error.step } : null };
}
