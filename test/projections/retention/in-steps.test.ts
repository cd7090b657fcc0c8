import { expect, it } from 'vitest';
import type { EventBatch } from '../../../src/adapters/event-store/port.ts';
import { inSteps } from '../../../src/projections/retention/in-steps.ts';
import { createLog } from '../../support/domain/histories.ts';

/** A batch of 100 events, of which `shared` each have one position. */
function batchOf({ shared }: { shared: number }): EventBatch {
  const log = createLog();
  for (let i = 0; i < 100; i += 1) log.append('any-1', { type: 'any.happened', data: { i } });
  const events = log.events.map((event, i) => ({
    ...event,
    position: BigInt(Math.floor(i / shared) + 1),
  }));
  return { events, position: 1_000n, caughtUp: true };
}

/** Returns the size, the position and the mark of each step. `more` says what the records name. */
async function stepsOf(batch: EventBatch, more: boolean[]): Promise<[number, bigint, boolean][]> {
  async function* batches(): AsyncGenerator<EventBatch> {
    yield batch;
  }
  const steps: [number, bigint, boolean][] = [];
  const hasMore = async () => more.shift() ?? false;
  for await (const { events, position, caughtUp } of inSteps(batches(), { hasMore }))
    steps.push([events.length, position, caughtUp]);
  return steps;
}

it('leaves a batch as it is if no event left the log', async () => {
  expect(await stepsOf(batchOf({ shared: 1 }), [])).toEqual([[100, 1_000n, true]]);
});

it('takes small steps until all removed events are added', async () => {
  expect(await stepsOf(batchOf({ shared: 1 }), [true, true])).toEqual([
    [25, 25n, false],
    [25, 50n, false],
    [50, 1_000n, true],
  ]);
});

it('ends no step between events that share a position', async () => {
  expect(await stepsOf(batchOf({ shared: 10 }), [true])).toEqual([
    [30, 3n, false],
    [70, 1_000n, true],
  ]);
  expect(await stepsOf(batchOf({ shared: 100 }), [true])).toEqual([[100, 1_000n, true]]);
});
