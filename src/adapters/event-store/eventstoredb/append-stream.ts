import type { EventStoreDBClient } from '@eventstore/db-client';
import { withTimeout } from '../../../concurrency/with-timeout.ts';
import { EventStoreUnavailable } from '../port.ts';
import { type Append, type Appended, decodeAnswer, encodeAppend } from './append-messages.ts';
import type { CallLimits } from './calls.ts';
import { AnswerLost } from './errors.ts';
import { type LastingCall, openLastingCall } from './lasting-call.ts';
import { endClient } from './library.ts';
import { checkServerVersion } from './server-version.ts';

/*
 * The call that carries all appends of a client, over the connection of the library.
 *
 * The library's own appends share one process-wide table of what waits for an answer, so an error
 * of one client fails the appends of another, and a late answer ends the process. Here each call
 * has a table of its own, and ignores an answer for which nothing waits. An append that was given
 * up is repeated with the same ids, so that loses nothing.
 *
 * The end of a call, with or without an error, rejects everything that waits for an answer on it.
 * The next append opens another call.
 *
 * What can go wrong: a server that was silent answers the look-up of its version to clients that
 * were replaced long ago. A call that such a client opened then would stay for good, and a server
 * takes about a hundred calls of a connection, which all clients share. `end` prevents that.
 */

interface Waiting {
  resolve(appended: Appended): void;
  reject(error: Error): void;
}

/** A call, and the appends that wait for its answers. Null means that the call has ended. */
interface Open {
  call: LastingCall;
  waiting(): Map<number, Waiting> | null;
}

export interface AppendStream {
  /**
   * Rejects with the error of the server or of the call, AnswerLost if the server may have the
   * append, or EventStoreUnavailable if its time was over before it was sent.
   */
  append(append: Append, limits: CallLimits): Promise<Appended>;
  /** Ends the client with its call, also one that would only be opened later. */
  end(): Promise<void>;
}

/** Creates the appends of a client. */
export function createAppendStream(client: EventStoreDBClient): AppendStream {
  let current: Promise<Open> | null = null;
  let appends = 0;
  let isOver = false;

  async function open(): Promise<Open> {
    let waiting: Map<number, Waiting> | null = new Map<number, Waiting>();
    try {
      await checkServerVersion(client);
      if (isOver) throw ended();
      const call = await openLastingCall({
        client,
        method: 'batchAppend',
        received(message) {
          const { call: number, outcome } = decodeAnswer(message);
          const caller = waiting?.get(number);
          waiting?.delete(number);
          if (outcome instanceof Error) caller?.reject(outcome);
          else caller?.resolve(outcome);
        },
        ended(error) {
          const rejected = waiting ?? [];
          waiting = null;
          current = null;
          for (const [, { reject }] of rejected) reject(error ?? ended());
        },
      });
      if (isOver) call.cancel();
      return { call, waiting: () => waiting };
    } catch (error) {
      current = null;
      throw error;
    }
  }

  return {
    async append(append, { signal, attemptMs }) {
      const openWithin = attemptMs();
      current ??= open();
      const { call, waiting } = await withTimeout(openWithin, current, EventStoreUnavailable);
      // Data waits here while the server takes none, so that it can still be given up.
      while (call.needsDrain())
        await withTimeout(attemptMs(), call.drained(), EventStoreUnavailable);
      signal.throwIfAborted();
      const answers = waiting();
      if (answers === null) throw ended();
      const ms = attemptMs();
      const answer = new Promise<Appended>((resolve, reject) => {
        const number = ++appends;
        answers.set(number, { resolve, reject });
        call.send(encodeAppend(number, append, ms));
      });
      return withTimeout(ms, answer, AnswerLost);
    },
    end() {
      isOver = true;
      return endClient(client);
    },
  };
}

function ended(): AnswerLost {
  return new AnswerLost('the server ended the call');
}
