import { expect, test } from 'vitest';
import { createRenewable } from '../../../src/adapters/event-store/eventstoredb/renewable.ts';
import { EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';

const TIMED_OUT = new EventStoreUnavailable('no answer within 3000 ms');

function renewable() {
  const clock = { ms: 0 };
  let opened = 0;
  const closed: number[] = [];
  const clients = createRenewable(
    () => ++opened,
    (client) => closed.push(client),
    () => clock.ms,
  );
  return { clock, clients, closed, opened: () => opened };
}

test('a silent server gets few clients, however many calls time out', () => {
  const { clock, clients, opened } = renewable();
  for (clock.ms = 0; clock.ms < 3_600_000; clock.ms += 3_000)
    clients.renew(clients.current(), TIMED_OUT);
  expect(opened()).toBeLessThan(70);
});

test('the first time-out after an answer renews the client at once', () => {
  const { clock, clients } = renewable();
  for (let i = 0; i < 10; i++) clients.renew(clients.current(), TIMED_OUT);
  expect(clients.current()).toBe(2);
  clock.ms += 1;
  expect(clients.renew(clients.current(), TIMED_OUT)).toBe(false);
  clients.answered(clients.current());
  expect(clients.renew(clients.current(), TIMED_OUT)).toBe(true);
});

test('only the current client is renewed, and only after a transient error', () => {
  const { clients, closed } = renewable();
  const first = clients.current();
  expect(clients.renew(first, new Error('a fault'))).toBe(false);
  expect(clients.renew(first, TIMED_OUT)).toBe(true);
  expect(clients.renew(first, TIMED_OUT)).toBe(false);
  expect(closed).toEqual([first]);
});
