import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { END, EventStoreDBClient, jsonEvent, streamNameFilter } from '@eventstore/db-client';
import { createEventStoreDb } from '../../src/adapters/event-store/eventstoredb/log.ts';
import { newId } from '../../src/domain/ids.ts';
import { type Appender, newEvent } from './appends.ts';
import type { Bench } from './bench.ts';
import { median } from './statistics.ts';

const PREFIX = `bench_${randomBytes(6).toString('hex')}_`;
/** Events in each append of a normal transfer: created; queued and in progress; completed. */
const APPENDS_OF_A_TRANSFER = [1, 2, 1];

/** Opens our engine on a server, and the bare client that it uses. */
export function openAppenders(bench: Bench, url: string): Record<string, Appender> {
  const ours = createEventStoreDb({ url, prefix: PREFIX });
  bench.defer(() => ours.close());
  return { waybill: ours, 'the bare client': openBareAppender(bench, url) };
}

/** Opens the client for an EventStoreDB without anything of ours. */
export function openBareAppender(bench: Bench, url: string): Appender {
  return appenderOf(openClient(bench, url));
}

function openClient({ defer }: Bench, url: string): EventStoreDBClient {
  const client = EventStoreDBClient.connectionString(url);
  defer(() => client.dispose());
  return client;
}

function appenderOf(client: EventStoreDBClient): Appender {
  return {
    async append(stream, expected, events) {
      const expectedRevision = expected === 'no_stream' ? expected : BigInt(expected);
      const { nextExpectedRevision, position } = await client.appendToStream(
        PREFIX + stream,
        events.map(({ type, data, metadata }) =>
          jsonEvent({ type, data: data as Record<string, string>, metadata }),
        ),
        { expectedRevision },
      );
      const commit = position?.commit ?? 0n;
      return { revision: Number(nextExpectedRevision), position: commit, isNew: null };
    },
  };
}

/**
 * Prints how long the bare client takes to append the events of so many transfers: no service that
 * keeps its log on the server can be faster. Prints nothing without EVENTSTORE_URL.
 */
export async function printBareAppends(
  bench: Bench,
  transfers: number,
  atOnce: number,
): Promise<void> {
  const url = process.env.EVENTSTORE_URL;
  if (!url) return;
  const appender = openBareAppender(bench, url);
  const rounds: number[] = [];
  for (let round = 0; round <= bench.options.runs; round++) {
    const started = performance.now();
    const left = Array(transfers).values();
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        for (const _ of left) await appendTransfer(appender);
      }),
    );
    // The first round warms up.
    if (round > 0) rounds.push(performance.now() - started);
  }
  const ms = median(rounds);
  console.log(
    `\nThe bare EventStoreDB client appends the events of ${transfers} transfers, ${atOnce} ` +
      `at a time, in ${(ms / 1_000).toFixed(3)} s: ${(ms / transfers).toFixed(2)} ms per ` +
      'transfer.',
  );
}

async function appendTransfer(appender: Appender): Promise<void> {
  const stream = `bench-${newId('txr')}`;
  let revision = -1;
  for (const count of APPENDS_OF_A_TRANSFER) {
    const events = Array.from({ length: count }, () => newEvent());
    await appender.append(stream, revision < 0 ? 'no_stream' : revision, events);
    revision += count;
  }
}

/**
 * Returns, for so many events one by one, the milliseconds from the answer to an append of the bare
 * client to the event's arrival at a subscription of the bare client.
 */
export async function bareArrivals(
  bench: Bench,
  url: string,
  count: number,
  everyMs: number,
): Promise<number[]> {
  const client = openClient(bench, url);
  const appender = appenderOf(client);
  const arrived: number[] = [];
  const subscription = client.subscribeToAll({
    fromPosition: END,
    filter: streamNameFilter({ prefixes: [PREFIX] }),
  });
  const { promise: failed, reject } = Promise.withResolvers<never>();
  subscription.on('data', () => arrived.push(performance.now())).on('error', reject);
  const live = new Promise((resolve) => subscription.once('caughtUp', resolve));
  await Promise.race([live, failed]);
  const committed: number[] = [];
  // The first one opens the connection.
  for (let n = 0; n <= count; n++) {
    await appender.append(`bench-${newId('txr')}`, 'no_stream', [newEvent()]);
    committed.push(performance.now());
    await sleep(everyMs);
  }
  while (arrived.length < committed.length) await Promise.race([sleep(20), failed]);
  subscription.off('error', reject).on('error', () => undefined);
  await subscription.unsubscribe();
  return committed.map((at, n) => (arrived[n] as number) - at).slice(1);
}
