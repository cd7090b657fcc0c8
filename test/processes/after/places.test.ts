import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createPlaces, type Places } from '../../../src/processes/after/places.ts';

let places: Places;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  places = createPlaces();
});
afterEach(() => {
  vi.useRealTimers();
});

const take = (count: number, endpointId: string) =>
  Array.from({ length: count }, () => places.take(endpointId));

function prove(endpointId: string): void {
  const turn = places.take(endpointId);
  turn.answered(true);
  turn.end();
}

const at = (endpointId: string) =>
  places.room().endpoints.find((endpoint) => endpoint.endpointId === endpointId);

it('an endpoint has one place until it answers, then four', () => {
  const turn = places.take('a');
  expect(at('a')).toEqual({ endpointId: 'a', free: 0, answers: false });
  turn.answered(true);
  expect(at('a')).toEqual({ endpointId: 'a', free: 3, answers: true });
  turn.end();
  const failed = places.take('a');
  failed.answered(false);
  failed.end();
  expect(at('a')).toEqual({ endpointId: 'a', free: 1, answers: false });
});

it('endpoints that fall silent give their places to those that answer', () => {
  for (const endpointId of ['a', 'b', 'c', 'd', 'healthy']) prove(endpointId);
  const before = places.room();
  const [turn] = ['a', 'b', 'c', 'd'].flatMap((endpointId) => take(4, endpointId));
  expect(places.room()).toMatchObject({ answering: 0, unproven: before.unproven });
  vi.advanceTimersByTime(5_000);
  expect(places.room()).toMatchObject({ answering: 16, unproven: before.unproven - 4 });
  expect(at('healthy')).toEqual({ endpointId: 'healthy', free: 4, answers: true });
  turn?.answered(true);
  expect(places.room()).toMatchObject({ answering: 12, unproven: before.unproven - 3 });
});

it('a long step leaves its endpoint places for others', () => {
  prove('a');
  take(1, 'a');
  vi.advanceTimersByTime(60_000);
  expect(at('a')).toEqual({ endpointId: 'a', free: 3, answers: false });
});

it('endpoints come in the order of their last step', () => {
  for (const endpointId of ['a', 'b', 'c', 'a']) prove(endpointId);
  expect(places.room().endpoints.map(({ endpointId }) => endpointId)).toEqual(['b', 'c', 'a']);
});

it('a step whose endpoint becomes known moves there, if that has a place', () => {
  const { unread } = places.room();
  const [first, second] = take(2, '');
  expect(places.room()).toMatchObject({ unread: unread - 2, endpoints: [] });
  expect(first?.moveTo('a')).toBe(true);
  expect(second?.moveTo('a')).toBe(false);
  expect(places.room()).toMatchObject({ unread: unread - 1 });
  first?.answered(true);
  expect(second?.moveTo('a')).toBe(true);
  second?.end();
  expect(second && at('a')).toMatchObject({ free: 3 });
  expect(places.room()).toMatchObject({ unread });
});

it('a step does not move to an endpoint that answers while all of those are busy', () => {
  for (const endpointId of ['a', 'b', 'c', 'd', 'e']) prove(endpointId);
  for (const endpointId of ['a', 'b', 'c', 'd']) take(4, endpointId);
  expect(places.take('').moveTo('e')).toBe(false);
  expect(places.take('').moveTo('new')).toBe(true);
});
