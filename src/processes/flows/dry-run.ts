import type { DryRun } from '../../contract/flows/answers.ts';
import type { Flow } from '../../domain/flows/flow.ts';
import { createDestinations } from './destinations.ts';
import { type ExamineDeps, type Examined, examine } from './examine.ts';

const SHOWN = 1_000;

/**
 * Returns what a run of a flow would do with the files that its folder has now. Takes nothing. A
 * listing that the signal ends is `truncated`.
 */
export async function dryRun(deps: ExamineDeps, flow: Flow, signal: AbortSignal): Promise<DryRun> {
  const answer: DryRun = {
    counts: { take: 0, wait: 0, taken: 0, reject: 0 },
    data: [],
    error: null,
    truncated: false,
  };
  const destinations = createDestinations(flow);
  const at = new Date();
  const wanted = { through: null, at, destinations, remember: false, retries: false };
  for await (const one of examine(deps, flow, wanted, signal)) {
    if ('failure' in one) {
      answer.error ??= one.failure;
      continue;
    }
    const shown = toShown(one);
    answer.counts[shown.decision]++;
    if (answer.data.length < SHOWN) answer.data.push(shown);
    else answer.truncated = true;
  }
  if (signal.aborted) answer.truncated = true;
  return answer;
}

function toShown(one: Exclude<Examined, { failure: unknown }>): DryRun['data'][number] {
  const { path, entry, decision, reason } = one;
  const item = one.decision === 'take' ? one.item : null;
  const isRejected = item !== null && 'error' in item;
  return {
    path,
    size: entry?.size ?? null,
    modified_at: entry?.modified_at ?? null,
    decision: isRejected ? 'reject' : decision,
    reason: isRejected ? item.error.message : reason,
    destination_uri: item === null || isRejected ? null : item.destination_uri,
  };
}
