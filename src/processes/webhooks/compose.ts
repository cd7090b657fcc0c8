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

/** The deliveries that come of the candidates. Reads the streams of their transfers and endpoints. */
export async function composeDeliveries(store: EventStore, candidates: Candidate[]): Promise<NewDelivery[]> {
  const events = new Map(candidates.map(({ event }) => [event.id, event]));
  const [transfers, endpoints] = await Promise.all([
    statesAt(store, [...events.values()], 'transfer-', transfer),
    statesAt(store, [...events.values()], 'endpoint-', endpoint),
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

/** The states of streams right after given events, by the id of the event. Each stream is read once. */
async function statesAt<State>(
  store: EventStore,
  events: StoredEvent[],
  prefix: string,
  { initialState, evolve }: { initialState(): State; evolve(state: State, event: Event): State },
): Promise<Map<string, State>> {
  const wanted = events.filter(({ stream }) => stream.startsWith(prefix));
  const ids = new Set(wanted.map(({ id }) => id));
  const states = new Map<string, State>();
  await Promise.all(
    [...new Set(wanted.map(({ stream }) => stream))].map(async (stream) => {
      let state = initialState();
      for (const event of await store.read(stream)) {
        state = evolve(state, upcast(event));
        if (ids.has(event.id)) states.set(event.id, state);
      }
    }),
  );
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
