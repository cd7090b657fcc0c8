import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { EventStoreUnavailable } from '../../../../src/adapters/event-store/port.ts';
import { retryWhileUnavailable } from '../../../../src/adapters/event-store/postgres/retry.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => void vi.useRealTimers());

test('a call without an answer is repeated, and given up at the end of its time', async () => {
  const call = vi.fn(() => new Promise<never>(() => {}));
  const ended = vi.fn();
  retryWhileUnavailable(call, 6_000).catch(ended);
  await vi.advanceTimersByTimeAsync(5_999);
  expect(call).toHaveBeenCalledTimes(2);
  expect(ended).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(ended).toHaveBeenCalledWith(expect.any(EventStoreUnavailable));
});
