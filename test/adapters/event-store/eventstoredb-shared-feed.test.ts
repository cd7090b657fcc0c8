import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../../support/event-store/fake/server.ts';
import { events, type GatherOptions, gather, numbers } from './events.ts';

describe('subscriptions of one store to an EventStoreDB', () => {
  let server: FakeEventStoreDb;
  let store: EventStore;
  let stop: AbortController;

  beforeEach(async () => {
    server = await startFakeEventStoreDb();
    store = createEventStoreDb({ url: server.url, prefix: 'waybill_' });
    stop = new AbortController();
  });
  afterEach(async () => {
    stop.abort();
    await store.close();
    server.close();
  });

  /** Follows streams until the test ends, and notes the events and the last position. */
  function follow(streams: string[], options: Partial<GatherOptions> = {}) {
    const seen = { events: [] as StoredEvent[], position: 0n, caughtUp: false };
    const until: GatherOptions['until'] = ({ last }) => {
      seen.events.push(...last.events);
      seen.position = last.position;
      seen.caughtUp = last.caughtUp;
      return false;
    };
    const done = gather(store, { from: null, streams, signal: stop.signal, until, ...options });
    return { seen, done };
  }

  const untilShared = () => vi.waitUntil(() => server.subscriptions() === 1, 30_000);
  const names = ({ events: given }: { events: StoredEvent[] }) => given.map(({ stream }) => stream);

  it('share one subscription, and each gets the events of its streams once', async () => {
    const all = follow(['']);
    const transfers = follow(['transfer-']);
    const others = follow(['key-', 'webhook-']);
    await vi.waitUntil(() => all.seen.caughtUp && transfers.seen.caughtUp, 30_000);
    const streams = numbers(30).map((i) => `${['transfer', 'key', 'webhook'][i % 3]}-${i}`);
    for (const stream of streams) await store.append(stream, 'no_stream', events(1));
    await vi.waitUntil(() => names(all.seen).length === 30, 30_000);
    await untilShared();
    const sent = server.counts.eventsSent;
    for (const stream of streams) await store.append(stream, 0, events(1));
    await vi.waitUntil(
      () =>
        [all, transfers, others].map(({ seen }) => seen.events.length).join() === '60,20,40' &&
        all.seen.caughtUp,
      30_000,
    );
    expect(server.counts.eventsSent - sent).toBe(30);
    const ours = (...kinds: string[]) =>
      [...streams, ...streams].filter((name) => kinds.some((kind) => name.startsWith(kind)));
    expect(names(all.seen)).toEqual(ours(''));
    expect(names(transfers.seen)).toEqual(ours('transfer-'));
    expect(names(others.seen)).toEqual(ours('key-', 'webhook-'));
  });

  it('move on in a log without events of their streams', async () => {
    const quiet = follow(['webhook-']);
    follow(['transfer-']);
    await untilShared();
    const { position } = await store.append('transfer-1', 'no_stream', events(1));
    await vi.waitUntil(() => quiet.seen.position === position, 30_000);
    expect(quiet.seen.events).toEqual([]);
  });

  it.each([
    ['ends', () => server.endSubscriptions()],
    ['fails', () => server.failSubscriptions(status.UNAVAILABLE)],
    ['loses its connection', () => server.disconnect()],
  ])('lose and repeat nothing when the shared one %s', async (_, drop) => {
    const followers = [follow(['']), follow(['transfer-']), follow(['transfer-', 'key-'])];
    const streams = numbers(9).map((i) => `transfer-${i}`);
    for (const [i, stream] of streams.entries()) {
      if (i % 3 === 0) await untilShared();
      await store.append(stream, 'no_stream', events(1));
      if (i % 3 === 1) await drop();
    }
    for (const { seen } of followers) {
      await vi.waitUntil(() => seen.events.length === 9 && seen.caughtUp, 30_000);
      expect(names(seen)).toEqual(streams);
    }
    await untilShared();
  });

  it.each([
    ['many', 8_500, 500, ''],
    ['large', 640, 10, 'x'.repeat(65_536)],
  ])(
    'do not wait for one that stops for %s events, and it gets each of them',
    async (_, moreThanAWindow, each, text) => {
      const fast = follow(['transfer-']);
      const slow: StoredEvent[] = [];
      const gate = Promise.withResolvers<void>();
      const following = (async () => {
        const options = { from: null, streams: ['transfer-'], signal: stop.signal };
        for await (const batch of store.subscribe(options)) {
          slow.push(...batch.events);
          if (batch.events.length > 0) await gate.promise;
        }
      })();
      await untilShared();
      for (const i of numbers(moreThanAWindow / each))
        await store.append(
          `transfer-${i}`,
          'no_stream',
          events(each).map((event) => ({ ...event, data: { text } })),
        );
      await vi.waitUntil(() => fast.seen.events.length === moreThanAWindow, 30_000);
      expect(slow.length).toBeLessThan(moreThanAWindow);
      const sent = server.counts.eventsSent;
      gate.resolve();
      await vi.waitUntil(() => slow.length >= moreThanAWindow, 30_000);
      expect(slow).toEqual(fast.seen.events);
      // The window no longer had them, so the server sent them again.
      expect(server.counts.eventsSent).toBeGreaterThan(sent);
      await untilShared();
      stop.abort();
      await following;
    },
  );

  it('close the shared one when the last ends', async () => {
    const { done } = follow(['transfer-']);
    follow(['key-']);
    await untilShared();
    stop.abort();
    await done;
    await vi.waitUntil(() => server.subscriptions() === 0, 30_000);
  });
});
