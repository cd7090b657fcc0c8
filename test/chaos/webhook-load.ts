import { randomBytes } from 'node:crypto';
import { type ChaosClient, textOf } from './client.ts';
import type { WebhookRecord } from './evidence.ts';
import type { ReceiverName } from './plan.ts';
import type { Random } from './random.ts';
import type { Receivers, Subscription } from './receivers.ts';
import type { EvidenceWriter } from './writer.ts';

const EVENTS: Record<ReceiverName, string[]> = {
  'receiver-1': [
    'transfer.created',
    'transfer.in_progress',
    'transfer.completed',
    'transfer.failed',
    'transfer.cancelled',
  ],
  'receiver-2': [
    'transfer.completed',
    'transfer.failed',
    'batch.completed',
    'flow.run_completed',
    'flow.run_failed',
    'flow.recovered',
  ],
  'receiver-3': [
    'transfer.completed',
    'transfer.marker_written',
    'transfer.marker_failed',
    'transfer.source_deleted',
    'transfer.source_moved',
    'transfer.source_kept',
  ],
  'receiver-4': ['transfer.created', 'transfer.cancelled', 'endpoint.connectivity_lost'],
};

export interface WebhookLoad {
  /** Registers a webhook; false if the service has not confirmed it. */
  register(receiver: ReceiverName): Promise<boolean>;
  /** Removes the webhook that was registered last, but none of the first ones. */
  removeLast(): Promise<void>;
  /** Replays the last seconds to one webhook. */
  replay(random: Random): Promise<void>;
  /** Moves a webhook to another address of the same receiver. */
  move(random: Random): Promise<void>;
  rotateSecret(random: Random): Promise<void>;
  retryFailed(random: Random): Promise<void>;
  /** Looks up the results of requests without an answer. Call it after all faults are lifted. */
  finish(): Promise<void>;
  /** Writes the webhooks into the evidence. */
  record(): void;
}

/** Acts as clients do with webhooks. Those that `keep` registers stay to the end of the run. */
export function webhookLoad(
  client: ChaosClient,
  receivers: Receivers,
  evidence: EvidenceWriter,
  keep: number,
): WebhookLoad {
  const registered: { record: WebhookRecord; subscription: Subscription }[] = [];
  let keys = 0;
  const key = (what: string) => `chaos-${what}-${++keys}`;
  const unknown: (() => Promise<boolean>)[] = [];
  const leaving = new Set<string>();
  const alive = () => registered.filter(({ record }) => !leaving.has(record.webhookId));
  /** Returns null while none is registered: on a busy machine, that takes a while. */
  const pickOne = (random: Random) => (alive().length > 0 ? random.pick(alive()) : null);

  async function register(receiver: ReceiverName): Promise<boolean> {
    const subscription = receivers.subscribe(receiver);
    const secret = randomBytes(18).toString('hex');
    subscription.accept(secret);
    const events = EVENTS[receiver];
    const body = { url: subscription.url, events, secret };
    const idempotencyKey = key('register');
    return untilKnown(async () => {
      const answer = await client.send(
        { kind: 'other', what: 'register webhook' },
        { method: 'POST', path: '/webhooks', body, idempotencyKey },
      );
      const webhookId = answer?.status === 201 ? textOf(answer, 'id') : null;
      if (webhookId === null) return false;
      subscription.registered(webhookId);
      const registeredAt = new Date().toISOString();
      registered.push({
        record: { webhookId, url: subscription.url, events, registeredAt, removedAt: null },
        subscription,
      });
      return true;
    });
  }

  /**
   * Requests without an answer: the record does not say whether they happened, so the end asks
   * again.
   */
  async function untilKnown(ask: () => Promise<boolean>): Promise<boolean> {
    const known = await ask();
    if (!known) unknown.push(ask);
    return known;
  }

  return {
    register,
    async removeLast() {
      const last = alive().slice(keep).at(-1);
      if (!last) return;
      const { record } = last;
      const removedAt = new Date().toISOString();
      leaving.add(record.webhookId);
      await untilKnown(async () => {
        const path = `/webhooks/${record.webhookId}`;
        const answer = await client.send(
          { kind: 'other', what: 'remove webhook' },
          { method: 'DELETE', path },
        );
        // Not found: an earlier attempt has removed it, and its answer was lost.
        if (answer?.status !== 204 && answer?.status !== 404) return false;
        record.removedAt = removedAt;
        return true;
      });
    },
    async replay(random) {
      const picked = pickOne(random);
      if (picked === null) return;
      const { record } = picked;
      const body = { from: new Date(Date.now() - random.whole(1_000, 20_000)).toISOString() };
      const path = `/webhooks/${record.webhookId}/replay`;
      await client.send(
        { kind: 'other', what: 'replay webhook' },
        { method: 'POST', path, body, idempotencyKey: key('replay') },
      );
    },
    async move(random) {
      const picked = pickOne(random);
      if (picked === null) return;
      const { record, subscription } = picked;
      const path = `/webhooks/${record.webhookId}`;
      await client.send(
        { kind: 'other', what: 'change webhook' },
        { method: 'PATCH', path, body: { url: subscription.nextUrl() } },
      );
    },
    async rotateSecret(random) {
      const picked = pickOne(random);
      if (picked === null) return;
      const { record, subscription } = picked;
      const secret = random.chance(0.5)
        ? `whsec_${randomBytes(24).toString('base64')}`
        : randomBytes(18).toString('hex');
      subscription.accept(secret);
      const path = `/webhooks/${record.webhookId}/rotate-secret`;
      const body = { secret, grace: random.pick(['0s', '5s', '24h']) };
      await client.send(
        { kind: 'other', what: 'rotate secret' },
        { method: 'POST', path, body, idempotencyKey: key('secret') },
      );
    },
    async retryFailed(random) {
      const picked = pickOne(random);
      if (picked === null) return;
      const { record } = picked;
      const path = `/webhooks/${record.webhookId}/retry-failed`;
      await client.send(
        { kind: 'other', what: 'retry failed' },
        { method: 'POST', path, idempotencyKey: key('retry') },
      );
    },
    async finish() {
      for (const ask of unknown.splice(0)) await ask();
    },
    record() {
      for (const { record } of registered) evidence.webhook(record);
    },
  };
}
