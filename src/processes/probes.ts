import { setTimeout as sleep } from 'node:timers/promises';
import { openFileEndpoint } from '../adapters/files/open.ts';
import { FileError } from '../adapters/files/port.ts';
import type { Vault } from '../adapters/vault.ts';
import { createBell } from '../bell.ts';
import type { CommandDeps } from '../commands/deps.ts';
import { loseConnectivity, restoreConnectivity } from '../commands/endpoints.ts';
import { type Endpoint, hostOf } from '../domain/endpoint.ts';
import { DomainError } from '../domain/errors.ts';
import { newId } from '../domain/ids.ts';
import { isNetworkFailure } from '../domain/transfer-errors.ts';
import { type ConfiguredEndpoint, listEndpoints } from '../projections/catalog-queries.ts';
import type { ConsumerDeps } from '../projections/consumer.ts';
import { createEndpointPool, type EndpointPool } from './mover/endpoint-pool.ts';
import {
  LOST_AFTER,
  noteObservation,
  type Observation,
  REACHABILITY_CHANNEL,
  RESTORED_AFTER,
  type ReachabilityError,
} from './reachability.ts';

const EVERY_MS = 60_000;
const TIME_LIMIT_MS = 15_000;
// A round of 1,000 endpoints, none of which answers, is still done within its minute.
const AT_ONCE = 256;
const ACTOR = 'system:monitor';

export interface ProbeDeps extends ConsumerDeps {
  vault: Vault;
  commands: CommandDeps;
}

export interface ProbeTimes {
  /** Between two probes of an endpoint, in milliseconds. */
  everyMs: number;
  /** How long one may take, in milliseconds. */
  timeLimitMs: number;
}

/**
 * Probes every configured endpoint once a minute, spread over it, in one process of the installation, and says in
 * the log when connectivity was lost and when it is back: by what probes see, and by what transfers do. A probe connects
 * and looks at the host key or certificate; it never signs in. Runs until the signal aborts.
 */
export async function runProbes(
  deps: ProbeDeps,
  signal: AbortSignal,
  times: ProbeTimes = { everyMs: EVERY_MS, timeLimitMs: TIME_LIMIT_MS },
): Promise<void> {
  while (!signal.aborted) {
    const held = await deps.locks.acquire('probes', signal).catch(() => null);
    if (!held) return;
    const stop = AbortSignal.any([signal, held.signal]);
    await Promise.all([probeAll(deps, times, stop), judgeAll(deps, times, stop)]);
    await held.release();
  }
}

async function probeAll(deps: ProbeDeps, { everyMs, timeLimitMs }: ProbeTimes, signal: AbortSignal): Promise<void> {
  const pool = createEndpointPool({ vault: deps.vault, open: openFileEndpoint });
  const underway = new Map<string, Promise<void>>();
  while (!signal.aborted) {
    const endpoints = await listEndpoints(deps.sql).catch((error: unknown): ConfiguredEndpoint[] => {
      deps.logger.error({ err: error }, 'endpoints could not be probed; trying again');
      return [];
    });
    for (const configured of endpoints) {
      if (underway.size >= AT_ONCE) await Promise.race(underway.values());
      if (signal.aborted) break;
      const id = configured.endpoint_id;
      if (!underway.has(id)) {
        const probing = probe(deps, pool, configured, timeLimitMs, signal).finally(() => underway.delete(id));
        underway.set(id, probing);
      }
      await sleep(everyMs / endpoints.length, undefined, { signal }).catch(() => undefined);
    }
    if (endpoints.length === 0) await sleep(everyMs, undefined, { signal }).catch(() => undefined);
  }
  await Promise.all(underway.values());
  await pool.close();
}

/** Probes one endpoint and notes what was seen. Never throws. */
async function probe(deps: ProbeDeps, pool: EndpointPool, configured: ConfiguredEndpoint, limitMs: number, signal: AbortSignal) {
  const began = performance.now();
  const seen = await look(deps, pool, configured, limitMs, signal);
  // What came of one that was broken off says nothing of the server.
  if (signal.aborted) return;
  const { fingerprint = null, ...rest } = seen;
  const latencyMs = Math.round(performance.now() - began);
  const observation: Observation = { endpointId: configured.endpoint_id, ...rest, probe: { latencyMs, fingerprint } };
  await noteObservation(deps.sql, observation).catch((error: unknown) => {
    deps.logger.error({ err: error, endpoint: configured.name }, 'what a probe saw could not be noted');
  });
}

async function look(
  { logger }: ProbeDeps,
  pool: EndpointPool,
  configured: ConfiguredEndpoint,
  limitMs: number,
  signal: AbortSignal,
): Promise<{ reached: boolean | null; error: ReachabilityError | null; fingerprint?: string | null }> {
  const { settings } = configured;
  const limit = new AbortController();
  const late = new FileError('timeout', 'connect', `${hostOf(settings)}: no answer within ${limitMs / 1_000} s`);
  const timer = setTimeout(() => limit.abort(late), limitMs);
  try {
    const { endpoint, release } = await pool.lend(configured);
    const peer = await endpoint.probe(AbortSignal.any([signal, limit.signal])).finally(release);
    if (peer.trusted) return { reached: true, error: null, fingerprint: peer.fingerprint };
    // Somebody answers, so the network is in order; that no transfer will trust him is shown.
    const code = settings.protocol === 'sftp' ? 'host_key_mismatch' : 'tls_error';
    return { reached: true, error: { code, message: peer.reason ?? 'The server is not trusted' }, fingerprint: peer.fingerprint };
  } catch (error) {
    if (!(error instanceof FileError)) {
      logger.error({ err: error, endpoint: configured.name }, 'a probe failed in an unforeseen way');
      return { reached: null, error: { code: 'internal_error', message: 'The endpoint could not be probed' } };
    }
    const { code, message } = error;
    return { reached: isNetworkFailure(code) ? false : null, error: { code, message } };
  } finally {
    clearTimeout(timer);
  }
}

/** Judges whenever something unusual was seen, by whomever. */
async function judgeAll(deps: ProbeDeps, { everyMs }: ProbeTimes, signal: AbortSignal): Promise<void> {
  const bell = createBell();
  const listening = await deps.sql.listen(REACHABILITY_CHANNEL, bell.ring, bell.ring).catch(() => null);
  signal.addEventListener('abort', bell.ring);
  while (!signal.aborted) {
    await judge(deps).catch((error: unknown) =>
      deps.logger.error({ err: error }, 'the reach of endpoints could not be judged; trying again'),
    );
    await bell.wait(everyMs);
  }
  await listening?.unlisten().catch(() => undefined);
}

async function judge({ sql, commands, logger }: ProbeDeps): Promise<void> {
  await sql`delete from work.endpoint_health h using read.endpoints e where e.endpoint_id = h.endpoint_id and e.removed`;
  const rows = await sql<{ state: Endpoint; failures: number; last_success_at: string | null; error: ReachabilityError | null }[]>`
    select e.state, h.failures, h.last_success_at, h.error from work.endpoint_health h join read.endpoints e using (endpoint_id)
     where not e.removed and case when e.state ->> 'unreachable_since' is null then h.failures >= ${LOST_AFTER}
                                  else h.failures = 0 and h.successes >= ${RESTORED_AFTER} end`;
  for (const { state, failures, last_success_at, error } of rows) {
    const cause = { actor: ACTOR, correlationId: newId('req') };
    try {
      if (failures === 0) {
        await restoreConnectivity(commands, state.endpoint_id, cause);
        logger.info({ endpoint: state.name }, 'an endpoint is reachable again');
      } else if (error !== null) {
        await loseConnectivity(commands, state, { lastSuccessAt: last_success_at, error }, cause);
        logger.warn({ endpoint: state.name, err: error }, 'an endpoint is unreachable');
      }
    } catch (problem) {
      // It was removed a moment ago.
      if (!(problem instanceof DomainError && problem.code === 'not_found')) throw problem;
    }
  }
}
