import { describe, expect, test } from 'vitest';
import type { TransferEvent } from '../../../src/domain/transfers/transfer.ts';
import {
  changedJobs,
  type Job,
  type PlacedEvent,
  splitEnded,
} from '../../../src/processes/dispatch/decide.ts';
import {
  AFTER_EVENTS,
  T1,
  T2,
  TRANSFER_EVENTS,
  transferCreated,
} from '../../support/domain/samples.ts';

const ID = 'txr_1';
const created: TransferEvent = {
  type: 'transfer.created',
  data: transferCreated({ transfer_id: ID, created_at: T1 }),
};
const { admitted, started, retry, completed, failed, cancelled, priority } = TRANSFER_EVENTS;

function placed(events: TransferEvent[], first = 0): PlacedEvent[] {
  return events.map((event, i) => ({
    ...event,
    stream: `transfer-${ID}`,
    revision: first + i,
  })) as PlacedEvent[];
}

function jobAfter(...events: TransferEvent[]): Job {
  const [job] = changedJobs(new Map(), placed(events));
  return job as Job;
}

describe('an event changes a job', () => {
  test('the first event creates it, due at once', () => {
    expect(jobAfter(created)).toMatchObject({ status: 'pending', revision: 0, due_at: T1 });
  });

  test('a start gives it the claim, and a retry takes the claim and moves its time', () => {
    const moving = jobAfter(created, admitted, started);
    expect(moving).toMatchObject({ status: 'in_progress', revision: 2 });
    expect(moving.claim_id).not.toBeNull();
    expect(jobAfter(created, admitted, started, retry)).toMatchObject({
      status: 'queued',
      claim_id: null,
      due_at: T2,
    });
  });

  test('a change of the priority changes nothing else', () => {
    const before = jobAfter(created, admitted, started, retry);
    expect(jobAfter(created, admitted, started, retry, priority)).toEqual({
      ...before,
      priority: 'high',
      revision: 4,
    });
  });

  test('an event that the job has seen changes nothing', () => {
    const known = new Map([[ID, jobAfter(created, admitted)]]);
    expect(changedJobs(known, placed([created, admitted]))).toEqual([]);
    expect(changedJobs(known, placed([started], 2))).toHaveLength(1);
  });

  test('without a job, only the creation makes one', () => {
    expect(changedJobs(new Map(), placed([admitted, started], 1))).toEqual([]);
  });
});

describe('the end of a transfer', () => {
  test.each([
    ['completed in the first attempt', placed([completed], 3), false, true],
    ['completed in a later attempt', placed([completed], 5), true, true],
    ['failed in a later attempt', placed([failed], 5), true, false],
    ['cancelled before an attempt', placed([cancelled], 2), false, false],
    ['cancelled after an attempt', placed([cancelled], 4), true, false],
  ])('%s: leftovers are possible', (_, events, leftovers, done) => {
    const { size_bytes } = completed.data;
    const size = done ? size_bytes : null;
    const others = { completed: done, size, after: false, aborted: false };
    const ended = [{ transferId: ID, leftovers, ...others }];
    expect(splitEnded(events)).toEqual({ ended, open: [], settled: [] });
  });

  test('by an operator is known', () => {
    const error = { ...failed.data.error, code: 'aborted_by_operator' } as const;
    const aborted = { ...failed, data: { ...failed.data, error } };
    expect(splitEnded(placed([aborted], 3)).ended).toMatchObject([{ aborted: true }]);
  });

  test('schedules the steps after it, until the last one is taken', () => {
    const { versioned, marked, deleted } = AFTER_EVENTS;
    const { ended, open } = splitEnded(placed([versioned], 3));
    expect(ended).toMatchObject([{ transferId: ID, completed: true, after: true }]);
    expect(open).toEqual([]);
    const steps = splitEnded(placed([marked, deleted], 4));
    expect(steps).toEqual({ ended: [], open: [], settled: [ID] });
  });

  test('drops the other events of that transfer', () => {
    const { ended, open } = splitEnded(placed([created, admitted, cancelled]));
    expect(ended).toHaveLength(1);
    expect(open).toEqual([]);
  });
});
