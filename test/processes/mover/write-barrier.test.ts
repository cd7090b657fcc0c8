import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createWriteBarrier } from '../../../src/processes/mover/write-barrier.ts';

const NEVER_MS = 2 ** 31 - 1;

describe('a gathering', () => {
  /** Lets callers wait, and notes who has gone on. */
  function gatheringOf(expected: () => number, maxMs = NEVER_MS) {
    const gather = createWriteBarrier(expected, maxMs);
    const goneOn: string[] = [];
    return { goneOn, wait: (name: string) => gather().then(() => void goneOn.push(name)) };
  }

  test('holds up nobody who comes alone', async () => {
    const { goneOn, wait } = gatheringOf(() => 0);
    await wait('a');
    expect(goneOn).toEqual(['a']);
  });

  test('lets all go on when as many have come as are expected, and not before', async () => {
    const { goneOn, wait } = gatheringOf(() => 3);
    const waits = [wait('a'), wait('b')];
    await turn();
    expect(goneOn).toEqual([]);
    await Promise.all([...waits, wait('c')]);
    expect(goneOn).toEqual(['a', 'b', 'c']);
  });

  test('asks at each arrival how many are expected', async () => {
    let expected = 3;
    const { goneOn, wait } = gatheringOf(() => expected);
    const first = wait('a');
    await turn();
    expect(goneOn).toEqual([]);
    expected = 2;
    await Promise.all([first, wait('b')]);
    expect(goneOn).toEqual(['a', 'b']);
  });

  test('lets them go on after a while although others are expected, and begins again', async () => {
    const { goneOn, wait } = gatheringOf(() => 10, 1);
    await Promise.all([wait('a'), wait('b')]);
    await wait('c');
    expect(goneOn).toEqual(['a', 'b', 'c']);
  });
});
