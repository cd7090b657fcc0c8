import type { CatalogKind, Fields, LoggedEvent } from './event.ts';
import { FLOW_CHANGES } from './flows.ts';

/** Has the form of `state` in the catalog's tables. */
export interface CatalogState extends Fields {
  status: string;
}

export type CatalogStep = { state: CatalogState } | { problem: string };

type Change = (before: CatalogState, data: Fields) => CatalogState;

interface Rules {
  first: string;
  begin(data: Fields): CatalogState;
  /** Nothing follows in a stream with this state. */
  last: string;
  changes: Record<string, Change>;
}

const RULES: Record<CatalogKind, Rules> = {
  batch: {
    first: 'batch.created',
    begin: (data) => ({
      ...data,
      status: 'creating',
      items: 0,
      rejected: 0,
      listed: false,
      through: null,
      opened_at: null,
      cancelled_at: null,
      ended_at: null,
    }),
    last: 'completed',
    changes: {
      'batch.listed': (before, { items, through, last }) => ({
        ...before,
        items: Number(before.items) + (items as Fields[]).length,
        rejected: Number(before.rejected) + (items as Fields[]).filter(({ error }) => error).length,
        through,
        listed: last,
      }),
      'batch.opened': (before, { opened_at }) => ({ ...before, status: 'open', opened_at }),
      'batch.cancelled': (before, { cancelled_at }) => ({
        ...before,
        status: 'cancelled',
        cancelled_at,
      }),
      'batch.completed': (before, { status, ended_at }) => ({
        ...before,
        status: String(status),
        ended_at,
      }),
    },
  },
  flow: {
    first: 'flow.created',
    begin: ({ enabled, ...data }) => ({
      ...data,
      status: enabled ? 'active' : 'paused',
      revision: 0,
      updated_at: data.created_at,
      scheduled_from: data.created_at,
      skipping: data.start === 'new_only' ? { through: null } : null,
      requested: null,
      open_runs: [],
      failing: null,
    }),
    // A removed flow ends its runs.
    last: 'none',
    changes: FLOW_CHANGES,
  },
  endpoint: {
    first: 'endpoint.configured',
    begin: (data) => ({
      ...data,
      status: 'configured',
      paused: false,
      unreachable_since: null,
      announced_host_keys: [],
    }),
    last: 'removed',
    changes: {
      'endpoint.updated': (before, data) => ({ ...before, ...data }),
      'endpoint.credentials_replaced': (before, data) => ({ ...before, ...data }),
      'endpoint.paused': (before) => ({ ...before, paused: true }),
      'endpoint.resumed': (before) => ({ ...before, paused: false }),
      'endpoint.removed': ({ endpoint_id, name }) => ({ status: 'removed', endpoint_id, name }),
      'endpoint.connectivity_lost': (before, { detected_at }) => ({
        ...before,
        unreachable_since: detected_at,
      }),
      'endpoint.connectivity_restored': (before) => ({ ...before, unreachable_since: null }),
      'endpoint.host_key_announced': (before, { sha256, key_type, verified_by, announced_at }) => ({
        ...before,
        announced_host_keys: [
          ...(before.announced_host_keys as Fields[]).filter((key) => key.sha256 !== sha256),
          { sha256, key_type, verified_by, announced_at },
        ],
      }),
    },
  },
  key: {
    first: 'key.created',
    begin: (data) => ({ ...data, status: 'active', revoked_at: null, announced: false }),
    last: 'revoked',
    changes: {
      'key.revoked': (before, { revoked_at }) => ({ ...before, status: 'revoked', revoked_at }),
      'key.expiring_soon': (before) => ({ ...before, announced: true }),
    },
  },
  webhook: {
    first: 'webhook.registered',
    begin: (data) => ({
      ...data,
      status: 'active',
      enabled: true,
      previous: null,
      updated_at: data.created_at,
    }),
    last: 'removed',
    changes: {
      'webhook.updated': (before, data) => ({ ...before, ...data }),
      'webhook.secret_rotated': (
        before,
        { secret_record, previous_secret_record, previous_until, rotated_at },
      ) => {
        const previous =
          previous_until === null
            ? null
            : { secret_record: previous_secret_record, until: previous_until };
        return { ...before, secret_record, previous, updated_at: rotated_at };
      },
      'webhook.removed': (before, { removed_at }) => ({
        ...before,
        status: 'removed',
        previous: null,
        updated_at: removed_at,
      }),
    },
  },
};

/**
 * Returns the state after one more event of a batch, endpoint, key or webhook, or why the event
 * cannot follow.
 */
export function foldCatalog(
  kind: CatalogKind,
  before: CatalogState | null,
  { type, data }: LoggedEvent,
): CatalogStep {
  const { first, begin, last, changes } = RULES[kind];
  if (before === null)
    return type === first ? { state: begin(data) } : { problem: `the stream begins with ${type}` };
  const change = changes[type];
  if (before.status === last || change === undefined)
    return { problem: `${type} can't follow where the state is ${before.status}` };
  if (type === 'endpoint.connectivity_lost' && before.unreachable_since !== null)
    return { problem: 'an outage begins within an outage' };
  return { state: change(before, data) };
}
