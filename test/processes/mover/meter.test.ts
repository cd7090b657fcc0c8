import { expect, test } from 'vitest';
import { addTo, createSharedCounter } from '../../../src/concurrency/shared-counter.ts';
import { createMeter } from '../../../src/processes/mover/meter.ts';

function meterOf() {
  let moved = 0;
  const meter = createMeter((bytes) => {
    moved += bytes;
  });
  return { meter, moved: () => moved, shown: () => meter.read().transferred_bytes };
}

test('a meter counts what the destination acknowledges, from where the file was opened', () => {
  const { meter, moved, shown } = meterOf();
  expect(meter.read()).toEqual({ transferred_bytes: 0, size_bytes: null, speed_bps: null });
  const counter = createSharedCounter();
  meter.start(1_000, 400, counter);
  expect([shown(), moved()]).toEqual([400, 0]);
  addTo(counter, 250);
  expect([shown(), moved()]).toEqual([650, 250]);
  expect(meter.read().speed_bps).toBeGreaterThan(0);
});

test('a chunk that is complete changes nothing but the bytes that need not be sent again', () => {
  const { meter, shown } = meterOf();
  const counter = createSharedCounter();
  meter.start(1_000, 0, counter);
  addTo(counter, 700);
  meter.delivered(500);
  expect(shown()).toBe(700);
  expect(meter.resumable().transferred_bytes).toBe(500);
});

test('bytes that are sent again count once, and the count does not fall', () => {
  const { meter, moved, shown } = meterOf();
  const first = createSharedCounter();
  meter.start(1_000, 0, first);
  addTo(first, 700);
  expect(shown()).toBe(700);
  const second = createSharedCounter();
  meter.start(1_000, 500, second);
  expect(shown()).toBe(700);
  addTo(second, 100);
  expect(shown()).toBe(700);
  addTo(second, 300);
  expect([shown(), moved()]).toEqual([900, 900]);
});

test('the count does not exceed the size, and reaches it at the end', () => {
  const { meter, moved, shown } = meterOf();
  const counter = createSharedCounter();
  meter.start(1_000, 0, counter);
  addTo(counter, 900);
  expect(shown()).toBe(900);
  meter.complete();
  expect([shown(), moved()]).toEqual([1_000, 1_000]);
  addTo(counter, 500);
  expect([shown(), moved()]).toEqual([1_000, 1_000]);
});

test('another file under the same name starts over', () => {
  const { meter, shown } = meterOf();
  const counter = createSharedCounter();
  meter.start(1_000, 0, counter);
  addTo(counter, 900);
  expect(shown()).toBe(900);
  meter.start(300, 0, createSharedCounter());
  expect(meter.read()).toMatchObject({ transferred_bytes: 0, size_bytes: 300 });
});

test('a file without a counter counts when it is delivered', () => {
  const { meter, moved, shown } = meterOf();
  meter.start(1_000, 0, undefined);
  expect(shown()).toBe(0);
  meter.delivered(1_000);
  expect([shown(), moved()]).toEqual([1_000, 1_000]);
});
