import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { SignInFailed } from '../../src/domain/access.ts';
import { createFailedSignIns } from '../../src/http/access-log/failed-sign-ins.ts';

const AT = '2026-03-01T10:00:00.000Z';

let told: SignInFailed[];
const tell = (failed: SignInFailed) => void told.push(failed);
beforeEach(() => {
  told = [];
  vi.useFakeTimers({ now: new Date(AT) });
});
afterEach(() => vi.useRealTimers());

test('a flood from one address makes one event a minute, with the number', () => {
  const failures = createFailedSignIns(tell);
  for (let second = 0; second < 180; second++) {
    for (let count = 0; count < 10; count++) failures.count('192.0.2.1', 'api_key_invalid', null);
    vi.advanceTimersByTime(1_000);
  }
  failures.close();
  expect(told.length).toBeLessThanOrEqual(5);
  expect(told[0]).toEqual({
    address: '192.0.2.1',
    failures: 1,
    reasons: { api_key_invalid: 1 },
    key_ids: [],
    first_at: AT,
    last_at: AT,
  });
  expect(told.reduce((sum, { failures }) => sum + failures, 0)).toBe(1_800);
});

test('names the keys that were tried, and at most ten', () => {
  const failures = createFailedSignIns(tell);
  for (let number = 0; number < 30; number++)
    failures.count('192.0.2.1', 'api_key_revoked', `key_${number % 15}`);
  failures.close();
  expect(told.map(({ key_ids }) => key_ids.length)).toEqual([1, 10]);
});

test('addresses beyond the limit are counted together', () => {
  const failures = createFailedSignIns(tell, { addresses: 2 });
  for (let host = 1; host <= 50; host++) failures.count(`192.0.2.${host}`, 'api_key_invalid', null);
  failures.close();
  expect(told.map(({ address, failures }) => [address, failures])).toEqual([
    ['192.0.2.1', 1],
    ['192.0.2.2', 1],
    [null, 1],
    [null, 47],
  ]);
});

test('an address without further failures is forgotten, and then reported at once again', () => {
  const failures = createFailedSignIns(tell);
  failures.count('192.0.2.1', 'api_key_invalid', null);
  vi.advanceTimersByTime(70_000);
  expect(vi.getTimerCount()).toBe(0);
  failures.count('192.0.2.1', 'api_key_revoked', 'key_1');
  expect(told.map(({ reasons }) => reasons)).toEqual([
    { api_key_invalid: 1 },
    { api_key_revoked: 1 },
  ]);
  failures.close();
  expect(told).toHaveLength(2);
});
