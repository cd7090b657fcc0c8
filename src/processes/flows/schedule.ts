import type { Flow, OpenRun } from '../../domain/flows/flow.ts';
import { nextRun } from '../../domain/flows/trigger.ts';
import type { RunProgress } from '../../projections/flows/queries.ts';
import { nextOfAccounts, type OfAccount } from '../next-of-accounts.ts';
import type { Look } from './table.ts';

/** Flows whose folders are listed at a time. */
const LISTED_AT_ONCE = 10;
/** How many of them may be of one account. A partner that is down holds its listings for minutes. */
const LISTED_OF_ACCOUNT = 8;
/** By how much the clocks of two processes may differ. */
const CLOCKS_APART_MS = 60_000;

/**
 * Returns when a flow is listed next, in epoch ms: `now` or earlier if it is due. Null if only a
 * request can make it run. Runs that were missed count as one, because the trigger counts from the
 * last look. A look that is in the future counts as none: the clock of the process that looked was
 * wrong, and the flow would rest until then. For the same reason, the trigger counts from `seenAt`,
 * in epoch ms, if `scheduled_from` is later. It is when the caller first saw that `scheduled_from`.
 */
export function dueAt(flow: Flow, last: Look | null, now: number, seenAt: number): number | null {
  const look = last && Date.parse(last.began_at) - now <= CLOCKS_APART_MS ? last : null;
  const { status, trigger, requested, skipping, open_runs } = flow;
  if (skipping !== null) return look?.look_again_at ? Date.parse(look.look_again_at) : 0;
  if (open_runs.some(({ listed }) => !listed)) return 0;
  if (status === 'removed') return null;
  if (requested !== null) return 0;
  if (status === 'paused') return null;
  const scheduledFrom = Date.parse(flow.scheduled_from);
  const since = Math.min(scheduledFrom, seenAt);
  const began = look ? Date.parse(look.began_at) : Number.NEGATIVE_INFINITY;
  const from = Math.max(since, began);
  const again = look?.look_again_at ? Date.parse(look.look_again_at) : Number.POSITIVE_INFINITY;
  // The first look after the flow was created, changed or resumed. Once `scheduled_from` has come,
  // only it counts: no other process knows `seenAt`.
  const isFirst = began < (scheduledFrom <= now ? scheduledFrom : since);
  const scheduled = trigger && 'every' in trigger && isFirst ? from : null;
  const next = scheduled ?? (trigger && nextRun(trigger, new Date(from))?.getTime()) ?? null;
  const first = Math.min(again, next ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(first) ? first : null;
}

/**
 * Returns the open run that the next one waits for: one whose files move. Null if there is none. A
 * run whose files only wait for another attempt delays nothing.
 */
export function delaying(flow: Flow, progress: Map<string, RunProgress>): OpenRun | null {
  return (
    flow.open_runs.find(
      ({ listed, batch_id }) => listed && (progress.get(batch_id)?.moving ?? true),
    ) ?? null
  );
}

/** A flow that waits for a place to be listed, or that has one. */
export interface Turn extends OfAccount {
  /** Since when it waits, in epoch ms. A listing starts the wait for the next one. */
  since: number;
}

/**
 * Returns whose turn it is to be listed; null if no place is free for any. Of the accounts with the
 * fewest listings under way, it is that of the flow that waits for longest.
 */
export function nextTurn<Waiting extends Turn>(
  waiting: Waiting[],
  underWay: Turn[],
): Waiting | null {
  if (underWay.length >= LISTED_AT_ONCE) return null;
  const longestFirst = waiting.toSorted((a, b) => a.since - b.since);
  return nextOfAccounts(longestFirst, underWay, LISTED_OF_ACCOUNT);
}
