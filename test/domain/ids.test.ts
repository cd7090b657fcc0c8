import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isId, newId, newIds, nextEventId } from '../../src/domain/ids.ts';

const NOW = Date.parse('2026-03-01T10:00:00Z');

describe('nextEventId', () => {
  it('increases strictly, whatever the clock does', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: NOW - 10_000, max: NOW + 10_000 }), {
          minLength: 2,
          maxLength: 50,
        }),
        (clock) => {
          let previous: string | null = null;
          for (const now of clock) {
            const next = nextEventId(previous, now);
            expect(isId('evt', next)).toBe(true);
            if (previous !== null) expect(next > previous).toBe(true);
            previous = next;
          }
        },
      ),
    );
  });

  it('increases within one millisecond', () => {
    let previous = nextEventId(null, NOW);
    for (let i = 0; i < 1_000; i++) {
      const next = nextEventId(previous, NOW);
      expect(next > previous).toBe(true);
      previous = next;
    }
  });

  it('carries into the time when the random part overflows', () => {
    expect(nextEventId('evt_01JNQZZZZZZZZZZZZZZZZZZZZZ', 1_000)).toBe(
      'evt_01JNR000000000000000000000',
    );
    expect(nextEventId('evt_01JNQ00000ZZZZZZZZZZZZZZZZ', 1_000)).toBe(
      'evt_01JNQ000010000000000000000',
    );
  });

  it("uses the clock's time if that is later", () => {
    expect(nextEventId(newId('evt', NOW), NOW + 60_000).slice(0, 14)).toBe(
      newId('evt', NOW + 60_000).slice(0, 14),
    );
  });
});

describe('isId', () => {
  it('accepts ids that it created', () => {
    expect(isId('txr', newId('txr'))).toBe(true);
  });

  it.each([
    '',
    'txr_',
    'txr',
    newId('evt'),
    newId('txr').toLowerCase(),
    `${newId('txr')}0`,
    newId('txr').slice(0, -1),
    ` ${newId('txr')}`,
    `${newId('txr')}\n`,
    'txr_81JNQ000000000000000000000',
    'txr_01JNQ00000000000000000000I',
  ])('rejects %j', (text) => {
    expect(isId('txr', text)).toBe(false);
  });
});

it('new ids of one moment are in order', () => {
  const ids = newIds('dlv', 100);
  expect(ids).toEqual([...new Set(ids)].toSorted());
  expect(ids.filter((id) => isId('dlv', id))).toHaveLength(100);
});
