import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2';
import type { EventStoreDBClient } from '@eventstore/db-client';
import { convertToCommandError } from '@eventstore/db-client/dist/utils/CommandError.js';
import service from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js';
import { EventStoreUnavailable } from '../port.ts';
import { createFrameReader, frame } from './frames.ts';
import { internalsOf, lastingCall } from './library.ts';

/*
 * The calls that last: that of appends, and those of subscriptions.
 *
 * The library opens such a call: it finds the server, connects, signs in, and reports how the call
 * ended. The messages do not pass through the library. It sends one in each turn of the event loop,
 * with a system call of its own, and pauses the connection after each one that it receives. Here
 * the messages of a turn share one write, and those that arrive together are read together.
 *
 * It relies on Node.js, which announces each new HTTP/2 stream, and on the library's gRPC, which
 * listens to the data of its streams and does nothing else with them.
 */

export interface LastingCall {
  /** Sends a message, with the others of this turn of the event loop. */
  send(message: Buffer): void;
  /** True while the server takes no data. */
  needsDrain(): boolean;
  /** Resolves when the server takes data again, or when the call has ended. */
  drained(): Promise<unknown>;
  pause(): void;
  resume(): void;
  /** Ends the call. `ended` follows. */
  cancel(): void;
}

export interface LastingCallOptions {
  client: EventStoreDBClient;
  method: keyof typeof service.StreamsService & ('batchAppend' | 'read');
  /** Sent first, as the only message. By default, the call sends any number of messages. */
  request?: Buffer;
  received(message: Buffer): void;
  /** Called once after the call was open, with its error, or null if the server just ended it. */
  ended(error: Error | null): void;
}

/** Names a call in the headers of its stream. */
const HEADER = 'waybill-call';

const opening = new Map<string, (stream: ClientHttp2Stream) => void>();
let calls = 0;

channel('http2.client.stream.created').subscribe((message) => {
  const { stream, headers } = message as {
    stream: ClientHttp2Stream;
    headers: IncomingHttpHeaders;
  };
  if (headers[HEADER] !== undefined) opening.get(String(headers[HEADER]))?.(stream);
});

/**
 * Opens a call. Rejects with the error that ended it before it was open, or EventStoreUnavailable
 * if the server just ended it.
 */
export async function openLastingCall({
  client,
  method,
  request,
  received,
  ended,
}: LastingCallOptions): Promise<LastingCall> {
  const internals = internalsOf(client);
  const number = String(++calls);
  const { promise: opened, resolve, reject } = Promise.withResolvers<ClientHttp2Stream>();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  let call: ClientDuplexStream<Buffer, Buffer> | null = null;
  let state: 'opening' | 'open' | 'ended' = 'opening';

  function finish(error: Error | null): void {
    if (state === 'ended') return;
    const wasOpen = state === 'open';
    state = 'ended';
    opening.delete(number);
    // The library waits for both ends of a call when it disposes of its client.
    call?.end();
    reject(error ?? new EventStoreUnavailable('the server ended the call'));
    end();
    if (wasOpen) ended(error);
  }

  const read = createFrameReader((message) => {
    if (state === 'open') received(message);
  });
  opening.set(number, (stream) => {
    if (state === 'open') {
      // gRPC repeats a call that no server has seen. What was sent here went to the first stream.
      finish(new EventStoreUnavailable('the server did not take the call'));
      call?.cancel();
      return;
    }
    state = 'open';
    resolve(stream);
    stream.once('response', () =>
      // By now the library listens to the data.
      stream.removeAllListeners('data').on('data', (chunk: Buffer) => {
        try {
          read(chunk);
        } catch (error) {
          finish(error as Error);
          call?.cancel();
        }
      }),
    );
  });
  const [metadata, options] = lastingCall(internals);
  metadata.set(HEADER, number);
  const open = internals.GRPCStreamCreator(service.StreamsClient, method, (grpc) =>
    grpc
      .makeBidiStreamRequest(
        service.StreamsService[method].path,
        (message) => message,
        (message) => message,
        metadata,
        options,
      )
      .on('error', (error) => finish(convertToCommandError(error as ServiceError)))
      .on('status', () => finish(null))
      .resume(),
  );
  opened.catch(() => undefined);
  call = await open().catch((error: Error) => {
    finish(error);
    throw error;
  });
  if (request !== undefined) call.end(request);
  const stream = await opened;
  let draining: Promise<unknown> | null = null;

  return {
    send(message) {
      if (stream.writableCorked === 0) {
        stream.cork();
        setImmediate(() => stream.uncork());
      }
      stream.write(frame(message));
    },
    needsDrain: () => state === 'open' && stream.writableNeedDrain,
    drained() {
      draining ??= Promise.race([once(stream, 'drain').catch(() => over), over]).finally(() => {
        draining = null;
      });
      return draining;
    },
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    cancel: () => call?.cancel(),
  };
}
