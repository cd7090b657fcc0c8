import { describe, expect, it } from 'vitest';
import { flowDecider } from '../../../src/domain/flows/decider.ts';
import type { Flow, FlowEvent } from '../../../src/domain/flows/flow.ts';
import { dueAt, nextTurn, type Turn } from '../../../src/processes/flows/schedule.ts';
import type { Look } from '../../../src/processes/flows/table.ts';
import { stateAfter } from '../../support/domain/decider.ts';
import { flowCreated, T0 } from '../../support/domain/samples.ts';

const MINUTE = 60_000;
const CREATED = Date.parse(T0);
const flow = (trigger: { every: string } | { cron: string; time_zone: string }): Flow => {
  const created: FlowEvent = { type: 'flow.created', data: flowCreated({ trigger }) };
  return stateAfter(flowDecider, [created]) as Flow;
};
const lookAt = (time: number, look_again_at: string | null = null): Look => ({
  began_at: new Date(time).toISOString(),
  succeeded_at: null,
  waiting: 0,
  look_again_at,
});

/** When a flow is due that the process has just seen. */
const due = (of: Flow, look: Look | null, now: number) => dueAt(of, look, now, now);

describe('the next look of a flow', () => {
  const hourly = flow({ every: '1h' });

  it('is at once after the creation, and an interval after the last one', () => {
    expect(due(hourly, null, CREATED + MINUTE)).toBe(CREATED);
    const last = CREATED + 10 * MINUTE;
    expect(due(hourly, lookAt(last), last + MINUTE)).toBe(last + 60 * MINUTE);
  });

  it('is not delayed by a clock that was a day ahead', () => {
    const now = CREATED + 5 * MINUTE;
    const ahead = lookAt(now + 1_440 * MINUTE, new Date(now + 1_441 * MINUTE).toISOString());
    expect(due(hourly, ahead, now)).toBeLessThanOrEqual(now);
    const daily = flow({ cron: '1 * * * *', time_zone: 'UTC' });
    expect(due(daily, ahead, now + 60 * MINUTE)).toBeLessThanOrEqual(now + 60 * MINUTE);
  });

  it('counts from a look of a process whose clock is a little ahead', () => {
    const last = CREATED + 10 * MINUTE;
    expect(due(hourly, lookAt(last), last - MINUTE / 2)).toBe(last + 60 * MINUTE);
  });
});

describe('the next look of a flow that was created by a clock that was a day ahead', () => {
  const SEEN = CREATED - 1_440 * MINUTE;

  it('is at once, and then an interval after the last one', () => {
    const hourly = flow({ every: '1h' });
    expect(dueAt(hourly, null, SEEN, SEEN)).toBe(SEEN);
    expect(dueAt(hourly, null, SEEN + MINUTE, SEEN)).toBe(SEEN);
    const last = SEEN + MINUTE;
    expect(dueAt(hourly, lookAt(last), last + MINUTE, SEEN)).toBe(last + 60 * MINUTE);
    // A look from before the change of a flow does not delay it.
    expect(dueAt(hourly, lookAt(SEEN - MINUTE), SEEN, SEEN)).toBe(SEEN);
  });

  it('comes at the next time of its cron expression', () => {
    const cron = flow({ cron: '7 * * * *', time_zone: 'UTC' });
    const next = dueAt(cron, null, SEEN, SEEN) as number;
    expect(next).toBeGreaterThan(SEEN);
    expect(next).toBeLessThanOrEqual(SEEN + 60 * MINUTE);
    expect(dueAt(cron, null, next + MINUTE, SEEN)).toBe(next);
    expect(dueAt(cron, lookAt(next), next + MINUTE, SEEN)).toBe(next + 60 * MINUTE);
  });

  it('comes once more when the time of its creation has come', () => {
    const daily = flow({ every: '2d' });
    const look = lookAt(SEEN + MINUTE);
    expect(dueAt(daily, look, CREATED - MINUTE, SEEN)).toBeGreaterThan(CREATED);
    for (const seenAt of [SEEN, CREATED])
      expect(dueAt(daily, look, CREATED, seenAt)).toBeLessThanOrEqual(CREATED);
  });
});

describe('the turns of flows that are due', () => {
  const turn = (accountId: string, since: number): Turn => ({ accountId, since });

  it('come in the order of their waits, and leave places for other accounts', () => {
    const waiting = [9, 3, 7, 1, 5, 2, 8, 6, 4].map((since) => turn('acc_a', since));
    const underWay: Turn[] = [];
    const take = () => {
      const next = nextTurn(waiting, underWay);
      if (next === null) return null;
      waiting.splice(waiting.indexOf(next), 1);
      underWay.push(next);
      return next.since;
    };
    expect([1, 2, 3, 4, 5, 6, 7, 8, 9].map(take)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, null]);
    waiting.push(turn('acc_b', 20), turn('acc_b', 10), turn('acc_c', 30));
    expect([1, 2, 3].map(take)).toEqual([10, 30, null]);
    underWay.shift();
    // An account that has fewer places goes before one that waits for longer.
    expect(take()).toBe(20);
  });
});
