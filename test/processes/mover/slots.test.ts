import { expect, test } from 'vitest';
import { createSlots } from '../../../src/processes/mover/slots.ts';

const SMALL = 256 * 1024;
const never = new AbortController().signal;

test('each small file adds a slot, up to eight times as many', async () => {
  const slots = createSlots(2);
  expect(slots).toMatchObject({ total: 2, small: false });
  for (let file = 0; file < 20; file++) {
    const slot = slots.take();
    await slot.opened(SMALL, never);
    slot.completed();
    slot.leave();
    expect(slots).toMatchObject({ total: Math.min(3 + file, 16), small: true });
  }
});

test('a large file takes the added slots away, and small ones add none beside it', async () => {
  const slots = createSlots(1);
  slots.take().completed();
  expect(slots.total).toBe(2);
  const large = slots.take();
  await large.opened(SMALL + 1, never);
  expect(slots).toMatchObject({ total: 1, small: false });
  slots.take().completed();
  expect(slots.total).toBe(1);
  large.leave();
  slots.take().completed();
  expect(slots.total).toBe(2);
});

test('as many large files move as there are slots, also if each opens its source again', async () => {
  const slots = createSlots(1);
  const first = slots.take();
  await first.opened(SMALL + 1, never);
  await first.opened(SMALL + 1, never);
  const order: string[] = [];
  const second = slots.take();
  const opened = second.opened(SMALL + 1, never).then(() => order.push('second'));
  const stopping = new AbortController();
  const third = slots.take();
  const stopped = third.opened(SMALL + 1, stopping.signal).catch((reason) => order.push(reason));
  stopping.abort('stopped');
  await stopped;
  third.leave();
  first.leave();
  await opened;
  expect(order).toEqual(['stopped', 'second']);
});
