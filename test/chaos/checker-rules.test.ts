import { describe, expect, it } from 'vitest';
import type { Context } from './checker/context.ts';
import type { Evidence } from './checker/evidence-files.ts';
import { isKeptByCrash } from './checker/files/kept-uploads.ts';
import { createPlaces } from './checker/files/places.ts';
import {
  type Completion,
  forbiddenReplacements,
  possibleWinners,
} from './checker/files/winners.ts';
import type { TransferStory } from './checker/log/contents.ts';
import { foldTransfer, type TransferState } from './checker/log/fold-transfer.ts';
import { createReport } from './checker/report.ts';
import { operationsOf } from './checker/requests/operations.ts';
import { checkOutcomes } from './checker/requests/outcomes.ts';
import type { Arrived } from './checker/webhooks/arrivals.ts';
import { checkOrder } from './checker/webhooks/order.ts';
import type { DeliveryRow } from './checker/webhooks/rows.ts';
import type { FaultRecord } from './evidence.ts';

/** An instant, given as seconds of one minute. */
const at = (second: number) => `2026-01-31T09:30:${String(second).padStart(2, '0')}.000Z`;

describe('a failed attempt that is retried', () => {
  const facts = { account_id: 'acc', retry_count: 2, resumed_bytes: 10, failed_in_a_row: 2 };
  const before = { status: 'in_progress', facts } as unknown as TransferState;
  const retried = (known: Record<string, number>) => {
    const data = { reason: 'retry', attempt: 3, ...known };
    const type = 'transfer.queued';
    return foldTransfer(before, { type, data, metadata: { account_id: 'acc' } } as never);
  };

  it.each([
    { resumed_bytes: 20, failed_in_a_row: 1 },
    { resumed_bytes: 10, failed_in_a_row: 3 },
  ])('has %j', (known) => {
    expect(retried(known)).toMatchObject({ state: { facts: known } });
  });

  it.each<Record<string, number>>([
    { resumed_bytes: 20, failed_in_a_row: 3 },
    { resumed_bytes: 10, failed_in_a_row: 1 },
    { resumed_bytes: 5, failed_in_a_row: 3 },
    {},
  ])('cannot have %j', (known) => {
    expect(retried(known)).toHaveProperty('problem');
  });
});

describe('the possible contents of a name to which several transfers completed', () => {
  const completion = (
    id: string,
    from: number,
    to: number,
    changes: Partial<Completion> = {},
  ): Completion => ({
    id,
    size: 1,
    sha256: id,
    startedAt: at(from),
    completedAt: at(to),
    position: BigInt(to),
    endpointId: 'end_1',
    foundInPlace: false,
    ...changes,
  });
  const winners = (...completions: Completion[]) =>
    possibleWinners(completions).map(({ id }) => id);

  it('are those of the last transfer, if one followed the other', () => {
    expect(winners(completion('a', 1, 2), completion('b', 3, 4))).toEqual(['b']);
  });

  it('include each transfer that may have committed after the last one began', () => {
    expect(winners(completion('a', 1, 2), completion('b', 3, 8), completion('c', 5, 9))).toEqual([
      'b',
      'c',
    ]);
  });

  it('exclude a transfer that may not overwrite, unless the file is its own', () => {
    const [first, second] = [completion('a', 1, 2), completion('b', 3, 4)];
    const found = (completions: Completion[], may: boolean) =>
      forbiddenReplacements(completions, () => may).length;
    expect(found([first, second], false)).toBe(1);
    expect(found([first, second], true)).toBe(0);
    expect(found([first, { ...second, foundInPlace: true }], false)).toBe(0);
  });
});

describe('an upload that a crash of its server may have kept', () => {
  const [from, to] = [10, 20];
  const completed: Completion = {
    ...{ id: 'a', size: 9, sha256: 'a', position: 1n, endpointId: 'end_1', foundInPlace: false },
    ...{ startedAt: at(from), completedAt: at(to) },
  };
  const upload = { path: 'a', id: '1', bytes: 9 };
  const crash = (second: number): FaultRecord => ({
    ...{ at: at(second), until: at(second), fault: 'partner.restart', target: 's3' },
  });

  it.each([
    ['during the last attempt', upload, [completed], [crash(15)], true],
    ['before it', upload, [completed], [crash(9)], false],
    ['after it', upload, [completed], [crash(21)], false],
    ['with a part of the file only', { ...upload, bytes: 8 }, [completed], [crash(15)], false],
    ['without a part', { ...upload, bytes: 0 }, [{ ...completed, size: 0 }], [crash(15)], false],
    ['of no transfer that completed', upload, [], [crash(15)], false],
    ['without a crash', upload, [completed], [], false],
  ])('%s', (_, given, completions, crashes, expected) => {
    expect(isKeptByCrash(given, completions, crashes)).toBe(expected);
  });
});

describe('a failed transfer whose file is in place', () => {
  const fault: FaultRecord = { at: at(10), until: at(20), fault: 'cut', target: 'source' };

  it.each([
    ['connection_failed', [fault], [], []],
    ['connection_failed', [], [], ['transfers.outcome']],
    ['connection_failed', [{ ...fault, at: at(50), until: at(55) }], [], ['transfers.outcome']],
    ['checksum_mismatch', [fault], [], ['transfers.outcome']],
    ['source_not_found', [fault], [], ['transfers.outcome']],
    ['destination_exists', [fault], [], ['transfers.outcome']],
    ['aborted_by_operator', [fault], [], ['transfers.outcome']],
    ['permission_denied', [], ['permission_denied'], []],
  ])('with the code %s', (code, faults, mayFailWith, expected) => {
    expect(outcome(code, faults, mayFailWith)).toEqual(expected);
  });

  function outcome(code: string, faults: FaultRecord[], mayFailWith: string[]): string[] {
    const facts = {
      source: 'sftp://source/a',
      destination: 'sftp://destination/b',
      source_endpoint_id: null,
      destination_endpoint_id: 'end_1',
      created_at: at(5),
      error: { code, message: '' },
    };
    const story = {
      state: { status: 'failed', facts },
      lastAt: at(30),
    } as unknown as TransferStory;
    const request: Evidence['requests'][number] = {
      kind: 'create',
      sentAt: at(5),
      answeredAt: at(5),
      status: 201,
      account: 'acc_default',
      names: [],
      idempotencyKey: null,
      source: { endpoint: 'source', path: '/a' },
      destination: { endpoint: 'destination', path: '/b' },
      file: { size: 1, sha256: '' },
      mayFailWith,
      transferId: 'txr_1',
      replayed: false,
    };
    const report = createReport();
    const log = { transfers: new Map([['txr_1', story]]), endpoints: new Map() };
    const evidence = { requests: [request], faults };
    const links = new Map(operationsOf([request]).map((operation) => ['txr_1', operation]));
    checkOutcomes(
      { evidence, log, report } as unknown as Context,
      links,
      createPlaces([], new Map()),
    );
    return report.result().findings.map(({ check }) => check);
  }
});

describe('an event that arrived after a younger one of its transfer', () => {
  it.each([
    ['was not retried before', null, [], 1],
    ['arrived with its first attempt', { at: at(4), delivered: true }, [], 1],
    ['first failed before the younger one came', { at: at(2), delivered: false }, [], 0],
    ['first failed after the younger one came', { at: at(9), delivered: false }, [], 1],
    [
      'lost its record in a crash of Postgres',
      null,
      [{ at: at(2), until: at(3), fault: 'kill', target: 'postgres' }],
      0,
    ],
  ])('%s', (_, first, faults: FaultRecord[], expected) => {
    const report = createReport();
    const events = new Map(
      ['evt_1', 'evt_2'].map((id) => [id, { type: 'x', transferId: 'txr_1', occurredAt: at(1) }]),
    );
    const log = { events, owed: new Map([['whk_1', new Set(['evt_1', 'evt_2'])]]) };
    const arrived = new Map([
      ['evt_1', { first: 1, firstAt: at(5) } as Arrived],
      ['evt_2', { first: 0, firstAt: at(3) } as Arrived],
    ]);
    const rows = new Map([['whk_1', new Map([['evt_1', { first } as DeliveryRow]])]]);
    const context = { evidence: { faults }, log, report } as unknown as Context;
    checkOrder(context, { rows, pings: new Set() }, new Map([['whk_1', arrived]]));
    expect(report.result().findings).toHaveLength(expected);
    expect(report.figure('order_pairs')).toBe(1);
  });
});

it('a check that compared nothing is reported, and unlisted findings are counted', () => {
  const report = createReport();
  report.expectSome('files.content', 'files', 0);
  expect(report.result().findings).toEqual([]);
  report.expectSome('files.content', 'files', 3);
  for (let i = 0; i < 150; i += 1) report.finding('log.chain', String(i), '');
  const { findings } = report.result();
  expect(findings[0]).toMatchObject({ check: 'files.content', subject: 'files' });
  expect(findings).toHaveLength(102);
  expect(findings.at(-1)).toMatchObject({ check: 'log.chain', detail: '50 are not listed' });
});
