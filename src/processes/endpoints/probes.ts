import { openFileEndpoint } from '../../adapters/files/open.ts';
import { FileError } from '../../adapters/files/port.ts';
import { listen } from '../../adapters/postgres/listen.ts';
import { isStoreUnavailable } from '../../adapters/unavailable.ts';
import type { Vault } from '../../adapters/vault.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { loseConnectivity, restoreConnectivity } from '../../commands/endpoints.ts';
import { pause } from '../../concurrency/pause.ts';
import { createWakeUp } from '../../concurrency/wake-up.ts';
import { distrustOf, hostOf } from '../../domain/endpoints/endpoint.ts';
import { DomainError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import {
  type ConfiguredEndpoint,
  listEndpoints,
  versionOfCatalog,
} from '../../projections/catalog/queries.ts';
import type { ConsumerDeps } from '../../projections/consumer.ts';
import { PROJECTIONS, projectionConsumer } from '../../projections/read-models.ts';
import { untilCaughtUp } from '../../projections/until-caught-up.ts';
import { inOneProcess } from '../in-one-process.ts';
import {
  CONNECTIVITY_CHANNEL,
  type ConnectivityError,
  type EndpointConnectivity,
  endpointConnectivity,
  endpointsToJudge,
  forgetRemovedEndpoints,
  noteObservation,
  type Observation,
} from './connectivity.ts';
import { createEndpointPool, type EndpointPool, withEndpoint } from './pool.ts';

const EVERY_MS = 60_000;
const TIME_LIMIT_MS = 15_000;
/** How often to look for new and changed endpoints. */
const LOOK_MS = 1_000;
// Enough to finish 1,000 endpoints within their minute, even if none of them answers.
const AT_ONCE = 256;
const ACTOR = 'system:monitor';

export interface ProbeDeps extends ConsumerDeps {
  vault: Vault;
  commands: CommandDeps;
}

export interface ProbeTimes {
  /** Interval between two probes of an endpoint, in milliseconds. */
  everyMs: number;
  /** How long a probe may take, in milliseconds. */
  timeLimitMs: number;
}

/**
 * Probes every configured endpoint once a minute, spread over the minute, and a new or changed one
 * at once. One process of the installation does it. Appends an event when connectivity is lost or
 * restored, from the results of probes and of transfers. A probe connects and checks the host key
 * or certificate. It never signs in. Runs until the signal aborts.
 */
export async function runProbes(
  deps: ProbeDeps,
  signal: AbortSignal,
  times: ProbeTimes = { everyMs: EVERY_MS, timeLimitMs: TIME_LIMIT_MS },
): Promise<void> {
  await untilCaughtUp(deps, projectionConsumer(PROJECTIONS.catalog), signal);
  await inOneProcess(deps.locks, 'probes', signal, async (stop) => {
    await Promise.all([probeAll(deps, times, stop), judgeAll(deps, times, stop)]);
  });
}

async function probeAll(
  deps: ProbeDeps,
  { everyMs, timeLimitMs }: ProbeTimes,
  signal: AbortSignal,
): Promise<void> {
  const pool = createEndpointPool({ vault: deps.vault, open: openFileEndpoint });
  const underway = new Map<string, Promise<void>>();
  const catalog = createCatalogReader(deps);
  const schedule = createSchedule(everyMs, await probedBefore(deps));
  while (!signal.aborted) {
    const endpoints = await catalog();
    schedule.update(endpoints);
    pool.closeRemoved(endpoints);
    for (const configured of schedule.due((id) => underway.has(id))) {
      if (underway.size >= AT_ONCE) await Promise.race(underway.values());
      if (signal.aborted) break;
      const id = configured.endpoint_id;
      const probing = probe(deps, pool, configured, timeLimitMs, signal).finally(() =>
        underway.delete(id),
      );
      underway.set(id, probing);
    }
    await pause(Math.min(everyMs / 5, LOOK_MS), signal);
  }
  await Promise.all(underway.values());
  await pool.close();
}

/**
 * Creates a reader that loads the endpoints only if the catalog has changed. While Postgres is
 * unavailable, it returns the last ones.
 */
function createCatalogReader({ sql, logger }: ProbeDeps): () => Promise<ConfiguredEndpoint[]> {
  let known: { version: string | null; endpoints: ConfiguredEndpoint[] } = {
    version: null,
    endpoints: [],
  };
  let failed = false;
  return async () => {
    try {
      const [{ version }] = await sql<[{ version: string }]>`
        select ${versionOfCatalog(sql)} as version`;
      if (version !== known.version) known = { version, endpoints: await listEndpoints(sql) };
      failed = false;
    } catch (error) {
      if (!failed) logger.error({ err: error }, 'the endpoints to probe could not be read');
      failed = true;
    }
    return known.endpoints;
  };
}

async function probedBefore({ sql }: ProbeDeps): Promise<Set<string>> {
  const health = await endpointConnectivity(sql).catch(
    () => new Map<string, EndpointConnectivity>(),
  );
  return new Set([...health].filter(([, seen]) => seen.last_probe_at !== null).map(([id]) => id));
}

interface Planned {
  configured: ConfiguredEndpoint;
  settings: string;
  dueAt: number;
}

/**
 * Creates the schedule of probes. It spreads endpoints that were probed before over `everyMs`. A
 * new endpoint, or one with new settings, is due at once. Each is due again `everyMs` later.
 */
function createSchedule(everyMs: number, probed: Set<string>) {
  const planned = new Map<string, Planned>();

  return {
    update(endpoints: ConfiguredEndpoint[]): void {
      const now = performance.now();
      const ids = new Set(endpoints.map(({ endpoint_id }) => endpoint_id));
      for (const id of planned.keys()) if (!ids.has(id)) planned.delete(id);
      for (const [i, configured] of endpoints.entries()) {
        const id = configured.endpoint_id;
        const before = planned.get(id);
        const settings = JSON.stringify(configured.settings);
        const share = probed.delete(id) ? i / endpoints.length : 0;
        const dueAt = before?.settings === settings ? before.dueAt : now + share * everyMs;
        planned.set(id, { configured, settings, dueAt });
      }
    },
    /** Returns the endpoints that are due and not under way, and schedules their next probes. */
    due(underWay: (id: string) => boolean): ConfiguredEndpoint[] {
      const now = performance.now();
      const due = [...planned.values()].filter(
        ({ configured, dueAt }) => dueAt <= now && !underWay(configured.endpoint_id),
      );
      for (const each of due) each.dueAt = now + everyMs;
      return due.map(({ configured }) => configured);
    },
  };
}

/** Probes one endpoint and records the observation. Never throws. */
async function probe(
  deps: ProbeDeps,
  pool: EndpointPool,
  configured: ConfiguredEndpoint,
  limitMs: number,
  signal: AbortSignal,
) {
  const began = performance.now();
  const seen = await look(deps, pool, configured, limitMs, signal);
  // The result of an aborted probe says nothing about the server.
  if (signal.aborted) return;
  const { fingerprint = null, ...rest } = seen;
  const latencyMs = Math.round(performance.now() - began);
  const observation: Observation = {
    endpointId: configured.endpoint_id,
    ...rest,
    probe: { latencyMs, fingerprint },
  };
  await noteObservation(deps.sql, observation).catch((error: unknown) => {
    deps.logger.error(
      { err: error, endpoint: configured.name },
      'the result of a probe could not be recorded',
    );
  });
}

async function look(
  { logger }: ProbeDeps,
  pool: EndpointPool,
  configured: ConfiguredEndpoint,
  limitMs: number,
  signal: AbortSignal,
): Promise<{
  connected: boolean | null;
  error: ConnectivityError | null;
  fingerprint?: string | null;
}> {
  const { settings } = configured;
  const limit = new AbortController();
  const timedOut = new FileError(
    'timeout',
    'connect',
    `${hostOf(settings)}: no answer within ${limitMs / 1_000} s`,
  );
  const timer = setTimeout(() => limit.abort(timedOut), limitMs);
  try {
    const peer = await withEndpoint(pool, configured, (endpoint) =>
      endpoint.probe(AbortSignal.any([signal, limit.signal])),
    );
    if (peer.trusted) return { connected: true, error: null, fingerprint: peer.fingerprint };
    // A server answers, so the endpoint is connected. The error shows that transfers do not trust
    // it.
    return {
      connected: true,
      error: {
        code: distrustOf(settings),
        message: peer.reason ?? 'The server is not trusted',
      },
      fingerprint: peer.fingerprint,
    };
  } catch (error) {
    if (!(error instanceof FileError)) {
      logger.error(
        { err: error, endpoint: configured.name },
        'a probe failed with an unexpected error',
      );
      return {
        connected: null,
        error: { code: 'internal_error', message: 'The endpoint could not be probed' },
      };
    }
    const { shownCode: code, message } = error;
    return { connected: isNetworkFailure(code) ? false : null, error: { code, message } };
  } finally {
    clearTimeout(timer);
  }
}

/** Judges connectivity after each unusual observation of any process, and at every interval. */
async function judgeAll(
  deps: ProbeDeps,
  { everyMs }: ProbeTimes,
  signal: AbortSignal,
): Promise<void> {
  const wakeUp = createWakeUp();
  const unlisten = listen(deps.sql, CONNECTIVITY_CHANNEL, wakeUp.wake, wakeUp.wake);
  signal.addEventListener('abort', wakeUp.wake);
  while (!signal.aborted) {
    await judge(deps).catch((error: unknown) =>
      deps.logger.error(
        { err: error },
        'the connectivity of endpoints could not be judged; retrying in 60 s',
      ),
    );
    await wakeUp.wait(everyMs);
  }
  unlisten();
}

async function judge({ sql, commands, logger }: ProbeDeps): Promise<void> {
  await forgetRemovedEndpoints(sql);
  for (const { state, failures, last_success_at, error } of await endpointsToJudge(sql)) {
    const cause = { actor: ACTOR, correlationId: newId('req') };
    try {
      if (failures === 0) {
        await restoreConnectivity(commands, state.endpoint_id, cause);
        logger.info({ endpoint: state.name }, 'the connectivity of an endpoint is restored');
      } else if (error !== null) {
        await loseConnectivity(commands, state, { lastSuccessAt: last_success_at, error }, cause);
        const { code, message: reason } = error;
        logger.warn(
          { endpoint: state.name, code, reason },
          'the connectivity of an endpoint is lost',
        );
      }
    } catch (problem) {
      if (isStoreUnavailable(problem)) throw problem;
      // The endpoint was removed a moment ago.
      if (problem instanceof DomainError && problem.code === 'not_found') continue;
      // One endpoint that always fails must not keep the others from being judged.
      logger.error(
        { err: problem, endpoint: state.name },
        'the connectivity of an endpoint could not be judged; retrying in 60 s',
      );
    }
  }
}
