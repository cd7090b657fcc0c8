/*
 * The first attempts of one batch of deliveries. first-attempts.ts says when they are made, and
 * what can go wrong. `all` is what the batches have in common, `batch` is the state of this one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from '../../../adapters/postgres/connect.ts';
import type { Webhook } from '../../../domain/webhook.ts';
import type { Attempt, Claim } from '../delivery-table/claim.ts';
import type { DeliveryRow, NewDelivery } from '../delivery-table/insert.ts';
import { announceDeliveries } from '../delivery-table/pending.ts';
import type { ConcurrencyLimits } from './concurrency-limits.ts';

/** How long the rows of a batch wait for the outcomes of prompt webhooks. */
const OUTCOMES_WITHIN_MS = 100;
/** Batches that are not saved yet: one is prepared while another is saved. */
const BATCHES = 2;
/** First attempts of all webhooks under way at once. More would only make each of them slower. */
export const AT_ONCE = 512;

/** A claim with its time by the claims' clock (epoch ms) and by `performance.now()`. */
export type Claimed = Claim &
  ClaimTime & {
    /** Only if the delivery was not saved when it was claimed. */
    first?: FirstAttempt;
  };

interface ClaimTime {
  claimedAt: number;
  claimedMark: number;
}

/** What the deliverer reports of a first attempt, and what it asks about the batch. */
export interface FirstAttempt {
  /** The attempt has ended. Returns false if its row is saved without the outcome. */
  attemptEnded(attempt: Attempt): boolean;
  /**
   * The attempt will not be made, or could not be recorded. Returns false if its row is saved with
   * the claim.
   */
  attemptAbandoned(): boolean;
  /** The claim has ended. Can be called again. */
  claimEnded(): void;
  /** Returns true if the batch could not be saved. */
  isBatchLost(): boolean;
  /** Resolves when the batch is saved, or that has failed. */
  saveEnded: Promise<void>;
}

/** A batch whose first attempts have begun. */
export interface AttemptedBatch {
  /** Resolves when the attempts have ended, or after 100 ms. Slow webhooks do not delay it. */
  ready: Promise<void>;
  /** Returns the rows to save. An attempt that ends later is recorded by its deliverer. */
  rows(): DeliveryRow[];
  /** The batch is saved, or that has failed. */
  afterSave(saved: boolean): void;
}

type Limits = ConcurrencyLimits<Claimed>;

export interface AttemptedBatchDeps {
  sql: Sql;
  limits: Limits;
  /** Releases claims whose attempt is not made. */
  release(claimed: Claimed[]): Promise<void>;
  /** After it aborts, no attempt begins. */
  signal: AbortSignal;
}

/** What the batches have in common. */
export interface AllBatches {
  lastBatchSaved: boolean;
  /** Ids of claims that have not ended. */
  openClaimIds: Set<string>;
  /**
   * By webhook: the number of reasons why due work goes before its next first attempt, although no
   * row in the table shows that work as due.
   */
  earlierWork: Map<string, number>;
  /** By webhook: the number of first attempts that have not ended. */
  openAttempts: Map<string, number>;
  /** How many of these wait for an earlier one of their transfer. */
  waitingAttempts: number;
  /** By webhook and transfer: the last attempt that has not ended. Resolves to `wasMade`. */
  lastAttempts: Map<string, Promise<boolean>>;
}

/** A batch before its first attempts begin. */
interface OfferedBatch {
  rows: DeliveryRow[];
  webhooks: ReadonlyMap<string, Webhook>;
  /** Webhooks of which nothing else is due. */
  idle: Set<string>;
  /** A webhook is prompt if its last request took less. */
  promptMs: number;
  /** The claim of all its first attempts. */
  claim: { claim_id: string } & ClaimTime;
  /** The time of the claim, by the claims' clock. */
  now: string;
}

/** Returns how many more first attempts may begin, of all webhooks together. */
export function placesInAll(limits: Limits, { openAttempts, waitingAttempts }: AllBatches): number {
  const open = [...openAttempts.values()].reduce((sum, count) => sum + count, 0);
  return Math.min(AT_ONCE - open, limits.capacity().healthy - waitingAttempts);
}

/** Returns how many first attempts of a webhook may be under way. */
export function placesOf(limits: Limits, webhookId: string, promptMs: number): number {
  // The batches of prompt webhooks are saved soon.
  return limits.places(webhookId) * (limits.answersWithin(promptMs, webhookId) ? BATCHES : 1);
}

/** Begins the first attempts of a batch, and leaves its other deliveries to the deliverers. */
export function attemptBatch(
  { sql, limits, release, signal }: AttemptedBatchDeps,
  all: AllBatches,
  { rows, webhooks, idle, promptMs, claim, now }: OfferedBatch,
): AttemptedBatch {
  const { promise: saveEnded, resolve: endSave } = Promise.withResolvers<void>();
  const batch = {
    /** True once the rows have left to be saved. */
    rowsAreFinal: false,
    isLost: false,
    freePlaces: placesInAll(limits, all),
    /** The number of claims that have not ended. */
    openClaims: 0,
    /** Webhooks with rows for the deliverers. */
    leftToDeliverers: new Set<string>(),
    /** Webhooks of attempts that were abandoned after their rows had left, with a claim. */
    abandonedLate: [] as string[],
    /** The attempts that `ready` waits for. */
    promptAttempts: [] as Promise<boolean>[],
  };

  for (const row of rows) {
    const webhook = webhooks.get(row.webhook_id);
    if (webhook && batch.freePlaces > 0 && hasPlace(row)) begin(row, webhook);
    else leaveToDeliverers(row);
  }

  function hasPlace({ webhook_id }: DeliveryRow): boolean {
    const open = all.openAttempts.get(webhook_id) ?? 0;
    return idle.has(webhook_id) && open < placesOf(limits, webhook_id, promptMs);
  }

  /** Nothing of its webhook that follows overtakes it. */
  function leaveToDeliverers({ webhook_id }: DeliveryRow): void {
    idle.delete(webhook_id);
    if (batch.leftToDeliverers.has(webhook_id)) return;
    batch.leftToDeliverers.add(webhook_id);
    addToCount(all.earlierWork, webhook_id, 1);
  }

  function begin(row: DeliveryRow, webhook: Webhook): void {
    const { promise: wasMade, resolve: setMade } = Promise.withResolvers<boolean>();
    batch.freePlaces--;
    addToCount(all.openAttempts, row.webhook_id, 1);
    void wasMade.then(() => addToCount(all.openAttempts, row.webhook_id, -1));
    Object.assign(row, { created_at: now, claim_id: claim.claim_id });
    if (limits.answersWithin(promptMs, row.webhook_id)) batch.promptAttempts.push(wasMade);
    const before = follow(all.lastAttempts, row, wasMade);
    const first = firstAttempt(row, setMade);
    const work = { ...row, ...settingsOf(webhook), ...claim, tries: 0, first };
    if (before === undefined) limits.add(row.webhook_id, work);
    else {
      all.waitingAttempts++;
      void before.then((beforeWasMade) => {
        all.waitingAttempts--;
        if (beforeWasMade && !signal.aborted) limits.add(row.webhook_id, work);
        else void release([work]);
      });
    }
  }

  function firstAttempt(row: DeliveryRow, setMade: (wasMade: boolean) => void): FirstAttempt {
    let hasClaimEnded = false;
    batch.openClaims++;
    all.openClaimIds.add(claim.claim_id);
    function claimEnded(): void {
      if (hasClaimEnded) return;
      hasClaimEnded = true;
      if (--batch.openClaims > 0) return;
      all.openClaimIds.delete(claim.claim_id);
      for (const id of batch.abandonedLate) addToCount(all.earlierWork, id, -1);
    }
    return {
      saveEnded,
      isBatchLost: () => batch.isLost,
      claimEnded,
      attemptEnded(attempt) {
        setMade(true);
        if (!batch.rowsAreFinal) Object.assign(row, { attempt, claim_id: null });
        return !batch.rowsAreFinal;
      },
      attemptAbandoned() {
        setMade(false);
        if (!batch.rowsAreFinal) {
          row.claim_id = null;
          leaveToDeliverers(row);
          claimEnded();
        } else if (!hasClaimEnded) {
          // Its row looks like one under way until the claim has ended.
          batch.abandonedLate.push(row.webhook_id);
          addToCount(all.earlierWork, row.webhook_id, 1);
        }
        return !batch.rowsAreFinal;
      },
    };
  }

  return {
    ready:
      batch.promptAttempts.length === 0 ? Promise.resolve() : withinLimit(batch.promptAttempts),
    rows() {
      batch.rowsAreFinal = true;
      return rows;
    },
    afterSave(saved) {
      batch.rowsAreFinal = true;
      batch.isLost = !saved;
      all.lastBatchSaved = saved;
      endSave();
      for (const id of batch.leftToDeliverers) addToCount(all.earlierWork, id, -1);
      // If it fails, the deliverers find the rows when they poll.
      if (saved && batch.leftToDeliverers.size > 0) announceDeliveries(sql).catch(() => undefined);
    },
  };
}

/** Returns the attempt before, of the same webhook and transfer, if it has not ended. */
function follow(
  lastAttempts: AllBatches['lastAttempts'],
  { webhook_id, transfer_id }: NewDelivery,
  wasMade: Promise<boolean>,
): Promise<boolean> | undefined {
  if (transfer_id === null) return undefined;
  const key = `${webhook_id} ${transfer_id}`;
  const before = lastAttempts.get(key);
  lastAttempts.set(key, wasMade);
  void wasMade.then(() => {
    if (lastAttempts.get(key) === wasMade) lastAttempts.delete(key);
  });
  return before;
}

/** Adds to a count, and removes it at 0. */
function addToCount(counts: Map<string, number>, key: string, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

async function withinLimit(attempts: Promise<boolean>[]): Promise<void> {
  await Promise.race([Promise.all(attempts), sleep(OUTCOMES_WITHIN_MS)]);
}

function settingsOf({ url, secret_record, previous }: Webhook) {
  return {
    url,
    secret_record,
    previous_secret_record: previous?.secret_record ?? null,
    previous_until: previous?.until ?? null,
  };
}
