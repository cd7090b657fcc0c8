import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DomainErrorCode } from '../../../src/domain/errors.ts';
import type { TransferCommand } from '../../../src/domain/transfers/decider.ts';
import { assertRetryable, transferDecider } from '../../../src/domain/transfers/decider.ts';
import {
  type AttemptFailure,
  TRANSFER_ERRORS,
  type TransferErrorCode,
} from '../../../src/domain/transfers/errors.ts';
import {
  ENDED_STATUSES,
  OPEN_STATUSES,
  type Transfer,
  type TransferEvent,
  type TransferFacts,
  type TransferState,
} from '../../../src/domain/transfers/transfer.ts';
import { outcomeOf, specify, stateAfter } from '../../support/domain/decider.ts';
import {
  FIGURES,
  started,
  T0,
  T1,
  T2,
  TRANSFER_EVENTS,
  transferCreated,
  VERIFICATION,
} from '../../support/domain/samples.ts';

const given = specify(transferDecider);
const TERMINAL = ['transfer.completed', 'transfer.failed', 'transfer.cancelled'];
const FAILURE: AttemptFailure = { code: 'timeout', message: 'no answer', phase: 'read' };

const created: TransferEvent = { type: 'transfer.created', data: transferCreated() };
const { admitted, completed, failed, cancelled } = TRANSFER_EVENTS;
const inProgress: TransferEvent = TRANSFER_EVENTS.started;

const HISTORIES: Record<TransferState['status'], TransferEvent[]> = {
  none: [],
  pending: [created],
  queued: [created, admitted],
  in_progress: [created, admitted, inProgress],
  completed: [created, admitted, inProgress, completed],
  failed: [created, admitted, inProgress, failed],
  cancelled: [created, admitted, cancelled],
};
const STATUSES = Object.keys(HISTORIES) as TransferState['status'][];

const complete = (claim_id: string): TransferCommand => ({
  type: 'complete',
  claim_id,
  data: {
    completed_at: T1,
    size_bytes: 1000,
    speed_bps: 1600,
    checksum_sha256: 'ab'.repeat(32),
    verification: VERIFICATION,
  },
});
const failAttempt = (
  claim_id: string,
  code: TransferErrorCode = 'timeout',
  retry_delays = [10_000, 60_000],
  resumed_bytes = 0,
): TransferCommand => ({
  type: 'fail_attempt',
  claim_id,
  failure: { ...FAILURE, code },
  figures: FIGURES,
  resumed_bytes,
  retry_delays,
  now: T1,
});
const loseMover = (claim_id: string, transferred_bytes = 0): TransferCommand => ({
  type: 'lose_mover',
  claim_id,
  figures: { ...FIGURES, transferred_bytes },
  committing: null,
  now: T1,
});
const release = (claim_id: string): TransferCommand => ({
  type: 'release',
  claim_id,
  figures: FIGURES,
  given_back: 'endpoint_changed',
});

describe('every command in every state', () => {
  const no = 'transfer_not_cancellable';
  const fixed = 'priority_not_changeable';
  const nothing = {};
  type Outcomes = Partial<
    Record<
      TransferState['status'],
      TransferEvent['type'] | TransferEvent['type'][] | DomainErrorCode
    >
  >;
  /** The result for each state; nothing for a state that is not named. */
  const table: [string, TransferCommand, Outcomes][] = [
    ['create', { type: 'create', data: transferCreated() }, { none: 'transfer.created' }],
    ['admit', { type: 'admit' }, { pending: 'transfer.queued' }],
    [
      'start',
      { type: 'start', data: started() },
      { pending: ['transfer.queued', 'transfer.in_progress'], queued: 'transfer.in_progress' },
    ],
    ['complete', complete('clm_1'), { in_progress: 'transfer.completed' }],
    ['complete for a claim that does not hold', complete('clm_2'), nothing],
    ['fail_attempt', failAttempt('clm_1'), { in_progress: 'transfer.queued' }],
    [
      'fail_attempt without a retry',
      failAttempt('clm_1', 'auth_failed'),
      { in_progress: 'transfer.failed' },
    ],
    ['fail_attempt for a claim that does not hold', failAttempt('clm_2'), nothing],
    ['lose_mover', loseMover('clm_1'), { in_progress: 'transfer.queued' }],
    ['lose_mover for a claim that does not hold', loseMover('clm_2'), nothing],
    ['release', release('clm_1'), { in_progress: 'transfer.queued' }],
    ['release for a claim that does not hold', release('clm_2'), nothing],
    [
      'cancel',
      { type: 'cancel', now: T1 },
      {
        none: 'not_found',
        pending: 'transfer.cancelled',
        queued: 'transfer.cancelled',
        in_progress: no,
        completed: no,
        failed: no,
        cancelled: no,
      },
    ],
    [
      'set_priority',
      { type: 'set_priority', priority: 'high', now: T1 },
      {
        none: 'not_found',
        pending: 'transfer.priority_changed',
        queued: 'transfer.priority_changed',
        in_progress: fixed,
        completed: fixed,
        failed: fixed,
        cancelled: fixed,
      },
    ],
    [
      'set_priority to the same',
      { type: 'set_priority', priority: 'normal', now: T1 },
      {
        none: 'not_found',
        in_progress: fixed,
        completed: fixed,
        failed: fixed,
        cancelled: fixed,
      },
    ],
    [
      'abort',
      { type: 'abort', now: T1, figures: null },
      {
        none: 'not_found',
        pending: no,
        queued: no,
        in_progress: 'transfer.failed',
        completed: no,
        failed: no,
        cancelled: no,
      },
    ],
  ];

  for (const [name, command, outcomes] of table) {
    it.each(STATUSES)(`${name}: %s`, (status) => {
      const outcome = outcomeOf(transferDecider, HISTORIES[status], command);
      const expected = outcomes[status] ?? [];
      const isType = typeof expected === 'string' && expected.startsWith('transfer.');
      expect(typeof outcome === 'string' ? outcome : outcome.map(({ type }) => type)).toEqual(
        isType ? [expected] : expected,
      );
    });
  }
});

describe('a status', () => {
  // An index of the read model has the open ones in this order.
  it('is open, or final', () => {
    expect(OPEN_STATUSES).toEqual(['pending', 'queued', 'in_progress']);
    expect(ENDED_STATUSES).toEqual(['completed', 'failed', 'cancelled']);
  });
});

describe('a transfer', () => {
  it('keeps the figures of its last attempt when an operator ends it', () => {
    const figures = { transferred_bytes: 600, size_bytes: 1_000, speed_bps: 8_000 };
    const ended = outcomeOf(transferDecider, HISTORIES.in_progress, {
      type: 'abort',
      now: T1,
      figures,
    });
    expect(ended).toMatchObject([{ type: 'transfer.failed', data: figures }]);
  });

  it('yields no event when an operator ends it again', () => {
    const abort = { type: 'abort', now: T1, figures: null } as const;
    const ended = transferDecider.decide(
      abort,
      HISTORIES.in_progress.reduce(transferDecider.evolve, transferDecider.initialState()),
    );
    expect(outcomeOf(transferDecider, [...HISTORIES.in_progress, ...ended], abort)).toEqual([]);
  });

  it('is created with the requested fields', () => {
    given([]).when({ type: 'create', data: transferCreated() }).yields([created]);
    expect(stateAfter(transferDecider, [created])).toMatchObject({
      status: 'pending',
      facts: {
        ...transferCreated(),
        transferred_bytes: 0,
        size_bytes: null,
        speed_bps: null,
        retry_count: 0,
        error: null,
      },
    });
  });

  it('names its state in the error if it cannot be cancelled', () => {
    expect(() =>
      transferDecider.decide(
        { type: 'cancel', now: T1 },
        stateAfter(transferDecider, HISTORIES.in_progress),
      ),
    ).toThrow(
      expect.objectContaining({
        details: { transfer_id: transferCreated().transfer_id, current_status: 'in_progress' },
      }),
    );
  });

  it('counts its duration from its first start to its completion', () => {
    given([
      created,
      admitted,
      inProgress,
      TRANSFER_EVENTS.retry,
      { type: 'transfer.in_progress', data: started('clm_2', T2) },
    ])
      .when({
        ...complete('clm_2'),
        data: { ...completed.data, completed_at: T2 },
      } as TransferCommand)
      .yields([
        {
          type: 'transfer.completed',
          data: {
            ...completed.data,
            completed_at: T2,
            duration_ms: Date.parse(T2) - Date.parse(T0),
          },
        },
      ]);
  });

  it('has a duration of zero, not less, if the clock was set back', () => {
    const before = '2026-03-01T09:00:00.000Z';
    given(HISTORIES.in_progress)
      .when({
        ...complete('clm_1'),
        data: { ...completed.data, completed_at: before },
      } as TransferCommand)
      .yields([
        {
          type: 'transfer.completed',
          data: { ...completed.data, completed_at: before, duration_ms: 0 },
        },
      ]);
  });

  it('waits as long as before after a change of its priority', () => {
    const retried = [...HISTORIES.in_progress, TRANSFER_EVENTS.retry];
    expect(stateAfter(transferDecider, [...retried, TRANSFER_EVENTS.priority])).toEqual({
      ...stateAfter(transferDecider, retried),
      facts: expect.objectContaining({ priority: 'high', retry_count: 1 }),
    });
  });

  it.each(STATUSES.filter((status) => status !== 'none'))(
    'that is %s may be retried only if it failed or was cancelled',
    (status) => {
      const transfer = stateAfter(transferDecider, HISTORIES[status]) as Transfer;
      const retry = () => assertRetryable(transfer);
      if (status === 'failed' || status === 'cancelled') expect(retry).not.toThrow();
      else
        expect(retry).toThrow(
          expect.objectContaining({
            code: 'transfer_not_retryable',
            details: { transfer_id: transferCreated().transfer_id, current_status: status },
          }),
        );
    },
  );

  it('drops the error of the previous attempt when the next one starts', () => {
    const retried = stateAfter(transferDecider, [
      ...HISTORIES.in_progress,
      TRANSFER_EVENTS.retry,
    ]) as Transfer;
    expect(retried).toMatchObject({
      status: 'queued',
      not_before: T2,
      facts: { retry_count: 1, error: { code: 'timeout' } },
    });
    expect(transferDecider.evolve(retried, inProgress)).toMatchObject({
      facts: { retry_count: 1, error: null },
    });
  });
});

describe('retries', () => {
  /** Returns a transfer in progress after this many failed attempts. */
  function attempts(count: number): TransferEvent[] {
    const events = [...HISTORIES.in_progress];
    for (let attempt = 1; attempt <= count; attempt++) {
      events.push(
        { type: 'transfer.queued', data: { ...TRANSFER_EVENTS.retry.data, attempt } },
        inProgress,
      );
    }
    return events;
  }

  it.each([
    [0, '2026-03-01T10:00:15.000Z'],
    [1, '2026-03-01T10:01:05.000Z'],
    [2, '2026-03-01T10:05:05.000Z'],
  ])('wait for the delay after attempt %i', (before, not_before) => {
    const outcome = outcomeOf(
      transferDecider,
      attempts(before),
      failAttempt('clm_1', 'timeout', [10_000, 60_000, 300_000]),
    );
    expect(outcome).toMatchObject([
      {
        type: 'transfer.queued',
        data: { reason: 'retry', attempt: before + 1, not_before, error: { retryable: true } },
      },
    ]);
  });

  it('end when the delays are used up', () => {
    const outcome = outcomeOf(
      transferDecider,
      attempts(3),
      failAttempt('clm_1', 'timeout', [10_000, 60_000, 300_000]),
    );
    expect(outcome).toMatchObject([
      { type: 'transfer.failed', data: { failed_at: T1, error: { code: 'timeout', attempts: 4 } } },
    ]);
  });

  it('do not happen without delays', () => {
    expect(
      outcomeOf(transferDecider, attempts(0), failAttempt('clm_1', 'timeout', [])),
    ).toMatchObject([{ type: 'transfer.failed' }]);
  });

  it.each(Object.entries(TRANSFER_ERRORS))(
    '%s is retried only if the table says so',
    (code, { retryable, advice }) => {
      const outcome = outcomeOf(
        transferDecider,
        attempts(0),
        failAttempt('clm_1', code as TransferErrorCode),
      );
      expect(outcome).toMatchObject([
        {
          type: retryable ? 'transfer.queued' : 'transfer.failed',
          data: { error: { code, retryable, advice } },
        },
      ]);
    },
  );
});

describe('attempts that continue a file', () => {
  /** Fails attempts one after the other, each of which continued after this many bytes. */
  function fail(resumed: number[], delays = [10_000, 60_000]): TransferEvent[] {
    const events = [...HISTORIES.in_progress];
    for (const bytes of resumed) {
      const command = failAttempt('clm_1', 'connection_failed', delays, bytes);
      events.push(...(outcomeOf(transferDecider, events, command) as TransferEvent[]), inProgress);
    }
    return events.slice(3).filter(({ type }) => type !== 'transfer.in_progress');
  }

  function delaysOf(events: TransferEvent[]): (number | 'failed')[] {
    return events.map((event) =>
      event.type === 'transfer.queued' && event.data.reason === 'retry'
        ? Date.parse(event.data.not_before) - Date.parse(T1)
        : 'failed',
    );
  }

  it('use up no retry if each came further than all before', () => {
    const events = fail([0, 5, 7, 7, 9, 9, 9]);
    expect(delaysOf(events)).toEqual([10_000, 10_000, 10_000, 60_000, 10_000, 60_000, 'failed']);
    const [, , third] = events.map(({ data }) => data as TransferFacts & { attempt: number });
    expect(third).toMatchObject({ attempt: 3, failed_in_a_row: 1, resumed_bytes: 7 });
  });

  it('use up a retry if they came only as far as an earlier one, or not that far', () => {
    expect(delaysOf(fail([0, 9, 5, 8]))).toEqual([10_000, 10_000, 60_000, 'failed']);
  });

  it('count from the furthest attempt also if a mover was lost in between', () => {
    const retried = fail([4, 4]);
    const events = [...HISTORIES.in_progress, ...retried.slice(0, 1), inProgress];
    events.push(TRANSFER_EVENTS.lost, inProgress);
    const command = failAttempt('clm_1', 'connection_failed', [10_000, 60_000], 4);
    expect(outcomeOf(transferDecider, events, command)).toMatchObject([
      { data: { attempt: 2, failed_in_a_row: 2, resumed_bytes: 4 } },
    ]);
  });

  it('end after a thousand', () => {
    const forward = Array.from({ length: 1_001 }, (_, index) => index);
    const types = fail(forward).map(({ type }) => type);
    expect(types.slice(-2)).toEqual(['transfer.queued', 'transfer.failed']);
  });

  it('leave no trace in the events if none continued', () => {
    for (const { data } of fail([0, 0])) expect(data).not.toHaveProperty('failed_in_a_row');
  });
});

describe('lost movers', () => {
  /** Loses movers one after the other, each after it reached this many bytes. */
  function lose(bytes: number[]): TransferEvent[] {
    const events = [...HISTORIES.in_progress];
    for (const count of bytes) {
      const outcome = outcomeOf(transferDecider, events, loseMover('clm_1', count));
      events.push(...(outcome as TransferEvent[]), inProgress);
    }
    return events.slice(3).filter(({ type }) => type !== 'transfer.in_progress');
  }

  it('fail the transfer when five in a row made no progress', () => {
    expect(lose([0, 0, 0, 0]).map(({ type }) => type)).toEqual(Array(4).fill('transfer.queued'));
    expect(lose([0, 0, 0, 0, 0]).at(-1)).toMatchObject({
      type: 'transfer.failed',
      data: {
        error: {
          code: 'internal_error',
          retryable: false,
          message: expect.stringContaining('none came further than the one before'),
        },
      },
    });
  });

  it('leave a file that may be complete', () => {
    const events = [...HISTORIES.in_progress];
    const lost = { ...loseMover('clm_1'), committing: { size: 7, sha256: 'abc' } };
    for (let vanished = 1; vanished <= 5; vanished++)
      events.push(
        ...(outcomeOf(transferDecider, events, lost as TransferCommand) as TransferEvent[]),
        inProgress,
      );
    expect(events.at(-2)).toMatchObject({
      type: 'transfer.failed',
      data: {
        error: {
          phase: 'commit',
          message: expect.stringContaining('a file of 7 bytes with the SHA-256 abc is there'),
        },
      },
    });
  });

  it('are counted from zero after one that made progress', () => {
    const inARow = lose([0, 0, 0, 0, 5, 5, 5, 5]).map(
      ({ data }) => (data as TransferFacts).lost_in_a_row,
    );
    expect(inARow).toEqual([1, 2, 3, 4, 1, 2, 3, 4]);
    expect(lose([0, 0, 0, 0, 5, 5, 5, 5, 5]).at(-1)?.type).toBe('transfer.failed');
  });

  it('are counted from zero after a failed attempt', () => {
    const state = stateAfter(transferDecider, [
      ...HISTORIES.in_progress,
      TRANSFER_EVENTS.lost,
      inProgress,
      TRANSFER_EVENTS.retry,
    ]);
    expect(state).toMatchObject({ facts: { lost_in_a_row: 0 } });
  });

  it('do not count if they gave the transfer back, and say why they did', () => {
    const lost = {
      type: 'transfer.queued',
      data: { ...TRANSFER_EVENTS.lost.data, lost_in_a_row: 4 },
    } as const;
    given([...HISTORIES.in_progress, lost, inProgress])
      .when(release('clm_1'))
      .yields([{ ...lost, data: { ...lost.data, given_back: 'endpoint_changed' } }]);
  });
});

describe('evolve', () => {
  const every: TransferEvent[] = [created, ...Object.values(TRANSFER_EVENTS)];

  it.each(STATUSES)('returns the same state for an event that cannot follow: %s', (status) => {
    const state = stateAfter(transferDecider, HISTORIES[status]);
    const followers = every
      .filter((event) => transferDecider.evolve(state, event) !== state)
      .map(({ type }) => type);
    const expected: Record<TransferState['status'], string[]> = {
      none: ['transfer.created'],
      pending: ['transfer.queued', 'transfer.cancelled', 'transfer.priority_changed'],
      queued: ['transfer.in_progress', 'transfer.cancelled', 'transfer.priority_changed'],
      in_progress: ['transfer.queued', 'transfer.completed', 'transfer.failed'],
      completed: [],
      failed: [],
      cancelled: [],
    };
    expect([...new Set(followers)]).toEqual(expected[status]);
  });

  it.each(STATUSES.filter((status) => status !== 'none'))(
    'begins the text of a transfer that is %s with what the read model looks for in it',
    (status) => {
      const [, ...later] = HISTORIES[status];
      const data = { ...transferCreated(), batch_id: 'bat_1' };
      const text = JSON.stringify(
        stateAfter(transferDecider, [{ type: 'transfer.created', data }, ...later]),
      );
      expect(text.slice(0, 80)).toContain('"retry_of":null,"batch_id":"bat_1"');
    },
  );

  it('never throws, whatever was stored', () => {
    const types = [...every.map(({ type }) => type), 'constructor', 'key.created'];
    const data = fc.oneof(
      fc.anything(),
      fc.subarray([...every]).map((some) => Object.assign({}, ...some.map((event) => event.data))),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...STATUSES),
        fc.constantFrom(...types),
        data,
        (status, type, stored) => {
          transferDecider.evolve(stateAfter(transferDecider, HISTORIES[status]), {
            type,
            data: stored,
          });
        },
      ),
    );
  });
});

describe('any order of commands', () => {
  const claim = fc.constantFrom('clm_1', 'clm_2');
  const command: fc.Arbitrary<TransferCommand> = fc.oneof(
    fc.constant<TransferCommand>({ type: 'create', data: transferCreated() }),
    fc.constant<TransferCommand>({ type: 'admit' }),
    claim.map((claim_id): TransferCommand => ({ type: 'start', data: started(claim_id) })),
    claim.map(complete),
    claim.map((claim_id) => failAttempt(claim_id)),
    fc.tuple(claim, fc.nat(10)).map(([claim_id, bytes]) => loseMover(claim_id, bytes)),
    claim.map(release),
    fc.constant<TransferCommand>({ type: 'cancel', now: T1 }),
    fc.constant<TransferCommand>({ type: 'abort', now: T1, figures: null }),
  );

  it('ends a transfer with one last event, after no more retries than allowed', () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        const history: TransferEvent[] = [created, admitted];
        for (const next of commands) {
          const outcome = outcomeOf(transferDecider, history, next);
          if (typeof outcome === 'string') continue;
          for (const event of outcome) {
            const before = stateAfter(transferDecider, history);
            expect(transferDecider.evolve(before, event)).not.toBe(before);
            history.push(event);
          }
        }
        const state = stateAfter(transferDecider, history) as Transfer;
        const ends = history.filter(({ type }) => TERMINAL.includes(type));
        expect(ends.length).toBe(
          ['completed', 'failed', 'cancelled'].includes(state.status) ? 1 : 0,
        );
        if (ends.length > 0) expect(history.at(-1)).toBe(ends[0]);
        expect(state.facts.retry_count).toBeLessThanOrEqual(2);
        expect(state.facts.lost_in_a_row).toBeLessThan(5);
      }),
      { numRuns: 300 },
    );
  });
});
