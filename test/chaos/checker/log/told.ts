import { canonical, sha256 } from '../canonical.ts';
import { AFTER_EVENTS } from './after.ts';
import type { LoggedEvent } from './event.ts';
import type { CatalogState } from './fold-catalog.ts';
import type { TransferState } from './fold-transfer.ts';

/** The event types that webhooks can subscribe to, from docs/clients.md. */
const TOLD = [
  'transfer.created',
  'transfer.in_progress',
  'transfer.completed',
  'transfer.failed',
  'transfer.cancelled',
  ...AFTER_EVENTS,
  'batch.completed',
  'flow.run_completed',
  'flow.run_failed',
  'flow.recovered',
  'endpoint.connectivity_lost',
  'key.expiring_soon',
  'log.checkpoint',
];

/** The type by which webhooks get an event of the log. */
export function toldAs(type: string): string {
  return type === 'log.checkpoint_signed' ? 'log.checkpoint' : type;
}

/** Fields of `data` in each payload of a transfer besides the common six, from docs/clients.md. */
const FURTHER: Record<string, string[]> = {
  'transfer.created': ['priority', 'created_at'],
  'transfer.in_progress': ['started_at', 'retry_count'],
  'transfer.completed': ['duration_ms', 'checksum_sha256'],
  'transfer.failed': ['error', 'retry_count', 'failed_at'],
  'transfer.cancelled': ['cancelled_at'],
};

export function isTold(type: string): boolean {
  return TOLD.includes(toldAs(type));
}

export interface States {
  /** State right after the event; null for events of other streams. */
  transfer: TransferState | null;
  endpoint: CatalogState | null;
}

/**
 * True if a webhook's account and subscriptions match an event. Does not check whether the webhook
 * is live.
 */
export function subscribes(
  webhook: CatalogState,
  { type, metadata }: LoggedEvent,
  { transfer, endpoint }: States,
): boolean {
  const events = webhook.events as string[];
  if (type === 'endpoint.connectivity_lost') {
    const accounts = (endpoint?.accounts ?? null) as string[] | null;
    return events.includes(type) && (accounts?.includes(webhook.account_id as string) ?? true);
  }
  if (toldAs(type) === 'log.checkpoint') return events.includes(toldAs(type));
  if (metadata.account_id !== webhook.account_id) return false;
  const ends = type === 'transfer.completed' || type === 'transfer.failed';
  return events.includes(type) || (ends && transfer?.facts.notify_on_complete === true);
}

/** Returns the digest of the payload that docs/clients.md describes, for any order of its keys. */
export function payloadDigest(
  { id, type, data, metadata }: LoggedEvent,
  { transfer }: States,
): string {
  const told = transfer ? transferData(type, data, transfer) : data;
  return digestOf({ id, type: toldAs(type), created_at: metadata.occurred_at, data: told });
}

export function digestOf(payload: unknown): string {
  return sha256(canonical(payload));
}

function transferData(
  type: string,
  data: LoggedEvent['data'],
  { status, facts }: TransferState,
): unknown {
  const { transfer_id, file_name, size_bytes, source, destination } = facts;
  const names = AFTER_EVENTS.includes(type) ? Object.keys(data) : (FURTHER[type] ?? []);
  const further = names.map((name) => [
    name,
    name === 'retry_count' ? facts.retry_count : data[name],
  ]);
  return {
    transfer_id,
    file_name,
    size_bytes,
    status,
    source,
    destination,
    ...Object.fromEntries(further),
  };
}
