import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Options } from './options.ts';

/** The context of a benchmark. */
export interface Bench {
  options: Options;
  /** A temporary folder on disk. */
  folder: string;
  /** Registers work for the end. It runs in reverse order, also after an error or Ctrl-C. */
  defer(close: () => unknown): void;
}

/** Runs a benchmark, then what it deferred, also after an error. */
export async function runBench(
  work: (bench: Bench) => Promise<void>,
  options: Options,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-bench-'));
  // Postgres may run as another user than root, and must reach its data.
  await chmod(folder, 0o711);
  const stack = new AsyncDisposableStack();
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  let closing: Promise<void> | null = null;
  const close = () => {
    closing ??= stack.disposeAsync();
    return closing;
  };
  const stop = () => void close().finally(() => process.exit(130));
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    await work({
      options,
      folder,
      defer: (close) =>
        stack.defer(async () => {
          await close();
        }),
    });
  } finally {
    await close();
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

/** Runs a part of a benchmark, then what the part deferred. */
export async function runPart<T>(bench: Bench, work: (part: Bench) => Promise<T>): Promise<T> {
  const stack = new AsyncDisposableStack();
  // For Ctrl-C within the part. After the part this does nothing.
  bench.defer(() => stack.disposeAsync());
  try {
    return await work({
      ...bench,
      defer: (close) => stack.defer(async () => void (await close())),
    });
  } finally {
    await stack.disposeAsync();
  }
}
