/*
 * The first attempts of new deliveries, by the process that runs the outbox. They begin before the
 * deliveries are stored, so a delivery that ends soon is written once, with its outcome.
 *
 * The outbox offers each batch that changes no webhook. A delivery is attempted at once if its
 * webhook is quick and has a free place, and if nothing else of the webhook is due, in the table or
 * in a batch that is not stored yet. So what has waited longer goes first, and the events of a
 * transfer keep their order. Every other delivery is stored as pending, and deliverers claim it. An
 * attempt that is still under way when the batch is stored gets a row with its claim, and its
 * outcome is recorded as of any other claim.
 *
 * What can go wrong:
 * - A batch is not stored. Its events come again, and so do the requests that were made. Until a
 *   batch has been stored again, no first attempt is made here. So a database that is full, or a
 *   process that crashes at each start, does not repeat the same requests again and again.
 * - The process is killed. The events of the last two batches come again.
 * - The process is frozen, and another one runs the outbox meanwhile. When it continues, it may make
 *   attempts that the other has made. It makes none that it began to prepare 10 s ago.
 * - A replay stores a delivery of the batch first. That delivery stays as it is.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { newId } from '../../domain/ids.ts';
import type { Webhook } from '../../domain/webhook.ts';
import { type ConcurrencyLimits, QUICK_MS } from './concurrency-limits.ts';
import { type Attempt, type Claim, type Clock, findDueWebhooks } from './delivery-table/claim.ts';
import { asRows, type DeliveryRow, type NewDelivery } from './delivery-table/insert.ts';
import { announceDeliveries } from './delivery-table/pending.ts';

/** The rows of a batch wait for the outcomes of webhooks whose last request took less. */
const PROMPT_MS = 25;
/** How long they wait. */
const WAIT_MS = 100;
/** Batches that are not stored yet: one is prepared while another is stored. */
const BATCHES = 2;

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
  /** Returns true if the batch could not be stored. */
  isLost(): boolean;
  /** Resolves when the batch is stored, or that has failed. */
  settled: Promise<void>;
}

/** The rows of a batch. */
export interface FirstAttempts {
  /** Resolves when the attempts have ended, or after 100 ms. Slow webhooks do not delay it. */
  ready: Promise<void>;
  /** Returns the rows to store. An attempt that ends later is recorded by its deliverer. */
  rows(): DeliveryRow[];
  /** The rows are stored, or that has failed. */
  settled(stored: boolean): void;
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
  /** Reasons to make no first attempt for a webhook, counted. */
  const heldBack = new Map<string, number>();
  /** First attempts of a webhook that have not ended. */
  const open = new Map<string, number>();
  /** Of these, those that wait for an earlier one of their transfer. */
  let queued = 0;
  /** The last attempt under way of a webhook and transfer. False if it will not be made. */
  const underWay = new Map<string, Promise<boolean>>();

  const isFree = (webhookId: string) =>
    trusted &&
    !signal.aborted &&
    limits.answersWithin(QUICK_MS, webhookId) &&
    !heldBack.has(webhookId);

  /** Returns the webhooks of which nothing else is due, and the time by the claims' clock. */
  async function findIdle(webhookIds: string[]): Promise<{ idle: Set<string>; now: string }> {
    const free = webhookIds.filter(isFree);
    if (free.length === 0) return { idle: new Set(), now: '' };
    const { due, now } = await findDueWebhooks(sql, free, [...claims], clock);
    // Work may have been released meanwhile.
    return { idle: new Set(free.filter((id) => !due.includes(id) && isFree(id))), now };
  }

  return async (deliveries, webhooks) => {
    const claimedMark = performance.now();
    const { idle, now } = await findIdle([...webhooks.keys()]);
    const claim = { claim_id: newId('clm'), claimedAt: Date.parse(now), claimedMark };
    const { promise: settled, resolve: settle } = Promise.withResolvers<void>();
    let [isOpen, isLost] = [true, false];
    let places = limits.capacity().healthy - queued;
    let unended = 0;
    /** Webhooks with rows for the deliverers. */
    const withRows = new Set<string>();
    /** Webhooks with claims that were released after their rows had left. */
    const released: string[] = [];
    const awaited: Promise<boolean>[] = [];
    const rows = asRows(deliveries);
    for (const row of rows) {
      const webhook = webhooks.get(row.webhook_id);
      if (webhook && places > 0 && hasPlace(row)) begin(row, webhook);
      else leave(row);
    }

    function hasPlace({ webhook_id }: DeliveryRow): boolean {
      if (!idle.has(webhook_id)) return false;
      // The batches of prompt webhooks are stored soon.
      const batches = limits.answersWithin(PROMPT_MS, webhook_id) ? BATCHES : 1;
      return (open.get(webhook_id) ?? 0) < limits.places(webhook_id) * batches;
    }

    /** Leaves a delivery to the deliverers. Nothing of its webhook that follows overtakes it. */
    function leave({ webhook_id }: DeliveryRow): void {
      idle.delete(webhook_id);
      if (withRows.has(webhook_id)) return;
      withRows.add(webhook_id);
      change(heldBack, webhook_id, 1);
    }

    function begin(row: DeliveryRow, webhook: Webhook): void {
      const { promise: made, resolve } = Promise.withResolvers<boolean>();
      places--;
      change(open, row.webhook_id, 1);
      void made.then(() => change(open, row.webhook_id, -1));
      Object.assign(row, { created_at: now, claim_id: claim.claim_id });
      if (limits.answersWithin(PROMPT_MS, row.webhook_id)) awaited.push(made);
      const before = follow(row, made);
      const first = firstOf(row, resolve);
      const work = { ...row, ...settingsOf(webhook), ...claim, tries: 0, first };
      if (before === undefined) limits.add(row.webhook_id, work);
      else {
        queued++;
        void before.then((ended) => {
          queued--;
          if (ended && !signal.aborted) limits.add(row.webhook_id, work);
          else void release([work]);
        });
      }
    }

    function firstOf(row: DeliveryRow, made: (ended: boolean) => void): FirstAttempt {
      let isOver = false;
      unended++;
      claims.add(claim.claim_id);
      function over(): void {
        if (isOver) return;
        isOver = true;
        if (--unended > 0) return;
        claims.delete(claim.claim_id);
        for (const id of released) change(heldBack, id, -1);
      }
      return {
        settled,
        isLost: () => isLost,
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
          } else if (!isOver) {
            // Its row looks like one under way until the claim has ended.
            released.push(row.webhook_id);
            change(heldBack, row.webhook_id, 1);
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
      settled(isStored) {
        isOpen = false;
        isLost = !isStored;
        trusted = isStored;
        settle();
        for (const id of withRows) change(heldBack, id, -1);
        // If it fails, the deliverers find the rows when they poll.
        if (isStored && withRows.size > 0) announceDeliveries(sql).catch(() => undefined);
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

/** Adds to a count, and removes it at 0. */
function change(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
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
