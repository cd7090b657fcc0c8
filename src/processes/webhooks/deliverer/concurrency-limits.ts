import type { Capacity, WebhookCapacity } from '../delivery-table/claim.ts';

/** Concurrency limit of a webhook: at first, at most and at least. */
const INITIAL_LIMIT = 8;
const MAX_LIMIT = 32;
const MIN_LIMIT = 2;
/**
 * Claims for each place of a quick webhook. Slow webhooks get one claim a place, because waiting
 * claims take capacity from all other webhooks.
 */
const CLAIMS_PER_PLACE = 8;
/** A webhook is quick if its last request took less. */
export const QUICK_MS = 250;
/**
 * Claims of all healthy webhooks together, and of all unproven ones. Webhooks that hang use up the
 * second number only, however many hang.
 */
const HEALTHY_CLAIMS = 2_048;
const UNPROVEN_CLAIMS = 512;
/** A webhook with requests under way that has answered none for this long counts as unproven. */
const SILENT_MS = 1_000;
/** Weight of the last attempt in the share of failed attempts: about the last eight count. */
const WEIGHT = 1 / 8;
/** A webhook with this share of failed attempts counts as down. A new webhook starts with it. */
const DOWN = 1 / 2;

/** A webhook without requests for this long is forgotten, and then counts as new. */
const FORGOTTEN_AFTER_MS = 60 * 60_000;

/**
 * Limits the concurrent requests to each webhook. Each delivered request raises the limit by one. A
 * failure halves it if more than half of the attempts fail, or if it took more than a second. A
 * single quick failure changes nothing. A webhook that is dead or hangs therefore soon has two
 * places, and takes none from the others. Work beyond the limit waits. Halving the limit releases
 * the waiting work unsent.
 */
export interface ConcurrencyLimits<Work> {
  capacity(): Capacity;
  /**
   * Returns true if the webhook is not down, its last request took less than `ms`, and those under
   * way have not all waited four times as long.
   */
  answersWithin(ms: number, webhookId: string): boolean;
  /** Returns how many claims a webhook may have at once. */
  places(webhookId: string): number;
  /** Begins the work as soon as its webhook has a free place. */
  add(webhookId: string, work: Work): void;
  /** Removes and returns the waiting work of all webhooks. */
  drain(): Work[];
}

interface Limit<Work> {
  limit: number;
  underWay: number;
  waiting: Work[];
  /** Share of failed attempts, 0 to 1. Recent attempts weigh most. */
  failing: number;
  /** Duration of the last request, in milliseconds. Infinity before the first one. */
  tookMs: number;
  /** When the last request ended, or the first of those under way began. */
  activeAt: number;
}

/** Whether the request was delivered, and how long it took until it had ended. */
export interface Done {
  delivered: boolean;
  tookMs: number;
}

export interface LimitedWork<Work> {
  /** Does the work. Resolves to null if no request was made. Never rejects. */
  begin(work: Work): Promise<Done | null>;
  /** Releases work that was not begun, so another process can take it. */
  release(works: Work[]): void;
  /**
   * Called when work has ended and its webhook has capacity for more claims. `isIdle`: it has no
   * other work.
   */
  onCapacity(work: Work, isIdle: boolean): void;
}

export function createConcurrencyLimits<Work>({
  begin,
  release,
  onCapacity,
}: LimitedWork<Work>): ConcurrencyLimits<Work> {
  const limits = new Map<string, Limit<Work>>();

  function limitOf(webhookId: string): Limit<Work> {
    const known = limits.get(webhookId) ?? {
      limit: INITIAL_LIMIT,
      underWay: 0,
      waiting: [],
      failing: DOWN,
      tookMs: Infinity,
      activeAt: 0,
    };
    limits.set(webhookId, known);
    return known;
  }

  function isSilent({ underWay, activeAt }: Limit<Work>, ms: number): boolean {
    return underWay > 0 && activeAt < performance.now() - ms;
  }

  /** Returns the free places. Returns 0 until half of them are free, so claims come in batches. */
  function freePlaces(webhook: Limit<Work>): number {
    const places = placesOf(webhook);
    const free = places - webhook.underWay - webhook.waiting.length;
    return free >= places / 2 ? free : 0;
  }

  function placesOf({ limit, failing, tookMs }: Limit<Work>): number {
    return failing < DOWN && tookMs < QUICK_MS ? limit * CLAIMS_PER_PLACE : limit;
  }

  /** Otherwise, a process would send every webhook that it has ever known with each claim. */
  function forgetIdle(): void {
    const since = performance.now() - FORGOTTEN_AFTER_MS;
    for (const [webhookId, { underWay, waiting, activeAt }] of limits)
      if (underWay === 0 && waiting.length === 0 && activeAt < since) limits.delete(webhookId);
  }

  async function run(webhook: Limit<Work>, work: Work): Promise<void> {
    if (webhook.underWay++ === 0) webhook.activeAt = performance.now();
    const done = await begin(work);
    webhook.underWay--;
    webhook.activeAt = performance.now();
    if (done !== null) adjust(webhook, done);
    advance(webhook);
    if (freePlaces(webhook) > 0) onCapacity(work, webhook.underWay === 0);
  }

  function adjust(webhook: Limit<Work>, { delivered, tookMs }: Done): void {
    webhook.tookMs = tookMs;
    webhook.failing += WEIGHT * ((delivered ? 0 : 1) - webhook.failing);
    if (delivered) webhook.limit = Math.min(MAX_LIMIT, webhook.limit + 1);
    else if (webhook.failing > DOWN || tookMs > SILENT_MS) {
      webhook.limit = Math.max(MIN_LIMIT, Math.floor(webhook.limit / 2));
      release(webhook.waiting.splice(0));
    }
  }

  function advance(webhook: Limit<Work>): void {
    while (webhook.underWay < webhook.limit) {
      const next = webhook.waiting.shift();
      if (next === undefined) return;
      void run(webhook, next);
    }
  }

  return {
    capacity() {
      forgetIdle();
      const left = { healthy: HEALTHY_CLAIMS, unproven: UNPROVEN_CLAIMS };
      const webhooks = new Map<string, WebhookCapacity>();
      for (const [webhookId, webhook] of limits) {
        const { failing, underWay, waiting } = webhook;
        const healthy = failing < DOWN && !isSilent(webhook, SILENT_MS);
        const held = underWay + waiting.length;
        left[healthy ? 'healthy' : 'unproven'] -= held;
        webhooks.set(webhookId, { free: freePlaces(webhook), held, healthy });
      }
      return {
        healthy: Math.max(0, left.healthy),
        unproven: Math.max(0, left.unproven),
        each: INITIAL_LIMIT,
        webhooks,
      };
    },
    answersWithin(ms, webhookId) {
      const webhook = limits.get(webhookId);
      if (webhook === undefined) return false;
      const { failing, tookMs } = webhook;
      return failing < DOWN && tookMs < ms && !isSilent(webhook, 4 * ms);
    },
    places: (webhookId) => placesOf(limitOf(webhookId)),
    add(webhookId, work) {
      const webhook = limitOf(webhookId);
      webhook.waiting.push(work);
      advance(webhook);
    },
    drain: () => [...limits.values()].flatMap(({ waiting }) => waiting.splice(0)),
  };
}
