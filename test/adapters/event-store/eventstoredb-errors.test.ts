import { status } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { giveUp } from '../../../src/adapters/event-store/eventstoredb/errors.ts';
import {
  closeConnection,
  endClient,
  openClient,
} from '../../../src/adapters/event-store/eventstoredb/library.ts';
import { checkServerVersion } from '../../../src/adapters/event-store/eventstoredb/server-version.ts';
import { EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { freePort } from '../../support/network/free-port.ts';

const ENDED_WITH_ANOTHER =
  'EventStoreDB: append: another request got no answer, or its connection broke, so this one ' +
  'ended too. Check that it runs, and its address';

function openHere(port: number, scheme = 'esdb') {
  const client = openClient(`${scheme}://127.0.0.1:${port}?tls=false`);
  onTestFinished(() => endClient(client));
  return client;
}

/** Returns what an operator reads of a call that failed. */
async function wordsOf(call: Promise<unknown>): Promise<string> {
  const error = await call
    .catch((error: unknown) => giveUp(error, 'append'))
    .catch((error: unknown) => error);
  expect(error).toBeInstanceOf(EventStoreUnavailable);
  return (error as Error).message;
}

test('says why there is no connection', async () => {
  const port = await freePort();
  expect(await wordsOf(checkServerVersion(openHere(port)))).toBe(
    `EventStoreDB: append: no connection (connect ECONNREFUSED 127.0.0.1:${port}). ` +
      'Check that it runs, and its address',
  );
});

test('says that no node of a cluster answers as one that has a leader', async () => {
  const client = openHere(await freePort(), 'esdb+discover');
  expect(await wordsOf(checkServerVersion(client))).toBe(
    'EventStoreDB: append: no node answers, or those that answer have no leader. Check that most ' +
      'of the nodes run and reach each other, and their addresses',
  );
});

test('says that a call ended because its client was replaced', async () => {
  const client = openHere(await freePort());
  closeConnection(client);
  expect(await wordsOf(checkServerVersion(client))).toBe(ENDED_WITH_ANOTHER);
});

test.each([
  [status.UNAVAILABLE, '14 UNAVAILABLE: Channel closed before call started'],
  [status.CANCELLED, '1 CANCELLED: Cancelled on client'],
])('says the same of calls under way: code %i', async (code, message) => {
  const error = Object.assign(new Error(message), { code });
  expect(await wordsOf(Promise.reject(error))).toBe(ENDED_WITH_ANOTHER);
});

test('says that the first try to connect goes on', async () => {
  const message = '14 UNAVAILABLE: No connection established. Last error: null. Resolution note: ';
  const error = Object.assign(new Error(message), { code: status.UNAVAILABLE });
  expect(await wordsOf(Promise.reject(error))).toBe(
    'EventStoreDB: append: no connection. Check that it runs, and its address',
  );
});
