import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type KeyCommand, type KeyEvent, keyDecider } from '../../src/domain/key.ts';
import { grants, SCOPES, type Scope } from '../../src/domain/scope.ts';
import { specify, stateAfter } from '../support/domain/decider.ts';
import { keyCreated, T1, T2 } from '../support/domain/samples.ts';

const given = specify(keyDecider);
const created: KeyEvent = {
  type: 'key.created',
  data: keyCreated({ expires_at: '2026-03-11T10:00:00.000Z' }),
};
const revoked: KeyEvent = { type: 'key.revoked', data: { revoked_at: T1 } };
const announce = (now: string): KeyCommand => ({ type: 'announce_expiry', now });
const expiring = (days_remaining: number): KeyEvent => {
  const { key_id, name } = keyCreated();
  return {
    type: 'key.expiring_soon',
    data: { key_id, name, expires_at: '2026-03-11T10:00:00.000Z', days_remaining },
  };
};

describe('a key', () => {
  it('is created once', () => {
    given([])
      .when({ type: 'create', data: keyCreated() })
      .yields([{ type: 'key.created', data: keyCreated() }]);
    given([created]).when({ type: 'create', data: keyCreated() }).yields([]);
    given([created, revoked]).when({ type: 'create', data: keyCreated() }).yields([]);
  });

  it('is revoked once', () => {
    given([]).when({ type: 'revoke', now: T1 }).yields('not_found');
    given([created]).when({ type: 'revoke', now: T1 }).yields([revoked]);
    given([created, revoked]).when({ type: 'revoke', now: T2 }).yields([]);
  });

  it('is announced once when seven days or less are left', () => {
    given([]).when(announce(T1)).yields('not_found');
    given([created]).when(announce('2026-03-04T09:59:59.999Z')).yields([]);
    given([created])
      .when(announce('2026-03-04T10:00:00.000Z'))
      .yields([expiring(7)]);
    given([created])
      .when(announce('2026-03-11T09:59:59.999Z'))
      .yields([expiring(1)]);
    given([created]).when(announce('2026-03-11T10:00:00.000Z')).yields([]);
    given([created, expiring(7)])
      .when(announce('2026-03-05T10:00:00.000Z'))
      .yields([]);
  });

  it('is not announced if it was revoked or never expires', () => {
    given([created, revoked]).when(announce('2026-03-05T10:00:00.000Z')).yields([]);
    given([{ type: 'key.created', data: keyCreated({ expires_at: null }) }])
      .when(announce('2026-03-05T10:00:00.000Z'))
      .yields([]);
  });

  it('stays revoked', () => {
    const state = stateAfter(keyDecider, [created, revoked]);
    for (const event of [created, expiring(1), { type: 'key.revoked', data: { revoked_at: T2 } }])
      expect(keyDecider.evolve(state, event)).toBe(state);
    expect(state).toMatchObject({ status: 'revoked', revoked_at: T1 });
  });

  it('evolves without throwing, whatever was stored', () => {
    const histories = [[], [created], [created, expiring(7)], [created, revoked]];
    const types = ['key.created', 'key.revoked', 'key.expiring_soon', 'key.else'];
    fc.assert(
      fc.property(
        fc.constantFrom(...histories),
        fc.constantFrom(...types),
        fc.anything(),
        (history, type, data) => {
          keyDecider.evolve(stateAfter(keyDecider, history), { type, data });
        },
      ),
    );
  });
});

describe('grants', () => {
  const others = (...scopes: Scope[]) => SCOPES.filter((scope) => !scopes.includes(scope));

  it.each<[Scope, Scope[]]>([
    ['transfers:read', ['transfers:read']],
    ['transfers:write', ['transfers:write', 'transfers:read']],
    ['webhooks:read', ['webhooks:read']],
    ['webhooks:write', ['webhooks:write', 'webhooks:read']],
    ['audit:read', ['audit:read']],
    ['metrics:read', ['metrics:read']],
    ['observe', ['observe']],
    ['operate', ['operate', 'observe']],
    ['audit:all', ['audit:all', 'audit:read']],
    ['admin', [...SCOPES]],
  ])('%s grants exactly %j', (held, given) => {
    for (const scope of given) expect(grants([held], scope)).toBe(true);
    for (const scope of others(...given)) expect(grants([held], scope)).toBe(false);
  });

  it('grant nothing for no scope, and the union for several scopes', () => {
    expect(SCOPES.filter((scope) => grants([], scope))).toEqual([]);
    expect(SCOPES.filter((scope) => grants(['audit:read', 'webhooks:write'], scope))).toEqual([
      'webhooks:read',
      'webhooks:write',
      'audit:read',
    ]);
  });
});
