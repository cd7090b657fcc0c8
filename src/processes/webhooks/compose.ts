import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Payload, PayloadData } from '../../contract/webhooks/payloads.ts';
import { endpointDecider } from '../../domain/endpoints/decider.ts';
import type { Fold } from '../../domain/events/decider.ts';
import { type StoredEvent, unknownEvent } from '../../domain/events/event.ts';
import { parseStream, type StreamKind } from '../../domain/events/streams.ts';
import { upcast } from '../../domain/events/upcast.ts';
import { transferDecider } from '../../domain/transfers/decider.ts';
import type * as transfer from '../../domain/transfers/transfer.ts';
import {
  concernsEveryAccount,
  type Webhook,
  type WebhookEventType,
  webhookTypeOf,
} from '../../domain/webhook.ts';
import type { NewDelivery } from './delivery-table/insert.ts';

/** `notify_on_complete` delivers these also to webhooks that do not subscribe to them. */
const COMPLETIONS: readonly string[] = ['transfer.completed', 'transfer.failed'];

/** Concurrent stream reads. A batch can contain events of a thousand streams. */
const READS_AT_ONCE = 8;

/** An event that a webhook receives unless the state of the event's stream excludes it. */
export interface Candidate {
  event: StoredEvent;
  webhook: Webhook;
}

/** Returns true if a webhook may receive an event, judged by the event alone. */
export function mayReceive(
  { type, metadata }: StoredEvent,
  { account_id, events }: Webhook,
): boolean {
  const webhookType = webhookTypeOf(type);
  if (webhookType === null) return false;
  if (!events.includes(webhookType) && !COMPLETIONS.includes(webhookType)) return false;
  return concernsEveryAccount(webhookType) || metadata.account_id === account_id;
}

/**
 * Composes the deliveries of the candidates. `batch` has all events that the subscription yielded
 * with them. Reads the streams of transfers and endpoints that do not begin in the batch.
 */
export async function composeDeliveries(
  store: EventStore,
  candidates: Candidate[],
  batch: StoredEvent[],
): Promise<NewDelivery[]> {
  const events = new Map(candidates.map(({ event }) => [event.id, event]));
  const seen = Map.groupBy(batch, ({ stream }) => stream);
  const [transfers, endpoints] = await Promise.all([
    statesAt(store, seen, [...events.values()], 'transfer', transferDecider),
    statesAt(store, seen, [...events.values()], 'endpoint', endpointDecider),
  ]);
  const bodies = new Map<string, string>();
  return candidates.filter(isRecipient).map(({ event, webhook }) => {
    const body = bodies.get(event.id) ?? JSON.stringify(payloadOf(event, transfers.get(event.id)));
    bodies.set(event.id, body);
    const { webhook_id, account_id } = webhook;
    const { kind, id } = parseStream(event.stream);
    return {
      webhook_id,
      account_id,
      event_id: event.id,
      event_type: webhookTypeOf(event.type) as WebhookEventType,
      transfer_id: kind === 'transfer' ? id : null,
      body,
    };
  });

  function isRecipient({ event, webhook }: Candidate): boolean {
    const transferState = transfers.get(event.id);
    if (transferState && transferState.status !== 'none')
      return (
        transferState.facts.notify_on_complete ||
        webhook.events.includes(event.type as WebhookEventType)
      );
    // It left the log by retention, and an EventStoreDB still yields some of its events.
    if (parseStream(event.stream).kind === 'transfer') return false;
    const endpoint = endpoints.get(event.id);
    if (endpoint?.status === 'configured')
      return endpoint.accounts?.includes(webhook.account_id) ?? true;
    return true;
  }
}

/** Returns the states of streams right after given events, by event id. Reads no stream twice. */
async function statesAt<State>(
  store: EventStore,
  seen: Map<string, StoredEvent[]>,
  events: StoredEvent[],
  kind: StreamKind,
  { initialState, evolve }: Fold<State>,
): Promise<Map<string, State>> {
  const wanted = events.filter(({ stream }) => parseStream(stream).kind === kind);
  const ids = new Set(wanted.map(({ id }) => id));
  const states = new Map<string, State>();
  const left = new Set(wanted.map(({ stream }) => stream)).values();
  const worker = async () => {
    for (const stream of left) {
      const known = seen.get(stream);
      const whole = known?.[0]?.revision === 0 ? known : await store.read(stream);
      let state = initialState();
      for (const event of whole) {
        state = evolve(state, upcast(event));
        if (ids.has(event.id)) states.set(event.id, state);
      }
    }
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, worker));
  return states;
}

/**
 * Returns the body of a delivery. An event that is not of a transfer delivers its `data` as it is,
 * so `data` must match the schema of its type in `payloads.ts` and name no record of the vault. The
 * compiler does not check that; `test/processes/webhooks/outbox.test.ts` does.
 */
function payloadOf(
  { id, type, data, metadata }: StoredEvent,
  state: transfer.TransferState | undefined,
): Payload {
  const content =
    state && state.status !== 'none'
      ? transferData({ type, data } as transfer.TransferEvent, state)
      : data;
  return {
    id,
    type: webhookTypeOf(type) as WebhookEventType,
    created_at: metadata.occurred_at,
    data: content as Payload['data'],
  };
}

/** Returns the payload's `data` for a transfer in the state right after the event. */
function transferData(
  event: transfer.TransferEvent,
  { status, facts }: transfer.Transfer,
): unknown {
  const { transfer_id, file_name, size_bytes, source, destination, retry_count } = facts;
  const all = { transfer_id, file_name, size_bytes, status, source, destination };
  switch (event.type) {
    case 'transfer.created':
      return {
        ...all,
        priority: facts.priority,
        created_at: facts.created_at,
      } as PayloadData<'transfer.created'>;
    case 'transfer.in_progress':
      return {
        ...all,
        started_at: event.data.started_at,
        retry_count,
      } as PayloadData<'transfer.in_progress'>;
    case 'transfer.completed': {
      const { duration_ms, checksum_sha256 } = event.data;
      return { ...all, duration_ms, checksum_sha256 } as PayloadData<'transfer.completed'>;
    }
    case 'transfer.failed': {
      const { error, failed_at } = event.data;
      return { ...all, error, retry_count, failed_at } as PayloadData<'transfer.failed'>;
    }
    case 'transfer.cancelled':
      return { ...all, cancelled_at: event.data.cancelled_at } as PayloadData<'transfer.cancelled'>;
    case 'transfer.marker_written':
    case 'transfer.marker_failed':
    case 'transfer.source_deleted':
    case 'transfer.source_moved':
    case 'transfer.source_kept':
      return { ...all, ...event.data } as PayloadData<typeof event.type>;
    case 'transfer.queued':
    case 'transfer.priority_changed':
      return all;
    default:
      return unknownEvent(event);
  }
}
