/*
 * The first attempts of new deliveries, by the process that runs the outbox. They begin before the
 * deliveries are saved, so a delivery that ends soon is written once, with its outcome.
 *
 * The outbox offers each batch that changes no webhook. A delivery is attempted at once if its
 * webhook is quick and has a free place, and if nothing else of the webhook is due, in the table or
 * in a batch that is not saved yet. So what has waited longer goes first, and the events of a
 * transfer keep their order. Every other delivery is saved as pending, and deliverers claim it. An
 * attempt that is still under way when the batch is saved gets a row with its claim, and its
 * outcome is recorded as of any other claim.
 *
 * Once a delivery is left to the deliverers, all that follow of its webhook are, until none is due.
 * Each costs twice as much then. So while the outbox is behind the log, it waits for webhooks that
 * will have places soon, and it waits longer for outcomes. Webhooks that are slow delay nothing.
 *
 * What can go wrong:
 * - A batch is not saved. Its events come again, and so do the requests that were made. Until a
 *   batch has been saved again, no first attempt is made here. So a database that is full, or a
 *   process that crashes at each start, does not repeat the same requests again and again.
 * - The process is killed. The events of the last two batches come again.
 * - The process is frozen, and another one runs the outbox meanwhile. When it continues, it may make
 *   attempts that the other has made. It makes none that it began to prepare 10 s ago.
 * - A replay saves a delivery of the batch first. That delivery stays as it is.
 *
 * attempted-batch.ts makes the attempts of one batch.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../../../domain/ids.ts';
import type { Webhook } from '../../../domain/webhook.ts';
import { type Clock, findDueWebhooks } from '../delivery-table/claim.ts';
import { asRows, type NewDelivery } from '../delivery-table/insert.ts';
import {
  type AllBatches,
  AT_ONCE,
  type AttemptedBatch,
  type AttemptedBatchDeps,
  attemptBatch,
  placesInAll,
  placesOf,
} from './attempted-batch.ts';
import { QUICK_MS } from './concurrency-limits.ts';

/** A webhook is prompt if its last request took less; while the outbox is behind, the second. */
const PROMPT_MS = 25;
const PROMPT_BEHIND_MS = 100;
/** How long a batch waits for places, and the pause between two looks. */
const PLACES_WITHIN_MS = 100;
const LOOK_MS = 10;

/** A batch of new deliveries. */
export interface NewBatch {
  deliveries: NewDelivery[];
  /** The webhooks of the deliveries, by id. */
  webhooks: ReadonlyMap<string, Webhook>;
  /** True if the batch is full, so the log may have further events. */
  isBehind: boolean;
}

/** Makes first attempts of the deliveries of a batch. */
export type AttemptFirst = (batch: NewBatch) => Promise<AttemptedBatch>;

export interface FirstAttemptsDeps extends AttemptedBatchDeps {
  clock?: Clock | undefined;
}

export function createFirstAttempts(deps: FirstAttemptsDeps): AttemptFirst {
  const { sql, limits, signal, clock } = deps;
  const all: AllBatches = {
    lastBatchSaved: false,
    openClaimIds: new Set(),
    earlierWork: new Map(),
    openAttempts: new Map(),
    waitingAttempts: 0,
    lastAttempts: new Map(),
  };

  const isFree = (webhookId: string) =>
    all.lastBatchSaved &&
    !signal.aborted &&
    limits.answersWithin(QUICK_MS, webhookId) &&
    !all.earlierWork.has(webhookId);

  /** Returns the webhooks of which nothing else is due, and the time by the claims' clock. */
  async function findIdle(
    webhookIds: string[],
    transferIds: string[],
  ): Promise<{ idle: Set<string>; now: string }> {
    const free = webhookIds.filter(isFree);
    if (free.length === 0) return { idle: new Set(), now: '' };
    const claimIds = [...all.openClaimIds];
    const { due, now } = await findDueWebhooks(sql, free, transferIds, claimIds, clock);
    // Work may have been released meanwhile.
    return { idle: new Set(free.filter((id) => !due.includes(id) && isFree(id))), now };
  }

  /** Returns true if prompt webhooks lack places or have work that is due. Both may soon end. */
  function mustWait(deliveries: NewDelivery[], idle: Set<string>): boolean {
    if (!all.lastBatchSaved) return false;
    const prompt = deliveries.filter(({ webhook_id }) =>
      limits.answersWithin(PROMPT_BEHIND_MS, webhook_id),
    );
    if (prompt.length === 0) return false;
    if (placesInAll(limits, all) < Math.min(prompt.length, AT_ONCE)) return true;
    const byWebhook = Map.groupBy(prompt, ({ webhook_id }) => webhook_id);
    return [...byWebhook].some(([webhookId, { length }]) => {
      const places = placesOf(limits, webhookId, PROMPT_BEHIND_MS);
      const free = places - (all.openAttempts.get(webhookId) ?? 0);
      return !idle.has(webhookId) || free < Math.min(length, places);
    });
  }

  return async ({ deliveries, webhooks, isBehind }) => {
    const until = performance.now() + (isBehind ? PLACES_WITHIN_MS : 0);
    const transferIds = new Set(deliveries.flatMap(({ transfer_id }) => transfer_id ?? []));
    for (;;) {
      const claimedMark = performance.now();
      const { idle, now } = await findIdle([...webhooks.keys()], [...transferIds]);
      if (performance.now() < until && !signal.aborted && mustWait(deliveries, idle)) {
        await sleep(LOOK_MS);
        continue;
      }
      const claim = { claim_id: newId('clm'), claimedAt: Date.parse(now), claimedMark };
      const promptMs = isBehind ? PROMPT_BEHIND_MS : PROMPT_MS;
      const batch = { rows: asRows(deliveries), webhooks, idle, promptMs, claim, now };
      return attemptBatch(deps, all, batch);
    }
  };
}
