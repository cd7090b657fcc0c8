import { answerCalls } from '../../src/concurrency/thread.ts';

export type TestFunctions = {
  double(n: number): number;
  fail(message: string): never;
  untilAborted(): string;
  /** Fills shared memory. */
  fill(bytes: Uint8Array, value: number): void;
  /** Opens something that the signal of the call ends later. */
  open(): number;
  isEnded(opened: number): boolean;
  crash(): void;
};

const opened = new Map<number, AbortSignal>();

answerCalls<TestFunctions>(
  {
    double: (_, n) => n * 2,
    fail: async (_, message) => {
      throw new TypeError(message);
    },
    untilAborted: ({ signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve('aborted'));
      }),
    fill: (_, bytes, value) => void bytes.fill(value),
    open({ signal, keepSignal }) {
      keepSignal();
      opened.set(opened.size, signal);
      return opened.size - 1;
    },
    isEnded: (_, n) => opened.get(n)?.aborted === true,
    crash: () =>
      void setImmediate(() => {
        throw new Error('crashed');
      }),
  },
  { gather: true, describe: (error) => error },
);
