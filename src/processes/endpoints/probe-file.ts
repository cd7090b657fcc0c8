import { randomBytes } from 'node:crypto';
import { commitAlways } from '../../adapters/files/commit.ts';
import { type DestinationFile, type FileEndpoint, FileError } from '../../adapters/files/port.ts';
import { hasFolders } from '../../domain/endpoints/endpoint.ts';
import { newId } from '../../domain/ids.ts';
import type { EndpointSettings } from '../../domain/protocols/index.ts';
import type { Step } from './test-step.ts';

const PROBE_BYTES = 4 * 1024 * 1024;
const REMOVAL_LIMIT_MS = 60_000;

/** Bits per second, measured with a probe file of 4 MiB. Null if the test ended before that. */
export interface Speeds {
  write_bps: number | null;
  read_bps: number | null;
}

interface ProbedEndpoint {
  settings: EndpointSettings;
  endpoint: FileEndpoint;
  /** The folder or prefix that gets the probe file. */
  base: string;
}

/**
 * Writes, renames, reads back and removes a probe file below `base`. Also removes its leftovers
 * after an error.
 */
export async function testWithProbeFile(
  { settings, endpoint, base }: ProbedEndpoint,
  step: Step,
  speeds: Speeds,
): Promise<void> {
  const path = pathBelow(base, probeName());
  const whole = { size: PROBE_BYTES, sha256: '' };
  // Object stores have no rename: the commit uploads the object, or makes the upload visible.
  const renames = hasFolders(settings);
  const content = new Uint8Array(new SharedArrayBuffer(PROBE_BYTES));
  content.set(randomBytes(PROBE_BYTES));
  const transferId = newId('txr');
  // The open file outlives the step that opened it, and each step has a time limit of its own.
  const aborted = new AbortController();
  const abortsFile = async <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    const abort = () => aborted.abort(signal.reason);
    signal.addEventListener('abort', abort);
    try {
      return await work();
    } finally {
      signal.removeEventListener('abort', abort);
    }
  };
  let file = null as DestinationFile | null;
  let named = false;
  try {
    const written = await step(
      'write',
      (signal) =>
        abortsFile(signal, async () => {
          const options = {
            transferId,
            claimId: newId('clm'),
            size: PROBE_BYTES,
            overwrite: true,
            resume: null,
            signal: aborted.signal,
          };
          const opened = await endpoint.openDestination(path, options);
          // If the write fails, the upload is closed before its leftovers are removed.
          file = opened;
          speeds.write_bps = await measure(async () => {
            await writeAll(opened, content);
            if (!renames) await commitAlways(opened, whole);
          });
          return opened;
        }),
      () => `${PROBE_BYTES} bytes at ${megabits(speeds.write_bps)}`,
    );
    if (renames) {
      await step(
        'rename',
        (signal) => abortsFile(signal, () => commitAlways(written, whole)),
        ({ atomicReplace }) =>
          atomicReplace
            ? 'the file appears complete, in one step'
            : 'the server replaces a file only after removing it',
      );
    }
    named = true;
    await step(
      'read',
      async (signal) => {
        const back = new Uint8Array(new SharedArrayBuffer(PROBE_BYTES));
        speeds.read_bps = await measure(() => readAll(endpoint, path, back, signal));
        if (!Buffer.from(back.buffer).equals(Buffer.from(content.buffer))) {
          throw new FileError(
            'checksum_mismatch',
            'verify',
            'The bytes that were read back differ from those that were written',
          );
        }
      },
      () => `the same bytes, at ${megabits(speeds.read_bps)}`,
    );
    await step(
      'remove',
      (signal) => removeFile(endpoint, path, signal),
      () => 'the probe file is gone',
    );
  } catch (error) {
    await file?.close();
    const signal = AbortSignal.timeout(REMOVAL_LIMIT_MS);
    await (named
      ? endpoint.remove(path, signal)
      : endpoint.removeLeftovers(path, { transferId, resume: null, signal })
    ).catch(() => undefined);
    throw error;
  }
  await file?.close();
}

/** Removes the probe file. It is also gone if the answer was lost and the request repeated. */
async function removeFile(
  endpoint: FileEndpoint,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  await endpoint.remove(path, signal).catch((error: unknown) => {
    if (!(error instanceof FileError && error.code === 'source_not_found')) throw error;
  });
}

async function writeAll(file: DestinationFile, content: Uint8Array): Promise<void> {
  for (let offset = 0; offset < content.length; offset += file.chunkSize) {
    await file.write(offset, content.subarray(offset, offset + file.chunkSize));
  }
}

async function readAll(
  endpoint: FileEndpoint,
  path: string,
  target: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const file = await endpoint.openSource(path, signal);
  try {
    await file.read(0, target);
  } finally {
    await file.close();
  }
}

/** Measures the bits per second at which `work` moves the probe's bytes. */
async function measure(work: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await work();
  return Math.round((PROBE_BYTES * 8_000) / Math.max(1, performance.now() - began));
}

function megabits(bps: number | null): string {
  return `${((bps ?? 0) / 1e6).toFixed(0)} Mbit/s`;
}

function probeName(): string {
  return `.waybill-probe-${newId('req').slice(-10).toLowerCase()}`;
}

function pathBelow(base: string, name: string): string {
  return base === '' || base.endsWith('/') ? base + name : `${base}/${name}`;
}
