import { lookup } from 'node:dns/promises';
import { abortable } from '../../adapters/files/abort.ts';
import {
  type FileEndpoint,
  type FileEntry,
  FileError,
  type Peer,
} from '../../adapters/files/port.ts';
import { explainError } from '../../adapters/files/system-error.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { distrustOf, type Endpoint, hasFolders, hostOf } from '../../domain/endpoints/endpoint.ts';
import type { AnnouncedHostKey } from '../../domain/protocols/host-keys.ts';
import type { EndpointSettings } from '../../domain/protocols/index.ts';
import { nameOfVia, viaOf } from '../../domain/protocols/via.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import type { Observation } from './connectivity.ts';
import { type Speeds, testWithProbeFile } from './probe-file.ts';
import { forgetRejection, noteRejection } from './sign-in-holds.ts';
import { createStep, type Step, type StepOptions, type StepResult } from './test-step.ts';

export interface EndpointTest extends Speeds {
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
}

interface TestedEndpoint {
  settings: EndpointSettings;
  endpoint: FileEndpoint;
}

/**
 * Tests everything that a transfer needs of an endpoint, step by step, and stops at the first
 * failed step. Writes a probe file below the base path, reads it back and removes it, also if it is
 * stopped. Never throws.
 */
export async function testEndpoint(
  { settings, endpoint }: TestedEndpoint,
  onStep: (result: StepResult) => void,
  options?: StepOptions,
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
  const record = (result: StepResult) => {
    examination.steps.push(result);
    onStep(result);
  };
  const step = createStep(settings, record, options);

  try {
    await step(
      'resolve',
      (signal) => addressesOf(via?.host ?? hostOf(settings), signal),
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

/** Records whether the server has accepted the credentials of a saved endpoint in a test. */
export async function noteSignIn(sql: Sql, endpoint: Endpoint, test: EndpointTest): Promise<void> {
  const signIn = test.steps.find(({ step }) => step === 'sign_in');
  if (signIn?.ok) await forgetRejection(sql, endpoint);
  else if (signIn?.code === 'auth_failed') await noteRejection(sql, endpoint);
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

async function addressesOf(host: string, signal: AbortSignal): Promise<string[]> {
  const lookedUp = lookup(host.replace(/^\[|\]$/g, ''), { all: true });
  try {
    return (await abortable(lookedUp, signal, 'connect')).map(({ address }) => address);
  } catch (error) {
    throw new FileError(
      error instanceof FileError ? error.code : 'connection_failed',
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
        if (!(error instanceof FileError) || error.ofServer) throw error;
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
