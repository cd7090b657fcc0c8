/*
 * Connectivity: whether Waybill can open connections to an endpoint. This file is the owner of
 * `work.endpoint_health`, which counts the observations of all processes. The log has the outcome,
 * `endpoint.connectivity_lost` and `.connectivity_restored`. The API shows both, as `health` and
 * `unreachable_since`: those names are older and cannot change.
 */
import type { Logger } from 'pino';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { listen } from '../../adapters/postgres/listen.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';
import { AUTHENTICATION_FAILED, type TransferErrorCode } from '../../domain/transfers/errors.ts';
import {
  everRejecting,
  forgetEarlierRejection,
  REJECTION_CHANNEL,
  rejectedSignIns,
} from './sign-in-holds.ts';

/** Network failures in a row after which an endpoint counts as lost. */
export const LOST_AFTER = 3;
/** Successes in a row after which a lost endpoint counts as restored. */
const RESTORED_AFTER = 2;

/**
 * Notified of each observation that changes something. The payload is the id of the endpoint, or
 * empty if the endpoint has just settled.
 */
export const CONNECTIVITY_CHANNEL = 'waybill_connectivity';

export interface ConnectivityError {
  code: TransferErrorCode;
  message: string;
}

/** The result of one probe, of one endpoint test, or of one transfer that used the endpoint. */
export interface Observation {
  endpointId: string;
  /** Null if the result says nothing about the connection to the server. */
  connected: boolean | null;
  error: ConnectivityError | null;
  /** Null for a transfer. */
  probe: { latencyMs: number; fingerprint: string | null } | null;
}

/**
 * Counts an observation. Returns true if the endpoint is settled: it has no failures and enough
 * successes, so another success changes nothing.
 */
export async function noteObservation(
  sql: Sql,
  { endpointId, connected, error, probe }: Observation,
): Promise<boolean> {
  const [row] = await sql<{ settled: boolean }[]>`
    with recorded as (
      insert into work.endpoint_health as h
        (endpoint_id, failures, successes, last_success_at, last_probe_at, latency_ms, fingerprint,
         error, error_since)
      values (
        ${endpointId}, ${connected === false ? 1 : 0}, ${connected === true ? 1 : 0},
        case when ${connected === true} then now() end, case when ${probe !== null} then now() end,
        ${probe?.latencyMs ?? null}, ${probe?.fingerprint ?? null},
        ${error && sql.json({ ...error })}, case when ${error !== null} then now() end)
      on conflict (endpoint_id) do update set
        failures = case when excluded.successes > 0 then 0 else h.failures + excluded.failures end,
        successes =
          case when excluded.failures > 0 then 0 else h.successes + excluded.successes end,
        last_success_at = coalesce(excluded.last_success_at, h.last_success_at),
        last_probe_at = coalesce(excluded.last_probe_at, h.last_probe_at),
        latency_ms = coalesce(excluded.latency_ms, h.latency_ms),
        fingerprint = coalesce(excluded.fingerprint, h.fingerprint),
        error = excluded.error,
        error_since = case when excluded.error is null then null
                           when h.error is null then now() else h.error_since end
      returning failures = 0 and successes >= ${RESTORED_AFTER} as settled,
                failures > 0 or successes <= ${RESTORED_AFTER} as news
    )
    select settled,
           case when news
             then pg_notify(${CONNECTIVITY_CHANNEL},
                            case when settled then '' else ${endpointId} end) end
      from recorded`;
  return row?.settled ?? false;
}

/** Records what transfers observe of their endpoints. Neither call waits or fails. */
export interface Connectivity {
  /** Records that no connection was possible. */
  failed(endpointId: string, error: ConnectivityError): void;
  /**
   * Records the success of a transfer that began `ms` ago. Does nothing unless the endpoint has
   * failed or rejected a sign-in, in this or another process.
   */
  connected(endpointId: string, ms: number): void;
}

/** Creates the recorder of transfers' observations. It listens until the signal aborts. */
export function createConnectivity(
  { sql, logger }: { sql: Sql; logger: Logger },
  signal: AbortSignal,
): Connectivity {
  const unsettled = new Set<string>();
  const loadUnsettled = async () => {
    const rows = await sql<{ endpoint_id: string }[]>`
      select endpoint_id from work.endpoint_health
       where failures > 0 or successes < ${RESTORED_AFTER}`;
    for (const { endpoint_id } of rows) unsettled.add(endpoint_id);
  };
  const rejecting = new Set<string>();
  const loadRejecting = async () => {
    for (const endpointId of await everRejecting(sql)) rejecting.add(endpointId);
  };
  const warn = (error: unknown) =>
    logger.warn({ err: error }, 'could not record what a transfer observed of an endpoint');
  const unlisten = [
    listen(
      sql,
      CONNECTIVITY_CHANNEL,
      (endpointId) => endpointId !== '' && unsettled.add(endpointId),
      () => void loadUnsettled().catch(warn),
    ),
    listen(
      sql,
      REJECTION_CHANNEL,
      (endpointId) => rejecting.add(endpointId),
      () => void loadRejecting().catch(warn),
    ),
  ];
  const end = () => {
    for (const stop of unlisten) stop();
  };
  signal.addEventListener('abort', end, { once: true });

  async function forgetRejection(endpointId: string, ms: number): Promise<void> {
    const isForgotten = await forgetEarlierRejection(sql, endpointId, ms).catch(warn);
    if (!isForgotten) rejecting.add(endpointId);
  }

  return {
    failed(endpointId, { code, message }) {
      noteObservation(sql, {
        endpointId,
        connected: false,
        error: { code, message },
        probe: null,
      }).catch(warn);
    },
    connected(endpointId, ms) {
      // A rejection that is recorded meanwhile adds it again.
      if (rejecting.delete(endpointId)) void forgetRejection(endpointId, ms);
      if (!unsettled.has(endpointId)) return;
      noteObservation(sql, { endpointId, connected: true, error: null, probe: null })
        .then((settled) => settled && unsettled.delete(endpointId))
        .catch(warn);
    },
  };
}

/** The last observations of an endpoint. Times are ISO 8601. */
export interface EndpointConnectivity {
  failures_in_row: number;
  successes_in_row: number;
  last_success_at: string | null;
  last_probe_at: string | null;
  latency_ms: number | null;
  /** Host key or certificate that the server presented last. Null if it presented none. */
  fingerprint: string | null;
  /** Null if the last probe or transfer found no error, and no sign-in was rejected since. */
  error: ConnectivityError | null;
  /** When the first error in a row was seen. Null without one, and if it is older than the column. */
  error_since: string | null;
}

/**
 * Returns the connectivity of all endpoints with an observation, by id. A probe does not sign in,
 * so a success of it does not hide that the last sign-in was rejected.
 */
export async function endpointConnectivity(sql: Sql): Promise<Map<string, EndpointConnectivity>> {
  const rejected: ConnectivityError = { code: 'auth_failed', message: AUTHENTICATION_FAILED };
  const rows = await sql<({ endpoint_id: string } & EndpointConnectivity)[]>`
    select endpoint_id, coalesce(failures, 0) as failures_in_row,
           coalesce(successes, 0) as successes_in_row, last_success_at, last_probe_at, latency_ms,
           fingerprint,
           coalesce(error, case when until is not null
                             then ${sql.json({ ...rejected })}::jsonb end) as error,
           case when error is null then since else error_since end as error_since
      from work.endpoint_health full join (${rejectedSignIns(sql)}) r using (endpoint_id)`;
  return new Map(rows.map(({ endpoint_id, ...connectivity }) => [endpoint_id, connectivity]));
}

export interface JudgedEndpoint {
  state: Endpoint;
  /** Network failures in a row. 0 if its connectivity is restored. */
  failures: number;
  last_success_at: string | null;
  error: ConnectivityError | null;
}

/** Returns the endpoints whose connectivity is lost or restored, and the log does not show it. */
export async function endpointsToJudge(sql: Sql): Promise<JudgedEndpoint[]> {
  return sql<JudgedEndpoint[]>`
    select e.state, h.failures, h.last_success_at, h.error
      from work.endpoint_health h join read.endpoints e using (endpoint_id)
     where not e.removed
       and case when e.state ->> 'unreachable_since' is null then h.failures >= ${LOST_AFTER}
                else h.failures = 0 and h.successes >= ${RESTORED_AFTER} end`;
}

/** Removes the observations of removed endpoints. */
export async function forgetRemovedEndpoints(sql: Sql): Promise<void> {
  await sql`
    delete from work.endpoint_health h using read.endpoints e
     where e.endpoint_id = h.endpoint_id and e.removed`;
}
