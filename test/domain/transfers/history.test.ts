import { expect, test } from 'vitest';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { type AsOf, eventsUntil, stateAsOf } from '../../../src/domain/transfers/history.ts';
import { T1, T2, transferCreated } from '../../support/domain/samples.ts';

const CREATED = { type: 'transfer.created', data: transferCreated() };
const ADMITTED = { type: 'transfer.queued', data: { reason: 'admitted' } };
const CANCELLED = { type: 'transfer.cancelled', data: { cancelled_at: T2 } };

const HISTORY = [
  { ...CREATED, revision: 0, metadata: { occurred_at: T1 } },
  { ...ADMITTED, revision: 1, metadata: { occurred_at: T1 } },
  { ...CANCELLED, revision: 2, metadata: { occurred_at: T2 } },
] as StoredEvent[];

test.each<[AsOf, number, string]>([
  [{ revision: 0 }, 1, 'pending'],
  [{ revision: 1 }, 2, 'queued'],
  [{ revision: 2 }, 3, 'cancelled'],
  [{ time: T1 }, 2, 'queued'],
  [{ time: T2 }, 3, 'cancelled'],
])('at %o, %i events have happened and the transfer is %s', (asOf, events, status) => {
  expect(eventsUntil(HISTORY, asOf)).toEqual(HISTORY.slice(0, events));
  expect(stateAsOf(HISTORY, asOf).status).toBe(status);
});

test('a transfer has no state at a revision that it has not reached', () => {
  expect(() => stateAsOf(HISTORY, { revision: 3 })).toThrow(
    expect.objectContaining({
      code: 'invalid_parameter',
      message: expect.stringMatching(/0 to 2/),
    }),
  );
});

test('a transfer does not exist before its first event', () => {
  expect(() => stateAsOf(HISTORY, { time: '2020-01-01T00:00:00.000Z' })).toThrow(
    expect.objectContaining({
      code: 'not_found',
      message: `The transfer did not exist yet: it was created at ${T1}`,
    }),
  );
});
