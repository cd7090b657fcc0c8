import { describe, expect, it } from 'vitest';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { eventHash } from '../../../src/domain/events/event-hash.ts';
import { schemaVersion } from '../../../src/domain/events/upcast.ts';
import { createChainVerifier } from '../../../src/processes/verification/chain.ts';
import { batchCreated, keyCreated, T2, transferCreated } from '../../support/domain/samples.ts';

const DATA: Record<string, object> = {
  'transfer.created': transferCreated({ transfer_id: 'txr_a' }),
  'transfer.queued': { reason: 'admitted' },
  'transfer.cancelled': { cancelled_at: T2 },
  'batch.created': batchCreated(),
  'batch.opened': { opened_at: T2 },
  'batch.completed': {
    batch_id: batchCreated().batch_id,
    status: 'completed',
    counts: { items: 0, completed: 0, failed: 0, cancelled: 0 },
    bytes: 0,
    created_at: T2,
    ended_at: T2,
  },
  'key.created': keyCreated({ key_id: 'key_b' }),
  'key.revoked': { revoked_at: T2 },
  'access.history_read': { transfer_id: 'txr_a' },
  'access.receipt_read': { transfer_id: 'txr_a' },
};

function stream(name: string, types: string[]): StoredEvent[] {
  const events: StoredEvent[] = [];
  for (const [revision, type] of types.entries()) {
    const before = events.at(-1);
    const metadata = {
      ...{
        actor: 'system',
        account_id: null,
        correlation_id: 'req_1',
        causation_id: null,
        occurred_at: `2026-01-31T09:30:0${revision}.000Z`,
      },
      prev_hash: before ? eventHash(before) : null,
    };
    events.push({
      id: `evt_${revision}`,
      type,
      schema_version: schemaVersion(type),
      data: DATA[type],
      metadata,
      stream: name,
      revision,
      position: BigInt(revision),
    });
  }
  return events;
}

const transfer = () =>
  stream('transfer-txr_a', ['transfer.created', 'transfer.queued', 'transfer.cancelled']);

function verify(events: StoredEvent[]): string[] {
  const verifier = createChainVerifier();
  return events.flatMap((event) =>
    verifier.check(event).problems.map((problem) => `${event.revision}: ${problem}`),
  );
}

describe('createChainVerifier', () => {
  it('finds nothing wrong with intact, interleaved streams', () => {
    const [a, b] = [transfer(), stream('key-key_b', ['key.created', 'key.revoked'])];
    expect(verify([a[0]!, b[0]!, a[1]!, b[1]!, a[2]!])).toEqual([]);
  });

  it('accepts any order of accesses, and nothing else in their streams', () => {
    const types = ['access.receipt_read', 'access.history_read', 'access.receipt_read'];
    expect(verify(stream('access-acs_1', types))).toEqual([]);
    expect(verify(stream('access-acs_1', ['access.history_read', 'key.revoked']))).toEqual([
      '1: key.revoked cannot follow in the status recorded',
      expect.stringMatching(/^1: key.revoked is no event of the stream access-acs_1/),
    ]);
  });

  it('holds a limited number of streams of accesses, and those that got the last events', () => {
    const names = Array.from({ length: 1_500 }, (_, i) => `access-acs_${i}`);
    const verifier = createChainVerifier();
    const [first, second] = stream(names[0] as string, [
      'access.receipt_read',
      'access.receipt_read',
    ]);
    for (const name of names.slice(0, 900))
      verifier.check(stream(name, ['access.history_read'])[0] as StoredEvent);
    expect(verifier.mayBeForgotten(names[0] as string)).toBe(false);
    for (const name of names.slice(900))
      verifier.check(stream(name, ['access.history_read'])[0] as StoredEvent);
    const { open, hasForgotten } = verifier.state();
    expect([open.length, hasForgotten]).toEqual([1_000, true]);
    expect(names.map(verifier.mayBeForgotten)).toEqual(names.map((_, i) => i < 500));
    expect([verifier.mayBeForgotten('key-key_b'), verifier.open().size]).toEqual([false, 0]);
    const next = createChainVerifier({ open, hasForgotten });
    expect(names.map(next.mayBeForgotten)).toEqual(names.map((_, i) => i < 500));
    expect(next.mayBeForgotten('access-acs_new')).toBe(true);
    for (const one of [verifier, next]) {
      one.recall(first as StoredEvent);
      expect(one.check(second as StoredEvent)).toMatchObject({ problems: [], opened: false });
      expect(one.check(first as StoredEvent).problems).toEqual([
        expect.stringMatching(/^revision 2 was expected/),
      ]);
      one.recall({ ...(first as StoredEvent), type: 'access.history_read' });
      expect(one.check(second as StoredEvent).problems).toEqual([
        expect.stringMatching(/^prev_hash is not the hash of the event before it/),
      ]);
    }
  });

  it('says which events open a stream', () => {
    const verifier = createChainVerifier();
    const events = [...transfer(), ...stream('key-key_b', ['key.created'])];
    expect(events.map((event) => verifier.check(event).opened)).toEqual([true, false, false, true]);
  });

  it('forgets a batch that has ended, and finds an event after its end', () => {
    const events = stream(`batch-${batchCreated().batch_id}`, [
      'batch.created',
      'batch.opened',
      'batch.completed',
      'batch.opened',
    ]);
    const verifier = createChainVerifier();
    expect(events.slice(0, 3).flatMap((event) => verifier.check(event).problems)).toEqual([]);
    expect(verifier.open().size).toBe(0);
    expect(verify(events)).toEqual([expect.stringMatching(/^3: revision 0 was expected/)]);
  });

  it('finds changed data', () => {
    const [first, ...rest] = transfer();
    expect(
      verify([
        { ...first!, data: transferCreated({ transfer_id: 'txr_a', priority: 'high' }) },
        ...rest,
      ]),
    ).toEqual([expect.stringMatching(/^1: prev_hash/)]);
  });

  it.each([Infinity, '\ud800'])('names an event that no JSON of Waybill has: %j', (value) => {
    const [first, second] = transfer() as [StoredEvent, StoredEvent];
    const third = { ...second, revision: 2, id: 'evt_2' };
    expect(verify([first, { ...second, data: { reason: value } }, third])).toEqual([
      expect.stringMatching(/^1: it was changed: /),
    ]);
  });

  it.each([undefined, 7, '', '2027'])('finds a time that is none: %j', (occurred_at) => {
    const [first, second] = transfer() as [StoredEvent, StoredEvent];
    const metadata = { ...second.metadata, occurred_at } as StoredEvent['metadata'];
    expect(verify([first, { ...second, metadata }])).toEqual(
      expect.arrayContaining([expect.stringMatching(/^1: its time is missing, or is no time/)]),
    );
  });

  it('finds a missing event', () => {
    const [first, , last] = transfer();
    expect(verify([first!, last!])).toEqual([expect.stringMatching(/^2: revision 1 was expected/)]);
  });

  it('finds a missing start', () => {
    expect(verify(transfer().slice(1))[0]).toMatch(/^1: revision 0 was expected/);
  });

  it('finds an event after the end of a transfer', () => {
    const events = stream('transfer-txr_a', [
      'transfer.created',
      'transfer.cancelled',
      'transfer.queued',
    ]);
    expect(verify(events)).toEqual([expect.stringMatching(/^2: revision 0 was expected/)]);
  });

  it('finds ids and times that decrease', () => {
    const [first, second] = transfer() as [StoredEvent, StoredEvent];
    const late = {
      ...first,
      id: 'evt_9',
      metadata: { ...first.metadata, occurred_at: '2027-01-01T00:00:00.000Z' },
    };
    const next = { ...second, metadata: { ...second.metadata, prev_hash: eventHash(late) } };
    expect(verify([late, next])).toEqual([
      expect.stringMatching(/its id/),
      expect.stringMatching(/dated earlier/),
    ]);
  });

  it('finds a stream under another name', () => {
    const renamed = transfer().map((event) => ({ ...event, stream: 'transfer-txr_b' }));
    expect(verify(renamed)).toEqual([expect.stringMatching(/^0: its transfer_id is "txr_a"/)]);
    const key = stream('key-key_c', ['key.created', 'key.revoked']);
    expect(verify(key)).toEqual([expect.stringMatching(/^0: its key_id is "key_b"/)]);
    const elsewhere = transfer().map((event) => ({ ...event, stream: 'log' }));
    expect(verify(elsewhere)[0]).toMatch(/^0: transfer.created is no event of the stream log/);
  });

  it('finds an event that cannot follow', () => {
    expect(verify(stream('transfer-txr_a', ['transfer.created', 'transfer.completed']))).toEqual([
      '1: transfer.completed cannot follow in the status pending',
    ]);
    expect(verify(stream('key-key_b', ['key.revoked']))).toEqual([
      '0: key.revoked cannot follow in the status none',
      expect.stringMatching(/^0: its key_id is missing/),
    ]);
  });

  it('finds data that a decider cannot read, and goes on', () => {
    const { batch_id } = batchCreated();
    const types = ['batch.created', 'batch.listed', 'batch.opened'];
    const [created, listed, opened] = stream(`batch-${batch_id}`, types);
    for (const data of [{}, { items: null }, { items: 7 }])
      expect(verify([created, { ...listed, data }, opened] as StoredEvent[])).toContain(
        '1: it was changed: its data is not that of batch.listed',
      );
  });

  it('folds each stream, and continues with the streams that it left open', () => {
    const [created, queued, cancelled] = transfer() as [StoredEvent, StoredEvent, StoredEvent];
    const verifier = createChainVerifier();
    verifier.check(created);
    expect(verifier.check(queued)).toMatchObject({ ended: false });
    const next = createChainVerifier(JSON.parse(JSON.stringify(verifier.state())));
    expect(next.check(cancelled)).toMatchObject({
      problems: [],
      ended: true,
      stream: { state: { status: 'cancelled' } },
    });
    expect(next.open().size).toBe(0);
  });
});
