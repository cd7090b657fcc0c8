import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  announces,
  expiresSoon,
  healthOf,
  isBehind,
  isLate,
  notRetried,
  recentSince,
  SEVERITY,
  waitingUntil,
} from '../../src/domain/attention.ts';

const NOW = '2026-03-01T10:20:00.000Z';
const KEY = `SHA256:${'A'.repeat(43)}`;

beforeEach(() => {
  vi.useFakeTimers({ now: new Date(NOW), toFake: ['Date'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('the health of an endpoint', () => {
  const fine = { fingerprint: KEY, error: null, last_success_at: NOW };
  const failed = (code: string) => ({ ...fine, error: { code } });
  const accepted = (expires_at: string | null) => ({ host_keys: [{ sha256: KEY, expires_at }] });
  it.each([
    [{ unreachable_since: NOW, health: failed('timeout') }, 'endpoint_unreachable', 'problem'],
    [{ health: failed('auth_failed') }, 'endpoint_rejects_sign_in', 'problem'],
    [{ health: failed('host_key_mismatch') }, 'endpoint_not_trusted', 'problem'],
    [{ health: failed('tls_error') }, 'endpoint_not_trusted', 'problem'],
    [{ health: failed('connection_failed') }, 'endpoint_probe_failed', 'warning'],
    [
      { health: failed('host_key_mismatch'), host_keys: [] },
      'endpoint_host_key_not_accepted',
      'warning',
    ],
    [
      { health: fine, ...accepted('2026-03-08T10:19:00.000Z') },
      'endpoint_host_key_expires_soon',
      'warning',
    ],
    [{ health: fine, ...accepted('2026-03-08T10:21:00.000Z') }, 'reachable', null],
    [{ health: fine, ...accepted(null) }, 'reachable', null],
    [
      { health: fine, via: accepted('2026-03-08T10:19:00.000Z') },
      'endpoint_host_key_expires_soon',
      'warning',
    ],
    [{ health: fine, via: accepted('2026-03-08T10:21:00.000Z') }, 'reachable', null],
    [{ health: fine, via: { host_keys: [] } }, 'reachable', null],
    [{ health: fine, via: { host_keys: null } }, 'reachable', null],
    [{ health: fine }, 'reachable', null],
    [{ health: null }, 'not_tried', null],
  ])('of %o is %s: %s', (facts, health, severity) => {
    const found = healthOf({ unreachable_since: null, ...facts });
    expect(found).toBe(health);
    expect({ ...SEVERITY, reachable: null, not_tried: null }[found]).toBe(severity);
  });

  it('does not hide that its server announces a key', () => {
    const endpoint = { unreachable_since: null, health: fine };
    expect(announces(endpoint)).toBe(false);
    expect(announces({ ...endpoint, announced_host_keys: [] })).toBe(false);
    expect(announces({ ...endpoint, announced_host_keys: [{ sha256: KEY }] })).toBe(true);
  });
});

describe('a flow', () => {
  const due = (next_run_at: string | null, more: object = {}) =>
    isLate({ failing: null, delayed_by: null, next_run_at, ...more });

  it('is late when it is due for more than five minutes', () => {
    expect(due('2026-03-01T10:14:59.000Z')).toBe(true);
    expect(due('2026-03-01T10:15:01.000Z')).toBe(false);
    expect(due(null)).toBe(false);
  });

  it('is not late while it fails or waits for its open run', () => {
    expect(due('2026-03-01T09:00:00.000Z', { failing: {} })).toBe(false);
    expect(due('2026-03-01T09:00:00.000Z', { delayed_by: 'run_1' })).toBe(false);
  });
});

describe('a consumer', () => {
  it.each([
    ['running', 59.9, false],
    ['running', 60, true],
    ['stopped', 0, true],
    ['failed', 0, true],
  ])('that is %s and %s s behind needs attention: %s', (state, lag_seconds, needs) => {
    expect(isBehind({ state, lag_seconds })).toBe(needs);
  });
});

it('counts failures of 24 hours from a full hour on, without those that were retried', () => {
  expect(recentSince()).toBe('2026-02-28T10:00:00.000Z');
  expect(notRetried({ by_status: { failed: 5 }, retried: 2 })).toBe(3);
});

it('points out transfers that have waited for a quarter of an hour', () => {
  expect(waitingUntil()).toBe('2026-03-01T10:05:00.000Z');
});

it('points out active keys that expire soon', () => {
  expect(expiresSoon({ status: 'active', expiring_soon: true })).toBe(true);
  expect(expiresSoon({ status: 'active', expiring_soon: false })).toBe(false);
  expect(expiresSoon({ status: 'revoked', expiring_soon: true })).toBe(false);
});
