import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookEvent, WebhookSettings } from '../../src/domain/webhook.ts';
import { webhookDecider } from '../../src/domain/webhook.ts';
import { specify, stateAfter } from '../support/domain/decider.ts';
import { T0, T1, T2, webhookRegistered } from '../support/domain/samples.ts';

const given = specify(webhookDecider);
const registered: WebhookEvent = { type: 'webhook.registered', data: webhookRegistered() };
const updated = (changes: Partial<WebhookSettings>, updated_at = T1): WebhookEvent => ({
  type: 'webhook.updated',
  data: { ...changes, updated_at },
});
const rotated = (
  secret_record: string,
  previous_secret_record: string,
  previous_until: string | null,
): WebhookEvent => ({
  type: 'webhook.secret_rotated',
  data: { secret_record, previous_secret_record, previous_until, rotated_at: T1 },
});
const removed: WebhookEvent = { type: 'webhook.removed', data: { removed_at: T1 } };

describe('a webhook', () => {
  it('is registered once, and is enabled', () => {
    const register = { type: 'register', data: webhookRegistered() } as const;
    given([]).when(register).yields([registered]);
    given([registered]).when(register).yields([]);
    given([registered, removed]).when(register).yields([]);
    expect(stateAfter(webhookDecider, [registered])).toEqual({
      ...webhookRegistered(),
      status: 'active',
      enabled: true,
      previous: null,
      updated_at: T0,
    });
  });

  it('is changed only in the fields that differ', () => {
    const update = (changes: Partial<WebhookSettings>) =>
      ({ type: 'update', changes, now: T1 }) as const;
    const url = 'https://other.example.com/';
    given([registered])
      .when(update({ url }))
      .yields([updated({ url })]);
    given([registered])
      .when(update({ url, enabled: true, events: ['transfer.failed', 'transfer.completed'] }))
      .yields([updated({ url })]);
    given([registered])
      .when(update({ enabled: false, events: ['transfer.failed'] }))
      .yields([updated({ enabled: false, events: ['transfer.failed'] })]);
    given([registered, updated({ enabled: false })])
      .when(update({ enabled: false }))
      .yields([]);
    given([registered]).when(update({})).yields([]);
    expect(stateAfter(webhookDecider, [registered, updated({ enabled: false })])).toMatchObject({
      url: webhookRegistered().url,
      enabled: false,
      updated_at: T1,
    });
  });

  it('keeps the replaced secret until its given end', () => {
    const rotate = (secret_record: string, previous_until: string | null) =>
      ({ type: 'rotate_secret', secret_record, previous_until, now: T1 }) as const;
    given([registered])
      .when(rotate('vlt_2', T2))
      .yields([rotated('vlt_2', 'vlt_1', T2)]);
    given([registered, rotated('vlt_2', 'vlt_1', T2)])
      .when(rotate('vlt_3', null))
      .yields([rotated('vlt_3', 'vlt_2', null)]);
    given([registered, rotated('vlt_2', 'vlt_1', T2)])
      .when(rotate('vlt_2', T2))
      .yields([]);

    const graced = [registered, rotated('vlt_2', 'vlt_1', T2)];
    expect(stateAfter(webhookDecider, graced)).toMatchObject({
      secret_record: 'vlt_2',
      previous: { secret_record: 'vlt_1', until: T2 },
    });
    expect(stateAfter(webhookDecider, [...graced, rotated('vlt_3', 'vlt_2', null)])).toMatchObject({
      secret_record: 'vlt_3',
      previous: null,
    });
  });

  it('is removed once, and can only be removed again', () => {
    given([registered]).when({ type: 'remove', now: T1 }).yields([removed]);
    given([registered, removed]).when({ type: 'remove', now: T2 }).yields([]);
    given([registered, removed])
      .when({ type: 'update', changes: { enabled: false }, now: T2 })
      .yields('not_found');
    given([registered, removed])
      .when({ type: 'rotate_secret', secret_record: 'vlt_2', previous_until: null, now: T2 })
      .yields('not_found');

    const state = stateAfter(webhookDecider, [registered, removed]);
    expect(state).toMatchObject({ status: 'removed', updated_at: T1 });
    for (const event of [
      registered,
      updated({ enabled: false }),
      rotated('vlt_2', 'vlt_1', null),
      removed,
    ])
      expect(webhookDecider.evolve(state, event)).toBe(state);
  });

  it('is not found if it was never registered', () => {
    given([]).when({ type: 'remove', now: T1 }).yields('not_found');
    given([]).when({ type: 'update', changes: {}, now: T1 }).yields('not_found');
  });

  it('evolves without throwing, whatever was stored', () => {
    const histories = [
      [],
      [registered],
      [registered, rotated('vlt_2', 'vlt_1', T2)],
      [registered, removed],
    ];
    const types = [
      'webhook.registered',
      'webhook.updated',
      'webhook.secret_rotated',
      'webhook.removed',
      'webhook.else',
    ];
    fc.assert(
      fc.property(
        fc.constantFrom(...histories),
        fc.constantFrom(...types),
        fc.anything(),
        (history, type, data) => {
          webhookDecider.evolve(stateAfter(webhookDecider, history), { type, data });
        },
      ),
    );
  });
});
