import { type AccessEvent, accessed } from './access.ts';
import type { BatchEvent } from './batches/batch.ts';
import type { EndpointEvent } from './endpoints/endpoint.ts';
import type { StoredEvent } from './events/event.ts';
import { parseStream } from './events/streams.ts';
import type { FlowEvent } from './flows/flow.ts';
import type { KeyEvent } from './key.ts';
import type { CheckpointEvent } from './proof/signed-checkpoint.ts';
import type { SigningKeyEvent } from './proof/signing-key.ts';
import type { RetentionEvent } from './retention.ts';
import type { TransferCreated, TransferEvent } from './transfers/transfer.ts';
import type { WebhookEvent } from './webhook.ts';

export type EventType = (
  | TransferEvent
  | BatchEvent
  | FlowEvent
  | EndpointEvent
  | KeyEvent
  | WebhookEvent
  | AccessEvent
  | SigningKeyEvent
  | CheckpointEvent
  | RetentionEvent
)['type'];

/** What each event did to its subject. Users read these words. */
export const EVENT_WORDS: Record<EventType, string> = {
  'transfer.created': 'created',
  'transfer.queued': 'queued',
  'transfer.in_progress': 'started',
  'transfer.completed': 'completed',
  'transfer.failed': 'failed',
  'transfer.cancelled': 'cancelled',
  'transfer.priority_changed': 'priority changed',
  'transfer.marker_written': 'marker written',
  'transfer.marker_failed': 'marker failed',
  'transfer.source_deleted': 'source deleted',
  'transfer.source_moved': 'source moved',
  'transfer.source_kept': 'source kept',
  'batch.created': 'created',
  'batch.listed': 'listed',
  'batch.opened': 'opened',
  'batch.cancelled': 'cancelled',
  'batch.completed': 'completed',
  'flow.created': 'created',
  'flow.updated': 'changed',
  'flow.paused': 'paused',
  'flow.resumed': 'resumed',
  'flow.removed': 'removed',
  'flow.files_skipped': 'skipped files',
  'flow.run_requested': 'run requested',
  'flow.run_empty': 'run found nothing',
  'flow.run_started': 'run started',
  'flow.run_listed': 'run listed',
  'flow.run_completed': 'run completed',
  'flow.run_failed': 'failing',
  'flow.recovered': 'recovered',
  'endpoint.configured': 'created',
  'endpoint.updated': 'changed',
  'endpoint.credentials_replaced': 'credentials replaced',
  'endpoint.paused': 'paused',
  'endpoint.resumed': 'resumed',
  'endpoint.removed': 'removed',
  'endpoint.connectivity_lost': 'unreachable',
  'endpoint.connectivity_restored': 'reachable again',
  'endpoint.host_key_announced': 'announced a new host key',
  'key.created': 'created',
  'key.revoked': 'revoked',
  'key.expiring_soon': 'expires soon',
  'webhook.registered': 'created',
  'webhook.updated': 'changed',
  'webhook.secret_rotated': 'secret rotated',
  'webhook.removed': 'removed',
  'access.exported': 'exported',
  'access.history_read': 'history read',
  'access.receipt_read': 'receipt read',
  'access.sign_in_failed': 'sign-in failed',
  'log.key_created': 'signing key created',
  'log.key_rotated': 'signing key rotated',
  'log.checkpoint_signed': 'checkpoint signed',
  'log.retention_recorded': 'retention recorded',
  'log.retention_completed': 'retention completed',
};

/** Kinds of subjects of the audit log, with their names. */
export const AUDIT_KINDS = {
  transfer: 'Transfer',
  batch: 'Batch',
  flow: 'Flow',
  endpoint: 'Endpoint',
  key: 'API key',
  webhook: 'Webhook',
  access: 'Access',
  log: 'Log',
} as const;
export type AuditKind = keyof typeof AUDIT_KINDS;

/** Movers and the service cause these events, or they follow from another one. */
const STEPS = [
  'transfer.queued',
  'transfer.in_progress',
  'transfer.completed',
  'transfer.marker_written',
  'transfer.marker_failed',
  'transfer.source_deleted',
  'transfer.source_moved',
  'transfer.source_kept',
  'log.checkpoint_signed',
  'log.retention_completed',
  'batch.listed',
  'batch.opened',
  'batch.completed',
  'flow.files_skipped',
  'flow.run_empty',
  'flow.run_started',
  'flow.run_listed',
  'flow.run_completed',
] as const satisfies EventType[];
export type AuditType = Exclude<EventType, (typeof STEPS)[number]>;

/** The types of events in the audit log, with their titles. */
export const AUDIT_TITLES = Object.fromEntries(
  Object.entries(EVENT_WORDS)
    .filter(([type]) => !(STEPS as string[]).includes(type))
    .map(([type, words]) => [type, `${AUDIT_KINDS[type.split('.')[0] as AuditKind]} ${words}`]),
) as Record<AuditType, string>;
// `isAudited` leaves out the other events of these types.
AUDIT_TITLES['transfer.created'] = 'Transfer retried';
AUDIT_TITLES['transfer.failed'] = 'Transfer aborted';
AUDIT_TITLES['endpoint.host_key_announced'] = 'New host key announced';
// The kind alone says nothing.
AUDIT_TITLES['access.exported'] = 'Data exported';
AUDIT_TITLES['access.history_read'] = 'History read';
AUDIT_TITLES['access.receipt_read'] = 'Receipt read';
AUDIT_TITLES['access.sign_in_failed'] = 'Sign-in failed';

/** An event of the audit log, with the names of its subject and actor. */
export interface AuditedEvent {
  event_id: string;
  position: bigint;
  revision: number;
  type: AuditType;
  kind: AuditKind;
  stream: string;
  subject_id: string;
  /** Name, URL or file name. Null if the read model of the subject is behind. */
  subject_name: string | null;
  account_id: string | null;
  actor: string;
  /** Null if no request caused the event, and for events of older versions. */
  client_address: string | null;
  /** Name of the key. Null for other actors. */
  key_name: string | null;
  occurred_at: string;
  data: Record<string, unknown>;
}

/** Returns what an event is about: an aggregate, or what was accessed. */
export function subjectOf({ type, data, stream }: StoredEvent): { kind: AuditKind; id: string } {
  const { kind, id } = parseStream(stream);
  return kind === 'access'
    ? { kind, id: accessed({ type, data } as AccessEvent) }
    : { kind: kind as AuditKind, id };
}

/**
 * Returns true for an event of the audit log: every change of an endpoint, key, webhook or signing
 * key, every record of retention, every recorded access, the creation and cancellation of a batch,
 * the changes and failures of a flow, and what people and keys did to a transfer after its
 * creation. Creations would be nearly all of the log.
 */
export function isAudited({ type, stream, data, metadata: { actor } }: StoredEvent): boolean {
  if (!Object.hasOwn(AUDIT_TITLES, type)) return false;
  if (parseStream(stream).kind !== 'transfer') return true;
  if (type === 'transfer.created') return (data as TransferCreated).retry_of !== null;
  return !/^(mover|system):/.test(actor);
}
