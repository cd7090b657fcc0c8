/*
 * The first attempts of new deliveries, by the process that runs the outbox. They begin before the
 * deliveries are stored, so a delivery that ends soon is written once, with its outcome.
 *
 * The outbox offers each batch. A delivery is attempted at once if its webhook is prompt, and if
 * nothing else of the webhook is due, in the table or in this batch. So what has waited longer goes
 * first, and the events of a transfer keep their order. Every other delivery is stored as pending,
 * and deliverers claim it. An attempt that is still under way when the batch is stored gets a row
 * with its claim, and its outcome is recorded as of any other claim.
 *
 * What can go wrong:
 * - A batch is not stored. Its events come again, and so do the requests that were made. Until a
 *   batch has been stored again, no first attempt is made here. So a database that is full, or a
 *   process that crashes at each start, does not repeat the same requests again and again.
 * - The process is killed. The events of the last two batches come again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { newId } from '../../domain/ids.ts';
import type { Webhook } from '../../domain/webhook.ts';
import { type ConcurrencyLimits, QUICK_MS } from './concurrency-limits.ts';
import {
  type Attempt,
  announceDeliveries,
  type Claim,
  type Clock,
  type DeliveryRow,
  findDueWebhooks,
  type NewDelivery,
} from './table.ts';

/** The rows of a batch wait for the outcomes of webhooks whose last request took less. */
const PROMPT_MS = 25;
const WAIT_MS = 100;

/** A claim with its time by the claims' clock (epoch ms) and by `performance.now()`. */
export type Claimed = Claim & {
  claimedAt: number;
  claimedMark: number;
  /** Only if the delivery was not stored when it was claimed. */
  first?: FirstAttempt;
};

/** What the deliverer reports of a first attempt. */
export interface FirstAttempt {
  /** The attempt has ended. Returns false if its row is stored without the outcome. */
  end(attempt: Attempt): boolean;
  /** The attempt will not be made. Returns false if its row is stored with the claim. */
  release(): boolean;
  /** The claim has ended. Can be called again. */
  over(): void;
  /** Resolves to true when the row is stored, and to false if it never will be. */
  stored: Promise<boolean>;
}

/** The rows of a batch. */
export interface FirstAttempts {
  /** Resolves when the attempts have ended, or after 100 ms. Slow webhooks do not delay it. */
  ready: Promise<void>;
  /** Returns the rows to store. An attempt that ends later is recorded by its deliverer. */
  rows(): DeliveryRow[];
  /** The rows are stored, or never will be. */
  ended(stored: boolean): void;
}

/** Makes first attempts of the deliveries of a batch. `webhooks` has the webhooks by id. */
export type AttemptFirst = (
  deliveries: NewDelivery[],
  webhooks: ReadonlyMap<string, Webhook>,
) => Promise<FirstAttempts>;

export interface FirstAttemptsDeps {
  sql: Sql;
  limits: ConcurrencyLimits<Claimed>;
  /** Releases claims whose attempt is not made. */
  release(claimed: Claimed[]): Promise<void>;
  /** After it aborts, no attempt begins. */
  signal: AbortSignal;
  clock?: Clock | undefined;
}

export function createFirstAttempts({
  sql,
  limits,
  release,
  signal,
  clock,
}: FirstAttemptsDeps): AttemptFirst {
  /** True if the last batch was stored. */
  let trusted = false;
  /** Claims that have not ended, of all batches. */
  const claims = new Set<string>();
  /** How many batches that are not stored yet leave deliveries of a webhook to the deliverers. */
  const leftOf = new Map<string, number>();
  /** The last attempt under way of a webhook and transfer. False if it will not be made. */
  const underWay = new Map<string, Promise<boolean>>();

  /** Returns the webhooks of which nothing else is due, and the time by the claims' clock. */
  async function findIdle(webhookIds: string[]): Promise<{ idle: Set<string>; now: string }> {
    const quick = webhookIds.filter((id) => limits.answersWithin(QUICK_MS, id) && !leftOf.has(id));
    if (!trusted || signal.aborted || quick.length === 0) return { idle: new Set(), now: '' };
    const { due, now } = await findDueWebhooks(sql, quick, [...claims], clock);
    return { idle: new Set(quick.filter((id) => !due.includes(id))), now };
  }

  return async (deliveries, webhooks) => {
    const { idle, now } = await findIdle([...webhooks.keys()]);
    const claim = {
      claim_id: newId('clm'),
      claimedAt: Date.parse(now),
      claimedMark: performance.now(),
    };
    const { promise: stored, resolve: resolveStored } = Promise.withResolvers<boolean>();
    let isOpen = true;
    let places = limits.capacity().healthy;
    let unended = 0;
    const left = new Set<string>();
    const awaited: Promise<boolean>[] = [];
    const rows = deliveries.map((delivery): DeliveryRow => {
      const row = {
        ...delivery,
        id: newId('dlv'),
        created_at: null,
        claim_id: null,
        attempt: null,
      };
      const webhook = webhooks.get(row.webhook_id);
      if (webhook && idle.has(row.webhook_id) && places-- > 0) begin(row, webhook);
      else leave(row);
      return row;
    });

    /** Leaves a delivery to the deliverers. Nothing of its webhook that follows overtakes it. */
    function leave({ webhook_id }: DeliveryRow): void {
      idle.delete(webhook_id);
      if (left.has(webhook_id)) return;
      left.add(webhook_id);
      leftOf.set(webhook_id, (leftOf.get(webhook_id) ?? 0) + 1);
    }

    function begin(row: DeliveryRow, webhook: Webhook): void {
      const { promise: made, resolve } = Promise.withResolvers<boolean>();
      Object.assign(row, { created_at: now, claim_id: claim.claim_id });
      if (limits.answersWithin(PROMPT_MS, row.webhook_id)) awaited.push(made);
      const before = follow(row, made);
      const work = {
        ...row,
        ...settingsOf(webhook),
        ...claim,
        tries: 0,
        first: firstOf(row, resolve),
      };
      if (before === undefined) limits.add(row.webhook_id, work);
      else
        void before.then((ended) => {
          if (ended) limits.add(row.webhook_id, work);
          else void release([work]);
        });
    }

    function firstOf(row: DeliveryRow, made: (ended: boolean) => void): FirstAttempt {
      let isOver = false;
      unended++;
      claims.add(claim.claim_id);
      function over(): void {
        if (isOver) return;
        isOver = true;
        if (--unended === 0) claims.delete(claim.claim_id);
      }
      return {
        stored,
        over,
        end(attempt) {
          made(true);
          if (isOpen) Object.assign(row, { attempt, claim_id: null });
          return isOpen;
        },
        release() {
          made(false);
          if (isOpen) {
            row.claim_id = null;
            leave(row);
            over();
          }
          return isOpen;
        },
      };
    }

    return {
      ready: awaited.length === 0 ? Promise.resolve() : withinLimit(awaited),
      rows() {
        isOpen = false;
        return rows;
      },
      ended(isStored) {
        isOpen = false;
        trusted = isStored;
        resolveStored(isStored);
        for (const id of left) {
          const others = (leftOf.get(id) ?? 0) - 1;
          if (others > 0) leftOf.set(id, others);
          else leftOf.delete(id);
        }
        // If it fails, the deliverers find the rows when they poll.
        if (isStored && left.size > 0) announceDeliveries(sql).catch(() => undefined);
      },
    };
  };

  /** Returns the attempt before, of the same webhook and transfer, if it is under way. */
  function follow(
    { webhook_id, transfer_id }: NewDelivery,
    made: Promise<boolean>,
  ): Promise<boolean> | undefined {
    if (transfer_id === null) return undefined;
    const key = `${webhook_id} ${transfer_id}`;
    const before = underWay.get(key);
    underWay.set(key, made);
    void made.then(() => {
      if (underWay.get(key) === made) underWay.delete(key);
    });
    return before;
  }
}

async function withinLimit(attempts: Promise<boolean>[]): Promise<void> {
  await Promise.race([Promise.all(attempts), sleep(WAIT_MS)]);
}

function settingsOf({ url, secret_record, previous }: Webhook) {
  return {
    url,
    secret_record,
    previous_secret_record: previous?.secret_record ?? null,
    previous_until: previous?.until ?? null,
  };
}
