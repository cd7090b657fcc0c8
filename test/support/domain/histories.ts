import fc from 'fast-check';
import { type EndpointCommand, endpointDecider } from '../../../src/domain/endpoints/decider.ts';
import type { Decider } from '../../../src/domain/events/decider.ts';
import type { Event, StoredEvent } from '../../../src/domain/events/event.ts';
import { schemaVersion } from '../../../src/domain/events/upcast.ts';
import type { KeyCommand } from '../../../src/domain/key.ts';
import { keyDecider } from '../../../src/domain/key.ts';
import type { TransferCommand } from '../../../src/domain/transfers/decider.ts';
import { transferDecider } from '../../../src/domain/transfers/decider.ts';
import type { WebhookCommand } from '../../../src/domain/webhook.ts';
import { webhookDecider } from '../../../src/domain/webhook.ts';
import { outcomeOf } from './decider.ts';
import {
  endpointConfigured,
  FIGURES,
  keyCreated,
  started,
  T1,
  T2,
  TRANSFER_EVENTS,
  transferCreated,
  webhookRegistered,
} from './samples.ts';

/** A log of events in memory, with the revisions and positions of an event store. */
export function createLog() {
  const events: StoredEvent[] = [];
  const revisions = new Map<string, number>();
  return {
    events,
    append(stream: string, event: Event): StoredEvent {
      const position = BigInt(events.length + 1);
      const revision = (revisions.get(stream) ?? -1) + 1;
      revisions.set(stream, revision);
      const stored: StoredEvent = {
        ...event,
        id: `evt_${String(position).padStart(26, '0')}`,
        schema_version: schemaVersion(event.type),
        metadata: {
          actor: 'test',
          account_id: null,
          correlation_id: 'test',
          causation_id: null,
          occurred_at: T1,
          prev_hash: null,
        },
        stream,
        revision,
        position,
      };
      events.push(stored);
      return stored;
    },
  };
}

const HOUR_MS = 3_600_000;

/**
 * The request for the transfer with this number. The transfers belong to two accounts and are
 * created an hour apart, two by two.
 */
function transferCommand(number: number): fc.Arbitrary<TransferCommand> {
  const data = transferCreated({
    transfer_id: `txr_${number}`,
    account_id: number % 3 === 0 ? 'acc_b' : 'acc_a',
    ...(number % 2 === 0 && { batch_id: `bat_${number % 3}` }),
    created_at: new Date(
      Date.parse('2026-03-01T09:59:59.999Z') + Math.floor(number / 2) * HOUR_MS + (number % 2),
    ).toISOString(),
  });
  const { completed, retry } = TRANSFER_EVENTS;
  const fail = { code: 'timeout', message: 'no answer', phase: 'read' } as const;
  return fc.constantFrom<TransferCommand>(
    { type: 'create', data },
    { type: 'admit' },
    { type: 'start', data: started() },
    { type: 'complete', claim_id: 'clm_1', data: completed.data },
    {
      type: 'fail_attempt',
      claim_id: 'clm_1',
      failure: fail,
      figures: { ...retry.data },
      resumed_bytes: 0,
      retry_delays: [1],
      now: T1,
    },
    { type: 'lose_mover', claim_id: 'clm_1', figures: FIGURES, committing: null, now: T1 },
    { type: 'cancel', now: T1 },
    { type: 'set_priority', priority: 'high', now: T1 },
  );
}

function endpointCommand(number: number): fc.Arbitrary<EndpointCommand> {
  const configured = endpointConfigured({
    endpoint_id: `end_${number}`,
    name: `endpoint-${number}`,
  });
  const { max_connections: _, ...definition } = configured;
  return fc.oneof(
    fc.constantFrom<EndpointCommand>(
      { type: 'configure', data: configured },
      { type: 'pause' },
      { type: 'resume' },
      { type: 'remove' },
    ),
    fc.integer({ min: 1, max: 9 }).map((max_connections): EndpointCommand => {
      return {
        type: 'update',
        definition: { ...definition, max_connections },
        credentials: { credentials_record: 'vlt_2', sign_in: 'password' },
      };
    }),
  );
}

function keyCommand(number: number): fc.Arbitrary<KeyCommand> {
  const data = keyCreated({
    key_id: `key_${number}`,
    sha256: String(number),
    scopes: ['admin', 'audit:read'],
  });
  return fc.constantFrom<KeyCommand>(
    { type: 'create', data },
    { type: 'revoke', now: T1 },
    { type: 'announce_expiry', now: '2026-03-10T10:00:00.000Z' },
  );
}

function webhookCommand(number: number): fc.Arbitrary<WebhookCommand> {
  const data = webhookRegistered({ webhook_id: `whk_${number}`, account_id: `acc_${number % 2}` });
  return fc.constantFrom<WebhookCommand>(
    { type: 'register', data },
    { type: 'update', changes: { enabled: false }, now: T1 },
    { type: 'update', changes: { enabled: true, events: ['key.expiring_soon'] }, now: T1 },
    { type: 'rotate_secret', secret_record: 'vlt_2', previous_until: T2, now: T1 },
    { type: 'rotate_secret', secret_record: 'vlt_3', previous_until: null, now: T1 },
    { type: 'remove', now: T1 },
  );
}

/**
 * Returns logs of random commands to a few streams each, interleaved, as the deciders answer them.
 */
export const transferLogs = logs('transfer-txr_', 6, transferDecider, transferCommand);
export const catalogLogs: fc.Arbitrary<StoredEvent[]> = fc
  .tuple(
    logs('endpoint-end_', 3, endpointDecider, endpointCommand),
    logs('key-key_', 3, keyDecider, keyCommand),
    logs('webhook-whk_', 3, webhookDecider, webhookCommand),
  )
  .map((all) => all.flat().map((event, i) => ({ ...event, position: BigInt(i + 1) })));

function logs<State, Command, E extends Event>(
  prefix: string,
  streams: number,
  decider: Decider<State, Command, E>,
  command: (number: number) => fc.Arbitrary<Command>,
): fc.Arbitrary<StoredEvent[]> {
  const step = fc
    .nat(streams - 1)
    .chain((number) => command(number).map((asked) => ({ stream: prefix + number, asked })));
  return fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }).map((steps) => {
    const log = createLog();
    for (const { stream, asked } of steps) {
      const history = log.events.filter((event) => event.stream === stream);
      const outcome = outcomeOf(decider, history, asked);
      if (typeof outcome !== 'string') for (const event of outcome) log.append(stream, event);
    }
    return log.events;
  });
}
