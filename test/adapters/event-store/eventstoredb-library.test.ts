import { expect, it, onTestFinished } from 'vitest';
import { openLastingCall } from '../../../src/adapters/event-store/eventstoredb/lasting-call.ts';
import { openClient } from '../../../src/adapters/event-store/eventstoredb/library.ts';
import { startFakeEventStoreDb } from '../../support/event-store/fake/server.ts';

const turn = () => new Promise(setImmediate);

it('leaves no rejection without a handler where calls fail during a failing discovery', async () => {
  const unhandled: unknown[] = [];
  const listener = (reason: unknown) => unhandled.push(reason);
  process.on('unhandledRejection', listener);
  onTestFinished(() => void process.off('unhandledRejection', listener));
  const server = await startFakeEventStoreDb();
  const client = openClient(server.clusterUrl);
  onTestFinished(() => client.dispose());
  const appends = Promise.withResolvers<Error | null>();
  const [received, method] = [() => undefined, 'batchAppend'] as const;
  await openLastingCall({ client, method, received, ended: appends.resolve });
  const subscription = client.subscribeToAll();
  const failed = new Promise((resolve) => subscription.once('error', resolve));
  await expect.poll(() => [server.appendCalls(), server.subscriptions()]).toEqual([1, 1]);
  // The client gives up its connection. The next call looks for a node, while the older one fails.
  server.killAppendBatches();
  expect(await appends.promise).toBeInstanceOf(Error);
  await turn();
  const next = expect(client.getStreamMetadata('stream-1')).rejects.toThrow('Failed to discover');
  server.stop();
  await failed;
  await next;
  await turn();
  expect(unhandled).toEqual([]);
});
