/*
 * Calls of functions in another thread. `createThread` is the caller's side, `answerCalls` the
 * thread's. Both share a type that lists the functions:
 *
 *   type Functions = { double(n: number): number };
 *   await thread.run().call('double', [21]);              // in the caller: 42
 *   answerCalls<Functions>({ double: (_, n) => n * 2 });  // in the module of the thread
 *
 * Arguments and results are cloned, except bytes in shared memory. Calls begin in their order. A
 * call whose signal aborts gets its answer all the same: the function sees the signal and ends.
 *
 * What can go wrong: an uncaught error ends the thread, and all that it held. The calls under way
 * fail, and the next `run()` starts the thread again.
 */
import { setFlagsFromString } from 'node:v8';
import { parentPort, Worker, type WorkerOptions } from 'node:worker_threads';

/** The functions that a thread has, by name. */
type Functions<F> = { [Name in keyof F]: (...args: never[]) => unknown };
type Result<Fn> = Fn extends (...args: never[]) => infer R ? Awaited<R> : never;
type Args<Fn> = Fn extends (...args: infer A) => unknown ? A : never;

type ToThread =
  | { type: 'call'; call: number; name: string; args: unknown[] }
  /** A call without an answer. */
  | { type: 'notify'; name: string; args: unknown[] }
  /** The signal of a call has aborted. */
  | { type: 'abort'; call: number };

type FromThread = { call: number; value: unknown } | { call: number; error: unknown };

interface Sending {
  /**
   * True to send the messages of one turn of the event loop as one, because the cost of a message
   * does not depend on its content. False to send each at once, for calls that take long.
   */
  gather: boolean;
}

export interface ThreadOptions extends Sending, WorkerOptions {
  /** True to let the process end without `close`. A call under way keeps it. */
  background?: boolean;
  /** Returns the error of calls that the end of the thread leaves without an answer. */
  lost(cause: Error): Error;
  /** Restores an error that the thread's `describe` made. */
  revive(described: unknown): Error;
}

/** One run of a thread. What it holds is lost at its end. */
export interface ThreadRun<F> {
  call<Name extends keyof F & string>(
    name: Name,
    args: Args<F[Name]>,
    signal?: AbortSignal,
  ): Promise<Result<F[Name]>>;
  /** Calls a function without an answer. Does nothing after the end of the run. */
  notify<Name extends keyof F & string>(name: Name, args: Args<F[Name]>): void;
}

export interface Thread<F> {
  /** Returns the current run. Starts one if there is none. */
  run(): ThreadRun<F>;
  close(): Promise<void>;
}

interface Pending {
  resolve(value: never): void;
  reject(error: Error): void;
}

/** Creates a thread that runs a module. The module calls `answerCalls`. */
export function createThread<F extends Functions<F>>(
  module: URL,
  { gather, lost, revive, background = false, ...options }: ThreadOptions,
): Thread<F> {
  let current: { run: ThreadRun<F>; worker: Worker } | null = null;
  let lastCall = 0;

  function start(): { run: ThreadRun<F>; worker: Worker } {
    // `bin/waybill` sets this flag for the main thread, which has its heap by now. In a thread, it
    // would replace the `resourceLimits`.
    setFlagsFromString('--max-semi-space-size=0');
    const worker = new Worker(module, options);
    const send = createSender<ToThread>((messages) => worker.postMessage(messages), gather);
    const pending = new Map<number, Pending>();
    let ended: Error | null = null;
    const whileCalled = () => {
      if (!background) return;
      if (pending.size > 0) worker.ref();
      else worker.unref();
    };
    whileCalled();

    worker.on('message', (messages: FromThread[]) => {
      for (const message of messages) {
        const caller = pending.get(message.call);
        pending.delete(message.call);
        if ('error' in message) caller?.reject(revive(message.error));
        else caller?.resolve(message.value as never);
      }
      whileCalled();
    });
    const end = (cause: Error) => {
      ended ??= lost(cause);
      if (current?.worker === worker) current = null;
      for (const { reject } of pending.values()) reject(ended);
      pending.clear();
    };
    worker.on('error', (error) => end(error as Error));
    worker.on('exit', () => end(new Error('the thread exited')));

    const run: ThreadRun<F> = {
      call: (name, args, signal) =>
        new Promise((resolve, reject) => {
          if (ended) return reject(ended);
          const call = ++lastCall;
          pending.set(call, { resolve, reject });
          whileCalled();
          // The listener stays after the answer: the signal may end what the call has opened.
          signal?.addEventListener('abort', () => send({ type: 'abort', call }), { once: true });
          send({ type: 'call', call, name, args });
          if (signal?.aborted) send({ type: 'abort', call });
        }),
      notify(name, args) {
        if (!ended) send({ type: 'notify', name, args });
      },
    };
    return { run, worker };
  }

  return {
    run() {
      current ??= start();
      return current.run;
    },
    async close() {
      await current?.worker.terminate();
    },
  };
}

/** What a function in the thread knows of its call. */
export interface CallContext {
  /** Aborts with the caller's signal, until the call is answered. */
  signal: AbortSignal;
  /** Lets `signal` follow the caller's signal after the answer, until the result is called. */
  keepSignal(): () => void;
}

type Answers<F> = {
  [Name in keyof F]: (
    context: CallContext,
    ...args: Args<F[Name]>
  ) => Result<F[Name]> | Promise<Result<F[Name]>>;
};

/** Answers the calls of the thread that started this one. `describe` makes an error clonable. */
export function answerCalls<F extends Functions<F>>(
  functions: Answers<F>,
  { gather, describe }: Sending & { describe(error: unknown): unknown },
): void {
  const port = parentPort as NonNullable<typeof parentPort>;
  const send = createSender<FromThread>((messages) => port.postMessage(messages), gather);
  const signals = new Map<number, AbortController>();

  async function answer(call: number, name: string, args: unknown[]): Promise<void> {
    const controller = new AbortController();
    signals.set(call, controller);
    let kept = false;
    const keepSignal = () => {
      kept = true;
      return () => void signals.delete(call);
    };
    try {
      const value = await perform(name, args, { signal: controller.signal, keepSignal });
      send({ call, value });
    } catch (error) {
      send({ call, error: describe(error) });
    } finally {
      if (!kept) signals.delete(call);
    }
  }

  function perform(name: string, args: unknown[], context: CallContext): unknown {
    return functions[name as keyof F](context, ...(args as Args<F[keyof F]>));
  }

  port.on('message', (messages: ToThread[]) => {
    for (const message of messages) {
      if (message.type === 'abort') signals.get(message.call)?.abort();
      else if (message.type === 'call') void answer(message.call, message.name, message.args);
      else void perform(message.name, message.args, NO_CALLER);
    }
  });
}

const NO_CALLER: CallContext = {
  signal: new AbortController().signal,
  keepSignal: () => () => undefined,
};

function createSender<Message>(
  post: (messages: Message[]) => void,
  gather: boolean,
): (message: Message) => void {
  if (!gather) return (message) => post([message]);
  let waiting: Message[] = [];
  return (message) => {
    if (waiting.push(message) > 1) return;
    setImmediate(() => {
      const messages = waiting;
      waiting = [];
      post(messages);
    });
  };
}
