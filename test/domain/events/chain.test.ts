import { expect, it } from 'vitest';
import { type Causation, chain } from '../../../src/domain/events/chain.ts';
import type { NewEvent } from '../../../src/domain/events/event.ts';
import { eventHash } from '../../../src/domain/events/event-hash.ts';
import { newId } from '../../../src/domain/ids.ts';

const CAUSATION: Causation = {
  account_id: 'acc_default',
  actor: 'key:key_1',
  causation_id: null,
  correlation_id: 'req_1',
};
const NOW = '2030-01-01T00:00:00.000Z';
const decided = (...datas: object[]) => datas.map((data) => ({ type: 'any.happened', data }));

it('continues from the last event of the stream', () => {
  const [first] = chain(decided({}), null, CAUSATION, { now: NOW });
  const [second, third] = chain(decided({}, {}), first as NewEvent, CAUSATION, { now: NOW });
  expect(first?.metadata).toEqual({ ...CAUSATION, occurred_at: NOW, prev_hash: null });
  expect(second?.metadata.prev_hash).toBe(eventHash(first as NewEvent));
  expect(third?.metadata.prev_hash).toBe(eventHash(second as NewEvent));
  const ids = [first, second, third].map((event) => event?.id);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(3);
});

it('never dates an event before the one that it follows', () => {
  const last = chain(decided({}), null, CAUSATION, { now: NOW }).at(-1) as NewEvent;
  const occurredAt = (now: string) =>
    chain(decided({}), last, CAUSATION, { now })[0]?.metadata.occurred_at;
  expect(occurredAt('2029-12-31T23:00:00.000Z')).toBe(NOW);
  expect(occurredAt('2030-01-01T00:00:01.000Z')).toBe('2030-01-01T00:00:01.000Z');
});

it('gives a reserved id to the first event of a stream, and to no other', () => {
  const eventId = newId('evt');
  const [first, second] = chain(decided({}, {}), null, CAUSATION, { now: NOW, eventId });
  expect(first?.id).toBe(eventId);
  expect(second?.id).not.toBe(eventId);
  const [third] = chain(decided({}), second as NewEvent, CAUSATION, { now: NOW, eventId });
  expect(third?.id).not.toBe(eventId);
});

it('writes keys in the order of RFC 8785, and no NUL', () => {
  const [event] = chain(decided({ b: 'x\0y', a: { d: 1, c: 2 } }), null, CAUSATION, { now: NOW });
  expect(JSON.stringify(event?.data)).toBe('{"a":{"c":2,"d":1},"b":"x\ufffdy"}');
  const keys = Object.keys(event?.metadata as object);
  expect(keys.toSorted()).toEqual(keys);
});
