import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { type DestinationFile, type FileEndpoint, type FileEntry, FileError, type Peer } from '../adapters/files/port.ts';
import { type EndpointSettings, hostOf } from '../domain/endpoint.ts';
import { newId } from '../domain/ids.ts';
import { TRANSFER_ERRORS, type TransferErrorCode } from '../domain/transfer-errors.ts';

const PROBE_BYTES = 4 * 1024 * 1024;
const STEP_LIMIT_MS = 60_000;

export type ExaminationStep = 'resolve' | 'connect' | 'sign_in' | 'list' | 'write' | 'rename' | 'read' | 'remove';

export type StepResult = { step: ExaminationStep; ms: number } & (
  | { ok: true; detail: string }
  | { ok: false; code: TransferErrorCode; message: string; advice: string }
);

export interface Examination {
  ok: boolean;
  /** Host key or certificate that the server showed; null where it shows none or could not be reached. */
  fingerprint: string | null;
  /** In their order, up to the first that failed. Object stores have no `rename`. */
  steps: StepResult[];
  /** Bits per second, measured with a probe file of 4 MiB; null where it did not come to that. */
  write_bps: number | null;
  read_bps: number | null;
}

export interface Patient {
  settings: EndpointSettings;
  endpoint: FileEndpoint;
}

type Step = <T>(step: ExaminationStep, work: (signal: AbortSignal) => Promise<T>, tell: (result: T) => string) => Promise<T>;

/**
 * Goes through everything that a transfer needs of an endpoint, step by step, and stops at the first
 * that fails. A probe file is written below its base path, read back and removed. Never throws.
 */
export async function examineEndpoint({ settings, endpoint }: Patient, onStep: (result: StepResult) => void): Promise<Examination> {
  const examination: Examination = { ok: false, fingerprint: null, steps: [], write_bps: null, read_bps: null };

  const step: Step = async (name, work, tell) => {
    const began = performance.now();
    const note = (result: Record<string, unknown>) => {
      const noted = { step: name, ms: Math.round(performance.now() - began), ...result } as StepResult;
      examination.steps.push(noted);
      onStep(noted);
    };
    try {
      const result = await work(AbortSignal.timeout(STEP_LIMIT_MS));
      note({ ok: true, detail: tell(result) });
      return result;
    } catch (error) {
      const { code, message } = error instanceof FileError ? error : { code: 'internal_error' as const, message: String(error) };
      note({ ok: false, code, message, advice: cureOf(name, code, settings) });
      throw error;
    }
  };

  try {
    await step(
      'resolve',
      () => addressesOf(hostOf(settings)),
      (addresses) => addresses.join(', '),
    );
    await step(
      'connect',
      async (signal) => {
        const peer = await endpoint.probe(signal);
        examination.fingerprint = peer.fingerprint;
        return trust(peer, settings);
      },
      ({ fingerprint }) => fingerprint ?? 'connected',
    );
    await signInAndList(endpoint, baseOf(settings), step);
    await tryWithProbe({ settings, endpoint }, step, examination);
    examination.ok = true;
  } catch {
    // The step that failed has been noted.
  } finally {
    await endpoint.close();
  }
  return examination;
}

/** What transfers are told of a file that is missing would be no help: here it is what the endpoint is confined to. */
function cureOf(step: ExaminationStep, code: TransferErrorCode, settings: EndpointSettings): string {
  if (step !== 'list' || code !== 'source_not_found') return TRANSFER_ERRORS[code].advice;
  return hasFolders(settings)
    ? "Make the folder on the server, or mend the endpoint's `base_path`."
    : TRANSFER_ERRORS.destination_not_found.advice;
}

async function addressesOf(host: string): Promise<string[]> {
  try {
    return (await lookup(host.replace(/^\[|\]$/g, ''), { all: true })).map(({ address }) => address);
  } catch (error) {
    throw new FileError('connection_failed', 'connect', `${host} has no address: ${(error as Error).message}`, { cause: error });
  }
}

function trust(peer: Peer, { protocol }: EndpointSettings): Peer {
  if (peer.trusted) return peer;
  throw new FileError(protocol === 'sftp' ? 'host_key_mismatch' : 'tls_error', 'connect', peer.reason ?? 'The server is not trusted');
}

/** One call does both; which of them failed is told by its error. */
async function signInAndList(endpoint: FileEndpoint, base: string, step: Step): Promise<void> {
  let failure: unknown = null;
  const names = await step(
    'sign_in',
    (signal) =>
      endpoint.list(base, signal).catch((error: unknown): FileEntry[] => {
        if (!(error instanceof FileError) || error.step === 'sign_in' || error.step === 'connect') throw error;
        failure = error;
        return [];
      }),
    () => 'the server takes the credentials',
  );
  await step(
    'list',
    async () => {
      if (failure) throw failure;
      return names.length;
    },
    (count) => `${base || '/'} holds ${count} ${count === 1 ? 'name' : 'names'}`,
  );
}

/** Writes, names, reads back and removes a probe file; what is left of it after an error is removed too. */
async function tryWithProbe({ settings, endpoint }: Patient, step: Step, examination: Examination): Promise<void> {
  const path = pathBelow(baseOf(settings), probeName());
  const whole = { size: PROBE_BYTES, sha256: '' };
  // Objects have no name to be given: they are sent, or at least appear, when they are committed.
  const renames = hasFolders(settings);
  const content = new Uint8Array(new SharedArrayBuffer(PROBE_BYTES));
  content.set(randomBytes(PROBE_BYTES));
  const transferId = newId('txr');
  const life = new AbortController();
  let file: DestinationFile | null = null;
  let named = false;
  try {
    file = await step(
      'write',
      async (signal) => {
        signal.addEventListener('abort', () => life.abort());
        const options = { transferId, claimId: newId('clm'), size: PROBE_BYTES, overwrite: true, resume: null, signal: life.signal };
        const opened = await endpoint.openDestination(path, options);
        examination.write_bps = await measure(async () => {
          await writeAll(opened, content);
          if (!renames) await opened.commit(whole);
        });
        return opened;
      },
      () => `${PROBE_BYTES} bytes at ${megabits(examination.write_bps)}`,
    );
    if (renames) {
      await step(
        'rename',
        () => (file as DestinationFile).commit(whole),
        ({ atomicReplace }) =>
          atomicReplace ? 'the file appears whole, in one step' : 'the server can replace a file only by removing it first',
      );
    }
    named = true;
    await step(
      'read',
      async (signal) => {
        const back = new Uint8Array(new SharedArrayBuffer(PROBE_BYTES));
        examination.read_bps = await measure(() => readAll(endpoint, path, back, signal));
        if (!Buffer.from(back.buffer).equals(Buffer.from(content.buffer))) {
          throw new FileError('checksum_mismatch', 'verify', 'What was read back is not what was written');
        }
      },
      () => `the same bytes, at ${megabits(examination.read_bps)}`,
    );
    await step(
      'remove',
      (signal) => endpoint.remove(path, signal),
      () => 'the probe file is gone',
    );
  } catch (error) {
    await file?.close();
    const signal = AbortSignal.timeout(STEP_LIMIT_MS);
    await (named ? endpoint.remove(path, signal) : endpoint.removeLeftovers(path, { transferId, resume: null, signal })).catch(
      () => undefined,
    );
    throw error;
  }
  await file.close();
}

async function writeAll(file: DestinationFile, content: Uint8Array): Promise<void> {
  for (let offset = 0; offset < content.length; offset += file.chunkSize) {
    await file.write(offset, content.subarray(offset, offset + file.chunkSize));
  }
}

async function readAll(endpoint: FileEndpoint, path: string, target: Uint8Array, signal: AbortSignal): Promise<void> {
  const file = await endpoint.openSource(path, signal);
  try {
    await file.read(0, target);
  } finally {
    await file.close();
  }
}

/** Bits per second at which the probe's bytes were moved. */
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

function hasFolders(settings: EndpointSettings): boolean {
  return 'base_path' in settings;
}

/** The remote folder or prefix that an endpoint is confined to. */
export function baseOf(settings: EndpointSettings): string {
  return 'base_path' in settings ? settings.base_path : settings.prefix.replace(/^\/+/, '');
}
