import { lookup } from 'node:dns/promises';
import { OtherService } from '../../adapters/files/http/other-service.ts';
import {
  type FileEndpoint,
  type FileEntry,
  FileError,
  type Peer,
} from '../../adapters/files/port.ts';
import { explainError } from '../../adapters/files/system-error.ts';
import { distrustOf, hasFolders, hostOf } from '../../domain/endpoints/endpoint.ts';
import type { AnnouncedHostKey } from '../../domain/endpoints/host-keys.ts';
import { nameOfVia, viaOf } from '../../domain/endpoints/via.ts';
import type { EndpointSettings } from '../../domain/protocols/index.ts';
import {
  isNetworkFailure,
  TRANSFER_ERRORS,
  type TransferErrorCode,
} from '../../domain/transfers/errors.ts';
import type { Observation } from './connectivity.ts';
import { testWithProbeFile } from './probe-file.ts';

const STEP_LIMIT_MS = 60_000;

export type EndpointTestStep =
  | 'resolve'
  | 'via'
  | 'connect'
  | 'sign_in'
  | 'list'
  | 'write'
  | 'rename'
  | 'read'
  | 'remove';

export type StepResult = { step: EndpointTestStep; ms: number } & (
  | { ok: true; detail: string }
  | { ok: false; code: TransferErrorCode; message: string; advice: string }
);

export interface EndpointTest {
  ok: boolean;
  /**
   * Host key or certificate that the server presented. Null if it presents none or is unreachable.
   */
  fingerprint: string | null;
  /**
   * In order, up to the first failed step. Object stores have no `rename`, and endpoints without a
   * hop no `via`.
   */
  steps: StepResult[];
  /** What the verified server announced during the test. */
  announced: AnnouncedHostKey[];
  /** Bits per second, measured with a probe file of 4 MiB. Null if the test ended before that. */
  write_bps: number | null;
  read_bps: number | null;
}

export interface TestedEndpoint {
  settings: EndpointSettings;
  endpoint: FileEndpoint;
}

/** Runs a step and records its result. Throws what the step throws. */
export type Step = <T>(
  step: EndpointTestStep,
  work: (signal: AbortSignal) => Promise<T>,
  describe: (result: T) => string,
) => Promise<T>;

/**
 * Tests everything that a transfer needs of an endpoint, step by step, and stops at the first
 * failed step. Writes a probe file below the base path, reads it back and removes it. Never throws.
 */
export async function testEndpoint(
  { settings, endpoint }: TestedEndpoint,
  onStep: (result: StepResult) => void,
): Promise<EndpointTest> {
  const examination: EndpointTest = {
    ok: false,
    fingerprint: null,
    steps: [],
    announced: [],
    write_bps: null,
    read_bps: null,
  };

  const via = viaOf(settings);
  const step: Step = async (name, work, describe) => {
    const began = performance.now();
    const record = (result: Record<string, unknown>) => {
      const recorded = {
        step: name,
        ms: Math.round(performance.now() - began),
        ...result,
      } as StepResult;
      examination.steps.push(recorded);
      onStep(recorded);
    };
    try {
      const result = await work(AbortSignal.timeout(STEP_LIMIT_MS));
      record({ ok: true, detail: describe(result) });
      return result;
    } catch (error) {
      const { code, message } =
        error instanceof FileError
          ? error
          : { code: 'internal_error' as const, message: String(error) };
      record({ ok: false, code, message, advice: adviceOn(name, error, code, settings) });
      throw error;
    }
  };

  try {
    await step(
      'resolve',
      () => addressesOf(via?.host ?? hostOf(settings)),
      (addresses) => addresses.join(', '),
    );
    if (via) {
      await step(
        'via',
        async (signal) => endpoint.reach?.(signal),
        () => `the ${nameOfVia(via)} connects to ${hostOf(settings)}`,
      );
    }
    await step(
      'connect',
      async (signal) => {
        const peer = await endpoint.probe(signal);
        examination.fingerprint = peer.fingerprint;
        return trust(peer, settings);
      },
      ({ fingerprint }) => fingerprint ?? 'connected',
    );
    const base = baseOf(settings);
    await signInAndList(endpoint, base, step);
    await testWithProbeFile({ settings, endpoint, base }, step, examination);
    examination.ok = true;
  } catch {
    // `examination` already has the failed step.
  } finally {
    examination.announced = (await endpoint.announcedHostKeys?.()) ?? [];
    await endpoint.close();
  }
  return examination;
}

/**
 * Returns what a test says about the connection to the server, as a probe would. A test that fails
 * later, such as at the sign-in, was connected.
 */
export function observationOf(endpointId: string, test: EndpointTest): Observation {
  const connecting = test.steps.filter(({ step }) => ['resolve', 'via', 'connect'].includes(step));
  const failed = connecting.find((step) => !step.ok);
  const latencyMs = connecting.reduce((sum, { ms }) => sum + ms, 0);
  return {
    endpointId,
    connected: failed === undefined || (isNetworkFailure(failed.code) ? false : null),
    error: failed ? { code: failed.code, message: failed.message } : null,
    probe: { latencyMs, fingerprint: test.fingerprint },
  };
}

/** What to do if the hop is to blame, not the server behind it. */
const ADVICE_ON_HOP: Partial<Record<TransferErrorCode, string>> = {
  auth_failed:
    "Check the user name and the password or key of `via`, then replace the endpoint's credentials.",
  host_key_mismatch:
    "Compare the jump host's key with the one that its administrator names, then add it to `host_keys` of `via`. No password was sent.",
  connection_failed:
    'Check host and port of `via`, that it runs, and that its rules allow a connection to the server.',
};

/** Returns what to do. At `list`, a missing path is the endpoint's base, not a transfer's file. */
function adviceOn(
  step: EndpointTestStep,
  error: unknown,
  code: TransferErrorCode,
  settings: EndpointSettings,
): string {
  if (error instanceof OtherService)
    return 'Check `endpoint_url`: it must be the address of the storage API, not of a web console.';
  const adviceOnHop = step === 'via' ? ADVICE_ON_HOP[code] : undefined;
  if (adviceOnHop) return adviceOnHop;
  if (step !== 'list' || code !== 'source_not_found') return TRANSFER_ERRORS[code].advice;
  return hasFolders(settings)
    ? "Create the folder on the server, or correct the endpoint's `base_path`."
    : TRANSFER_ERRORS.destination_not_found.advice;
}

async function addressesOf(host: string): Promise<string[]> {
  try {
    return (await lookup(host.replace(/^\[|\]$/g, ''), { all: true })).map(
      ({ address }) => address,
    );
  } catch (error) {
    throw new FileError(
      'connection_failed',
      'connect',
      `Cannot resolve ${host}: ${explainError(error)}`,
      { cause: error },
    );
  }
}

function trust(peer: Peer, settings: EndpointSettings): Peer {
  if (peer.trusted) return peer;
  throw new FileError(distrustOf(settings), 'connect', peer.reason ?? 'The server is not trusted');
}

/** Signs in and lists with one call. The step of its error shows which of the two failed. */
async function signInAndList(endpoint: FileEndpoint, base: string, step: Step): Promise<void> {
  let failure: unknown = null;
  const entries = await step(
    'sign_in',
    (signal) =>
      endpoint.list(base, signal).catch((error: unknown): FileEntry[] => {
        if (!(error instanceof FileError) || error.step === 'sign_in' || error.step === 'connect')
          throw error;
        failure = error;
        return [];
      }),
    () => 'the server accepted the credentials',
  );
  await step(
    'list',
    async () => {
      if (failure) throw failure;
      return entries.length;
    },
    (count) => `${base || '/'} has ${count} ${count === 1 ? 'entry' : 'entries'}`,
  );
}

/** Returns the remote folder or prefix that limits an endpoint. */
function baseOf(settings: EndpointSettings): string {
  return hasFolders(settings) ? settings.base_path : settings.prefix.replace(/^\/+/, '');
}
