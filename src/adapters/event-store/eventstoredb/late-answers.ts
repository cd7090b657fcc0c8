import type { EventStoreDBClient } from '@eventstore/db-client';

type Listener = (message: unknown) => void;

/** Private part of the library: the stream that carries all appends of a client. */
interface AppendStream {
  listeners(event: 'data'): Listener[];
  removeAllListeners(event: 'data'): void;
  on(event: 'data', listener: Listener): void;
}

interface Internals {
  GRPCStreamCreator(
    service: unknown,
    name: string,
    create: (grpc: unknown) => AppendStream,
    cache?: unknown,
  ): unknown;
}

/**
 * Makes a client ignore answers to appends for which it no longer waits.
 *
 * The client's `data` handler looks up the append in its table of pending appends and reads its
 * fields without a check. An error empties that table. An answer that arrives later throws a
 * TypeError where no code can catch it, which ends the process. Ignoring the answer loses nothing,
 * because the append is repeated with the same ids. KurrentDB-Client-NodeJS pull request 523 fixes
 * this; no version of @eventstore/db-client has the fix.
 */
export function ignoreUnknownAnswers(client: EventStoreDBClient): EventStoreDBClient {
  const internals = client as unknown as Internals;
  const createStream = internals.GRPCStreamCreator;
  internals.GRPCStreamCreator = (service, name, create, cache) =>
    name === 'appendToStream'
      ? createStream(service, name, (grpc) => guarded(create(grpc)), cache)
      : createStream(service, name, create, cache);
  return client;
}

function guarded(stream: AppendStream): AppendStream {
  const listeners = stream.listeners('data');
  stream.removeAllListeners('data');
  for (const listener of listeners) {
    stream.on('data', (message) => {
      try {
        listener(message);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    });
  }
  return stream;
}
