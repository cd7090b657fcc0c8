import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  EventStoreDBClient,
  FORWARDS,
  jsonEvent,
  START,
  StreamNotFoundError,
} from '@eventstore/db-client';
import operationsService from '@eventstore/db-client/generated/operations_grpc_pb.js';
import operationsMessages from '@eventstore/db-client/generated/operations_pb.js';
import { Agent, request } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import {
  createEventStoreDb,
  type EventStoreDbOptions,
} from '../../../src/adapters/event-store/eventstoredb/log.ts';
import {
  type EventStore,
  EventStoreUnavailable,
  EventStoreUnusable,
} from '../../../src/adapters/event-store/port.ts';
import type { NewEvent } from '../../../src/domain/events/event.ts';
import { findLeader, nodesOf, runCommand, signInOf } from '../../support/event-store/nodes.ts';
import { events, gather, numbers } from './events.ts';

const { OperationsClient } = operationsService;
const URL_OF_SERVER = process.env.EVENTSTORE_URL;
/** Shell commands that kill and start a node of the server. The chaos run uses them too. */
const { CHAOS_EVENTSTORE_STOP: STOP, CHAOS_EVENTSTORE_START: START_AGAIN } = process.env;
const SIGN_IN = /^(esdb(?:\+discover)?:\/\/)([^:@/?]+):([^@/?]+)@/;
const ADMINISTRATOR = SIGN_IN.exec(URL_OF_SERVER ?? '');

const skipped = (reason: string) => ` (skipped: ${reason})`;
const noServer = URL_OF_SERVER ? '' : skipped('no EVENTSTORE_URL');
const noSignIn = ADMINISTRATOR ? '' : skipped('EVENTSTORE_URL has no user and password');
const noCommands =
  STOP && START_AGAIN ? '' : skipped('no CHAOS_EVENTSTORE_STOP and CHAOS_EVENTSTORE_START');

describe(`a real EventStoreDB in production${noServer}`, { timeout: 120_000 }, () => {
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close();
  });

  function open(prefix: string, location: Partial<EventStoreDbOptions> = {}): EventStore {
    const store = createEventStoreDb({ url: URL_OF_SERVER as string, prefix, ...location });
    closing.push(() => store.close());
    return store;
  }

  function openClient(): EventStoreDBClient {
    const client = EventStoreDBClient.connectionString(URL_OF_SERVER as string);
    closing.push(() => client.dispose());
    return client;
  }

  // Runs first: after the scavenge test, in which a second client appends, this test hung.
  it.skipIf(noServer || noCommands)(
    `resumes after the server was killed and started${noCommands}`,
    async () => {
      const store = open(newPrefix());
      const start = await store.head();
      const following = gather(store, { from: start, until: ({ count }) => count === 40 });
      for (const n of numbers(20)) await store.append(`before-${n}`, 'no_stream', events(1));
      const node = (await findLeader(nodesOf(URL_OF_SERVER as string))) as string;
      await runCommand(STOP as string, node);
      const started = runCommand(START_AGAIN as string, node);
      for (const n of numbers(20)) await appendUntilAnswered(store, `after-${n}`, events(1));
      await started;
      const streams = (await following).flatMap((batch) => batch.events).map((e) => e.stream);
      expect(streams).toEqual([
        ...numbers(20).map((n) => `before-${n}`),
        ...numbers(20).map((n) => `after-${n}`),
      ]);
    },
  );

  it.skipIf(noServer)(
    'yields all its events from a scavenged log, from the start and from a checkpoint',
    async () => {
      const prefix = newPrefix();
      const store = open(prefix);
      const client = openClient();
      // Our events lie between events of others, which the scavenge removes.
      const foreign = newPrefix();
      for (const n of numbers(30)) {
        await client.appendToStream(`${foreign}${n % 3}`, numbers(20).map(foreignEvent));
        await store.append(`stream-${n}`, 'no_stream', events(2));
      }
      const before = await given(store, null, 60);
      const checkpoint = before[29]!.position;
      await client.deleteStream(`${foreign}0`);
      await client.tombstoneStream(`${foreign}1`);
      await client.setStreamMetadata(`${foreign}2`, { maxCount: 1 });
      await scavenge(client);
      expect(await countForeign(client, foreign)).toBeLessThan(30);

      expect(await given(store, null, 60)).toEqual(before);
      expect(await given(store, checkpoint, 30)).toEqual(before.slice(30));
      await store.append('stream-0', 1, events(1));
      expect((await given(store, checkpoint, 31)).at(-1)).toMatchObject({ stream: 'stream-0' });
    },
  );

  it.skipIf(noServer || noSignIn)(
    `rejects a user without rights on $all, and works for a user with them${noSignIn}`,
    async () => {
      const prefix = newPrefix();
      const user = await createUser();
      const location = { url: (URL_OF_SERVER as string).replace(SIGN_IN, '$1'), ...user };
      const refused = open(prefix, location);
      const follow = () => gather(refused, { from: null, until: ({ last }) => last.caughtUp });
      for (const call of [refused.head, follow]) {
        const answer = call();
        await expect(answer).rejects.toBeInstanceOf(EventStoreUnusable);
        await expect(answer).rejects.toThrow('Check user and password, and the rights of the user');
      }

      const client = openClient();
      const { metadata } = await client.getStreamMetadata('$all');
      closing.push(() => client.setStreamMetadata('$all', metadata ?? {}));
      const readRoles = ['$admins', user.user];
      await client.setStreamMetadata('$all', { ...metadata, acl: { readRoles } });
      await refused.append('stream-1', 'no_stream', events(2));
      const start = await refused.head();
      await refused.append('stream-1', 1, events(1));
      expect(await refused.read('stream-1')).toHaveLength(3);
      expect(await given(refused, start, 1)).toMatchObject([{ revision: 2 }]);
    },
  );

  async function createUser(): Promise<{ user: string; password: string }> {
    const user = `waybill_${randomBytes(6).toString('hex')}`;
    const password = randomBytes(12).toString('base64url');
    const body = { loginName: user, fullName: user, password, groups: [] };
    await ask('POST', '/users/', body);
    closing.push(() => ask('DELETE', `/users/${user}`));
    return { user, password };
  }
});

function newPrefix(): string {
  return `test_${randomBytes(6).toString('hex')}_`;
}

function foreignEvent() {
  return jsonEvent({ type: 'foreign.happened', data: { filler: 'x'.repeat(500) } });
}

async function given(store: EventStore, from: bigint | null, count: number) {
  const batches = await gather(store, {
    from,
    until: ({ last, count: so }) => so >= count && last.caughtUp,
  });
  return batches.flatMap((batch) => batch.events);
}

async function countForeign(client: EventStoreDBClient, prefix: string): Promise<number> {
  let count = 0;
  for await (const { event } of client.readAll({ direction: FORWARDS, fromPosition: START }))
    if (event?.streamId.startsWith(prefix)) count += 1;
  return count;
}

async function appendUntilAnswered(store: EventStore, stream: string, made: NewEvent[]) {
  for (;;) {
    try {
      return await store.append(stream, 'no_stream', made);
    } catch (error) {
      if (!(error instanceof EventStoreUnavailable)) throw error;
    }
  }
}

/** Scavenges the first node of the URL. Returns when it has finished. */
async function scavenge(client: EventStoreDBClient): Promise<void> {
  const nodes = nodesOf(URL_OF_SERVER as string);
  const operations = new OperationsClient(nodes.hosts[0] as string, nodes.credentials);
  const metadata = signInOf(nodes);
  const order = new operationsMessages.StartScavengeReq();
  const options = new operationsMessages.StartScavengeReq.Options();
  options.setThreadCount(1);
  order.setOptions(options);
  const id = await new Promise<string>((resolve, reject) => {
    operations.startScavenge(order, metadata, (error, answer) =>
      error ? reject(error) : resolve(answer.getScavengeId()),
    );
  });
  operations.close();
  for (;;) {
    if ((await typesIn(client, `$scavenges-${id}`)).includes('$scavengeCompleted')) return;
    await sleep(200);
  }
}

/** Returns the types of a stream's events; none if the stream does not exist. */
async function typesIn(client: EventStoreDBClient, stream: string): Promise<string[]> {
  const types: string[] = [];
  try {
    for await (const { event } of client.readStream(stream)) if (event) types.push(event.type);
  } catch (error) {
    if (!(error instanceof StreamNotFoundError)) throw error;
  }
  return types;
}

/** Calls the HTTP API of the first node of EVENTSTORE_URL as its administrator. */
async function ask(method: 'POST' | 'DELETE', path: string, body?: object): Promise<void> {
  const { hosts, ca, authorization } = nodesOf(URL_OF_SERVER as string);
  const answer = await request(`${ca === null ? 'http' : 'https'}://${hosts[0]}${path}`, {
    method,
    dispatcher: new Agent(ca === null ? {} : { connect: { ca } }),
    headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.body.text();
  if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`);
}
