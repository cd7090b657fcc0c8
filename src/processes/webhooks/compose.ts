import type { EventStore } from '../../adapters/event-store/port.ts';
import * as endpoint from '../../domain/endpoint.ts';
import type { Event, StoredEvent } from '../../domain/event.ts';
import * as transfer from '../../domain/transfer.ts';
import { upcast } from '../../domain/upcast.ts';
import { WEBHOOK_EVENT_TYPES, type Webhook, type WebhookEventType } from '../../domain/webhook.ts';
import type { Payload, PayloadData } from './payloads.ts';
import type { NewDelivery } from './queue.ts';

/** What `notify_on_complete` asks for, subscribed to or not. */
const COMPLETIONS: readonly string[] = ['transfer.completed', 'transfer.failed'];

/** Of an engine that answers each read by itself: a batch may be of a thousand streams. */
const READS_AT_ONCE = 8;

type Recipient = Pick<Webhook, 'webhook_id' | 'account_id' | 'events'>;

/** An event that a webhook is told of, unless what its stream says beside it speaks against that. */
export interface Candidate {
  event: StoredEvent;
  webhook: Recipient;
}

/** True where a webhook may be told of an event, as far as the event alone can say. */
export function mayBeTold({ type, metadata }: StoredEvent, { account_id, events }: Recipient): boolean {
  if (!isTold(type) || !(events.includes(type) || COMPLETIONS.includes(type))) return false;
  // Endpoints belong to the installation: the endpoint says which accounts may use it.
  return type === 'endpoint.connectivity_lost' || metadata.account_id === account_id;
}

/** True for a type of event that webhooks can be told of at all. */
export function isTold(type: string): type is WebhookEventType {
  return (WEBHOOK_EVENT_TYPES as readonly string[]).includes(type);
}

/**
 * The deliveries that come of the candidates. `batch`: all that the subscription gave with them. Streams of transfers
 * and endpoints that do not begin in it are read.
 */
export async function composeDeliveries(store: EventStore, candidates: Candidate[], batch: StoredEvent[]): Promise<NewDelivery[]> {
  const events = new Map(candidates.map(({ event }) => [event.id, event]));
  const seen = Map.groupBy(batch, ({ stream }) => stream);
  const [transfers, endpoints] = await Promise.all([
    statesAt(store, seen, [...events.values()], 'transfer-', transfer),
    statesAt(store, seen, [...events.values()], 'endpoint-', endpoint),
  ]);
  const bodies = new Map<string, string>();
  return candidates.filter(isMeant).map(({ event, webhook }) => {
    const body = bodies.get(event.id) ?? JSON.stringify(payloadOf(event, transfers.get(event.id)));
    bodies.set(event.id, body);
    const { webhook_id, account_id } = webhook;
    const transfer_id = event.stream.startsWith('transfer-') ? event.stream.slice('transfer-'.length) : null;
    return { webhook_id, account_id, event_id: event.id, event_type: event.type, transfer_id, body };
  });

  function isMeant({ event, webhook }: Candidate): boolean {
    const moved = transfers.get(event.id);
    if (moved && moved.status !== 'none') return moved.facts.notify_on_complete || webhook.events.includes(event.type as WebhookEventType);
    const lost = endpoints.get(event.id);
    if (lost?.status === 'configured') return lost.accounts?.includes(webhook.account_id) ?? true;
    return true;
  }
}

/** The states of streams right after given events, by the id of the event. No stream is read twice. */
async function statesAt<State>(
  store: EventStore,
  seen: Map<string, StoredEvent[]>,
  events: StoredEvent[],
  prefix: string,
  { initialState, evolve }: { initialState(): State; evolve(state: State, event: Event): State },
): Promise<Map<string, State>> {
  const wanted = events.filter(({ stream }) => stream.startsWith(prefix));
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

function payloadOf({ id, type, data, metadata }: StoredEvent, state: transfer.TransferState | undefined): Payload {
  const told = state && state.status !== 'none' ? transferData({ type, data } as transfer.TransferEvent, state) : data;
  return { id, type: type as WebhookEventType, created_at: metadata.occurred_at, data: told as Payload['data'] };
}

/** What is told of a transfer, which is in the state right after the event. */
function transferData(event: transfer.TransferEvent, { status, facts }: transfer.Transfer): unknown {
  const { transfer_id, file_name, size_bytes, source, destination, retry_count } = facts;
  const all = { transfer_id, file_name, size_bytes, status, source, destination };
  switch (event.type) {
    case 'transfer.created':
      return { ...all, priority: facts.priority, created_at: facts.created_at } as PayloadData<'transfer.created'>;
    case 'transfer.in_progress':
      return { ...all, started_at: event.data.started_at, retry_count } as PayloadData<'transfer.in_progress'>;
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
    case 'transfer.queued':
      return all;
  }
}
