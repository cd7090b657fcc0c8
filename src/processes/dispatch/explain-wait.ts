/*
 * Picks the one reason why a transfer waits: the one that has to go first. It only explains. What a
 * mover claims is decided in `work.claim_transfers`.
 *
 * An account learns of its own transfers and of endpoints that it may use. Of other accounts it
 * learns that one of them has its turn first, and how many connections of an endpoint are in use.
 */
import type { WaitingFor, WaitingReason } from '../../domain/transfers/waiting-for.ts';

/** Transfers of the account that come first are counted up to this number. */
export const AHEAD_COUNTED_TO = 1_000;

interface EndpointFacts {
  /** False if the catalog lacks it. */
  known: boolean;
  /** Null, like the name, if the account may not use it. */
  id: string | null;
  name: string | null;
  paused: boolean;
  in_use: number | null;
  limit: number | null;
  /** True if its last free place is kept for another transfer. */
  kept: boolean;
  held_until: string | null;
}

/** What decides why a transfer waits. */
export interface WaitFacts {
  transfer_id: string;
  /** In the read model. */
  status: 'pending' | 'queued' | 'in_progress';
  has_job: boolean;
  job_status: WaitFacts['status'] | null;
  claimed: boolean;
  lease_until: string | null;
  /** True if the mover has not renewed the lease for some seconds. */
  lapsed: boolean | null;
  /** True if the job has seen a later event than the read model. */
  outdated: boolean | null;
  due_at: string | null;
  due: boolean | null;
  /** True if a mover runs. */
  movers: boolean;
  /** True if no mover has a free slot. */
  busy: boolean;
  /** True if dispatch has read at least as much of the log as the read model. */
  dispatched: boolean;
  /** Transfers of the account that a mover takes first. Null if not counted, or too many. */
  ahead: number | null;
  /** True if another account gets the next slot. Null if that was not asked. */
  others_first: boolean | null;
  /** Of the source and the destination. */
  endpoints: EndpointFacts[];
}

export function explainWait(row: WaitFacts): WaitingFor | null {
  if (!row.has_job) return withoutJob(row);
  if (row.claimed) return whileClaimed(row);
  if (!row.movers) return noMover();
  // The log has the start of an attempt. A job without a claim does not know it: it is older, or
  // kept by a rebuild of dispatch that has not come to this transfer.
  const begun = row.status === 'in_progress' && !row.outdated;
  if (begun || row.job_status === 'in_progress') return dispatchBehind();
  return atEndpoints(row) ?? inQueue(row);
}

/** The job was removed at the end of the transfer, or dispatch has not written it yet. */
function withoutJob({ status, dispatched, movers }: WaitFacts): WaitingFor {
  if (status !== 'pending' || dispatched) return readModelBehind();
  return movers ? dispatchBehind() : noMover();
}

function whileClaimed({
  status,
  outdated,
  lapsed,
  movers,
  lease_until,
}: WaitFacts): WaitingFor | null {
  if (!lapsed) return outdated && status !== 'in_progress' ? readModelBehind() : null;
  if (!movers) return noMover();
  return reason(
    'previous_lease',
    'The mover of this transfer does not renew its lease. Another one takes over when the lease ends.',
    { until: lease_until },
  );
}

function atEndpoints({ endpoints, due, due_at }: WaitFacts): WaitingFor | null {
  const unknown = endpoints.find(({ known }) => !known);
  if (unknown)
    return reason(
      'catalog_behind',
      'The catalog lacks an endpoint of this transfer: it is being filled from the log.',
    );
  const paused = endpoints.find((endpoint) => endpoint.paused);
  if (paused)
    return reason('endpoint_paused', `${named(paused)} is paused.`, { endpoint_id: paused.id });
  if (!due)
    return reason('retry_at', 'The last attempt failed. The transfer waits for the next one.', {
      until: due_at,
    });
  const held = endpoints.find(({ held_until }) => held_until !== null);
  if (held?.held_until)
    return reason(
      'sign_ins_on_hold',
      `${named(held)} rejected a sign-in, so sign-ins are on hold. If the turn of this transfer ` +
        'comes before the end of the hold, the transfer fails.',
      { endpoint_id: held.id, until: new Date(held.held_until).toISOString() },
    );
  const full = endpoints.find(({ in_use, limit }) => limit !== null && (in_use ?? 0) >= limit);
  if (full) return endpointFull(full);
  const kept = endpoints.find((endpoint) => endpoint.kept);
  return kept ? placeKept(kept) : null;
}

function endpointFull(endpoint: EndpointFacts): WaitingFor {
  const { id, in_use, limit } = endpoint;
  if (id === null) return reason('endpoint_full', `${named(endpoint)} is full.`);
  return reason(
    'endpoint_full',
    `${named(endpoint)} is full: ${in_use} of ${limit} places are taken.`,
    { endpoint_id: id, in_use, limit },
  );
}

function placeKept(endpoint: EndpointFacts): WaitingFor {
  const { id, in_use, limit } = endpoint;
  return reason(
    'endpoint_full',
    `${named(endpoint)} keeps its last free place for a transfer that has waited longer.`,
    id === null ? {} : { endpoint_id: id, in_use, limit },
  );
}

function inQueue({ busy, others_first, ahead }: WaitFacts): WaitingFor {
  if (!busy)
    return reason('starting', 'A mover has a free slot and takes this transfer in a moment.');
  const first = ownFirst(ahead);
  if (others_first)
    return reason(
      'fair_share',
      `All movers are busy. Another account has its turn first${first && `, then ${first}`}.`,
    );
  return reason(
    'movers_busy',
    `All movers are busy. ${first ? `Ahead of this transfer: ${first}` : 'This transfer is next'}.`,
  );
}

/** Returns which transfers of the same account a mover takes first. Empty if there are none. */
function ownFirst(ahead: number | null): string {
  if (ahead === 0) return '';
  const count = ahead === null ? `at least ${AHEAD_COUNTED_TO}` : ahead;
  return `${count} other ${ahead === 1 ? 'transfer' : 'transfers'} of this account`;
}

function named({ name }: EndpointFacts): string {
  return name === null ? 'An endpoint of this transfer' : `The endpoint ${name}`;
}

function noMover(): WaitingFor {
  return reason('no_mover', 'No mover is running.');
}

function dispatchBehind(): WaitingFor {
  return reason('dispatch_behind', 'The movers have not read this transfer from the log yet.');
}

function readModelBehind(): WaitingFor {
  return reason(
    'read_model_behind',
    'The transfer has moved on. The status is older, because the read model is behind the log.',
  );
}

function reason(
  code: WaitingReason,
  message: string,
  details: Partial<WaitingFor> = {},
): WaitingFor {
  return {
    reason: code,
    message,
    until: null,
    endpoint_id: null,
    in_use: null,
    limit: null,
    ...details,
  };
}
