import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { LoadOrder, LoadResult } from './load-process.ts';

const PROCESS = join(import.meta.dirname, 'load-process.ts');

/** Puts load on a server from a process of its own. Throws if an answer was an error. */
export async function load(order: LoadOrder): Promise<LoadResult> {
  const { stdout } = await promisify(execFile)(process.execPath, [PROCESS, JSON.stringify(order)], {
    maxBuffer: 256 << 20,
  });
  const result = JSON.parse(stdout) as LoadResult;
  if (result.failed > 0)
    throw new Error(`${result.failed} answers to ${order.method} ${order.paths[0]} were errors`);
  return result;
}
