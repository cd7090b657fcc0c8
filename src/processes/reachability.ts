import type { Logger } from 'pino';
import type { Sql } from '../adapters/postgres/connect.ts';
import type { TransferErrorCode } from '../domain/transfer-errors.ts';

/** Network failures in a row that make an outage. */
export const LOST_AFTER = 3;
/** Successes in a row that end one. */
export const RESTORED_AFTER = 2;

/** Told whenever something unusual was seen: the id of the endpoint, or nothing where that has just become as reachable as can be. */
export const REACHABILITY_CHANNEL = 'waybill_reachability';

export interface ReachabilityError {
  code: TransferErrorCode;
  message: string;
}

/** What a probe or a transfer has seen of an endpoint. */
export interface Observation {
  endpointId: string;
  /** null where it says nothing of the way to the server. */
  reached: boolean | null;
  error: ReachabilityError | null;
  /** null for what a transfer has seen. */
  probe: { latencyMs: number; fingerprint: string | null } | null;
}

/** Counts what was seen; true where the endpoint is as reachable as it can be, so that one more success tells nothing new. */
export async function noteObservation(sql: Sql, { endpointId, reached, error, probe }: Observation): Promise<boolean> {
  const [row] = await sql<{ settled: boolean }[]>`
    with noted as (
      insert into work.endpoint_health as h
        (endpoint_id, failures, successes, last_success_at, last_probe_at, latency_ms, fingerprint, error)
      values (
        ${endpointId}, ${reached === false ? 1 : 0}, ${reached === true ? 1 : 0}, case when ${reached === true} then now() end,
        case when ${probe !== null} then now() end, ${probe?.latencyMs ?? null}, ${probe?.fingerprint ?? null},
        ${error && sql.json({ ...error })})
      on conflict (endpoint_id) do update set
        failures = case when excluded.successes > 0 then 0 else h.failures + excluded.failures end,
        successes = case when excluded.failures > 0 then 0 else h.successes + excluded.successes end,
        last_success_at = coalesce(excluded.last_success_at, h.last_success_at),
        last_probe_at = coalesce(excluded.last_probe_at, h.last_probe_at),
        latency_ms = coalesce(excluded.latency_ms, h.latency_ms),
        fingerprint = coalesce(excluded.fingerprint, h.fingerprint),
        error = excluded.error
      returning failures = 0 and successes >= ${RESTORED_AFTER} as settled, failures > 0 or successes <= ${RESTORED_AFTER} as news
    )
    select settled, case when news then pg_notify(${REACHABILITY_CHANNEL}, case when settled then '' else ${endpointId} end) end
      from noted`;
  return row?.settled ?? false;
}

/** What transfers tell of the endpoints they use. Neither call waits or fails. */
export interface Reachability {
  /** No connection could be made. */
  failed(endpointId: string, error: ReachabilityError): void;
  /** Costs nothing but for an endpoint that has failed, here or in another process. */
  reached(endpointId: string): void;
}

/** Notes what transfers see of endpoints, until the signal aborts. */
export function createReachability({ sql, logger }: { sql: Sql; logger: Logger }, signal: AbortSignal): Reachability {
  const unsettled = new Set<string>();
  const lookAll = async () => {
    const rows = await sql<{ endpoint_id: string }[]>`
      select endpoint_id from work.endpoint_health where failures > 0 or successes < ${RESTORED_AFTER}`;
    for (const { endpoint_id } of rows) unsettled.add(endpoint_id);
  };
  const warn = (error: unknown) => logger.warn({ err: error }, 'what a transfer saw of an endpoint could not be noted');
  const listening = sql.listen(
    REACHABILITY_CHANNEL,
    (endpointId) => endpointId !== '' && unsettled.add(endpointId),
    () => void lookAll().catch(warn),
  );
  listening.catch(warn);
  signal.addEventListener('abort', () => void listening.then(({ unlisten }) => unlisten()).catch(() => undefined), { once: true });

  return {
    failed(endpointId, { code, message }) {
      noteObservation(sql, { endpointId, reached: false, error: { code, message }, probe: null }).catch(warn);
    },
    reached(endpointId) {
      if (!unsettled.has(endpointId)) return;
      noteObservation(sql, { endpointId, reached: true, error: null, probe: null })
        .then((settled) => settled && unsettled.delete(endpointId))
        .catch(warn);
    },
  };
}

/** How an endpoint was last seen. Times are ISO 8601. */
export interface EndpointHealth {
  failures_in_row: number;
  successes_in_row: number;
  last_success_at: string | null;
  last_probe_at: string | null;
  latency_ms: number | null;
  /** Host key or certificate that was last shown; null where none was. */
  fingerprint: string | null;
  /** null where the last probe or transfer found all in order. */
  error: ReachabilityError | null;
}

/** The health of every endpoint that was seen yet, by id. */
export async function endpointHealth(sql: Sql): Promise<Map<string, EndpointHealth>> {
  const rows = await sql<({ endpoint_id: string } & EndpointHealth)[]>`
    select endpoint_id, failures as failures_in_row, successes as successes_in_row, last_success_at, last_probe_at, latency_ms, fingerprint, error
      from work.endpoint_health`;
  return new Map(rows.map(({ endpoint_id, ...health }) => [endpoint_id, health]));
}
