import { once } from 'node:events';
import type { EventStoreDBClient } from '@eventstore/db-client';
import { convertToCommandError } from '@eventstore/db-client/dist/utils/CommandError.js';
import service from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js';
import { withTimeout } from '../../../concurrency/with-timeout.ts';
import { EventStoreUnavailable } from '../port.ts';
import {
  type Answer,
  type Append,
  type Appended,
  decodeAnswer,
  encodeAppend,
} from './append-messages.ts';
import type { CallLimits } from './connection.ts';
import { internalsOf, lastingCall } from './library.ts';
import { checkServerVersion } from './server-version.ts';

/*
 * The call that carries all appends of a client, over the connection of the library.
 *
 * The library's own appends share one process-wide table of what waits for an answer, so an error of
 * one client fails the appends of another, and a late answer ends the process. Here each call has a
 * table of its own, and ignores an answer for which nothing waits. An append that was given up is
 * repeated with the same ids, so that loses nothing.
 *
 * The end of a call, with or without an error, rejects everything that waits for an answer on it.
 * The next append opens another call.
 */

type Call = ClientDuplexStream<Buffer, Answer>;

interface Waiting {
  resolve(appended: Appended): void;
  reject(error: Error): void;
}

export type Send = (append: Append, limits: CallLimits) => Promise<Appended>;

/**
 * Creates the function that appends. It rejects with the error of the server or of the call, or with
 * EventStoreUnavailable if its time is over.
 */
export function createAppendStream(client: EventStoreDBClient): Send {
  const internals = internalsOf(client);
  const calls = new WeakMap<Call, Map<number, Waiting>>();
  let current: Promise<Call> | null = null;
  let draining: Promise<unknown> | null = null;
  let appends = 0;

  const create = internals.GRPCStreamCreator(service.StreamsClient, 'batchAppend', (grpc) => {
    const call = grpc.makeBidiStreamRequest(
      service.StreamsService.batchAppend.path,
      (message) => message,
      decodeAnswer,
      ...lastingCall(internals),
    );
    const waiting = new Map<number, Waiting>();
    calls.set(call, waiting);
    call
      .on('data', ({ call: number, outcome }: Answer) => {
        const caller = waiting.get(number);
        waiting.delete(number);
        if (outcome instanceof Error) caller?.reject(outcome);
        else caller?.resolve(outcome);
      })
      .on('error', (error) => end(call, convertToCommandError(error as ServiceError)))
      .on('status', () => end(call, new EventStoreUnavailable('the server ended the call')));
    return call;
  });

  async function open(): Promise<Call> {
    try {
      await checkServerVersion(client);
      return await create();
    } catch (error) {
      current = null;
      throw error;
    }
  }

  function end(call: Call, error: Error): void {
    const waiting = calls.get(call);
    if (waiting === undefined) return;
    calls.delete(call);
    current = null;
    draining = null;
    for (const { reject } of waiting.values()) reject(error);
  }

  /** Resolves when the call takes more data. Rejects if it fails. */
  function drained(call: Call): Promise<unknown> {
    draining ??= once(call, 'drain').finally(() => {
      draining = null;
    });
    return draining;
  }

  return async (append, { signal, attemptMs }) => {
    const openWithin = attemptMs();
    current ??= open();
    const call = await withTimeout(openWithin, current, EventStoreUnavailable);
    // Data waits here while the server takes none, so that it can still be given up.
    while (call.writableNeedDrain)
      await withTimeout(attemptMs(), drained(call), EventStoreUnavailable);
    signal.throwIfAborted();
    const waiting = calls.get(call);
    if (waiting === undefined) throw new EventStoreUnavailable('the server ended the call');
    const ms = attemptMs();
    const answer = new Promise<Appended>((resolve, reject) => {
      const number = ++appends;
      waiting.set(number, { resolve, reject });
      call.write(encodeAppend(number, append, Date.now() + ms));
    });
    return withTimeout(ms, answer, EventStoreUnavailable);
  };
}
