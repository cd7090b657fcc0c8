import { describe, expect, it } from 'vitest';
import { createChainVerifier } from '../../src/commands/chain.ts';
import { eventHash } from '../../src/commands/event-hash.ts';
import type { StoredEvent } from '../../src/domain/event.ts';

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
      schema_version: 1,
      data: { revision },
      metadata,
      stream: name,
      revision,
      position: BigInt(revision),
    });
  }
  return events;
}

const transfer = () =>
  stream('transfer-a', ['transfer.created', 'transfer.queued', 'transfer.cancelled']);

function verify(events: StoredEvent[]): string[] {
  const verifier = createChainVerifier();
  return events.flatMap((event) =>
    verifier.check(event).map((problem) => `${event.revision}: ${problem}`),
  );
}

describe('createChainVerifier', () => {
  it('finds nothing wrong with intact, interleaved streams', () => {
    const [a, b] = [transfer(), stream('key-b', ['key.created', 'key.revoked'])];
    expect(verify([a[0]!, b[0]!, a[1]!, b[1]!, a[2]!])).toEqual([]);
  });

  it('counts streams, including ended ones', () => {
    const verifier = createChainVerifier();
    for (const event of [...transfer(), ...stream('key-b', ['key.created'])]) verifier.check(event);
    expect(verifier.streams()).toBe(2);
  });

  it('finds changed data', () => {
    const [first, ...rest] = transfer();
    expect(verify([{ ...first!, data: { revision: 7 } }, ...rest])).toEqual([
      expect.stringMatching(/^1: prev_hash/),
    ]);
  });

  it('finds a missing event', () => {
    const [first, , last] = transfer();
    expect(verify([first!, last!])).toEqual([expect.stringMatching(/^2: revision 1 was expected/)]);
  });

  it('finds a missing start', () => {
    expect(verify(transfer().slice(1))[0]).toMatch(/^1: revision 0 was expected/);
  });

  it('finds an event after the end of a transfer', () => {
    const events = stream('transfer-a', [
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
});
