import type { EndpointCredentials, EndpointDefinition } from '../../../domain/endpoint.ts';
import type { TransferErrorCode } from '../../../domain/transfer-errors.ts';
import type { FileIdentity, FileStep } from '../port.ts';

/** What a thread is asked to do with one of the things it holds. Buffers are shared, not copied. */
export interface Call {
  type: 'call';
  call: number;
  /** An endpoint or an open file; 0 for the thread itself. */
  target: number;
  method: string;
  args: unknown[];
}

/** The caller no longer waits for what it has called: the signal that it gave has aborted. */
export interface Abort {
  type: 'abort';
  call: number;
}

/** A file that nothing is done with any more is closed; nobody waits for it. */
export interface Close {
  type: 'close';
  target: number;
}

export type ToThread = Call | Abort | Close;

export type FromThread = { type: 'answer'; call: number; value: unknown } | { type: 'answer'; call: number; error: ThreadError };

/** Sends what is said in one turn of the event loop as one message: what a message costs does not depend on what is in it. */
export function createOutbox<Message>(post: (messages: Message[]) => void): (message: Message) => void {
  let waiting: Message[] = [];
  return (message) => {
    if (waiting.push(message) > 1) return;
    setImmediate(() => {
      const messages = waiting;
      waiting = [];
      post(messages);
    });
  };
}

/** An error on its way between threads, where classes get lost. */
export interface ThreadError {
  message: string;
  stack: string | undefined;
  /** Set for a FileError. */
  file: { code: TransferErrorCode; step: FileStep } | null;
}

/** Stands in a call's arguments for the AbortSignal that was given. */
export const SIGNAL = '$signal';

export interface OpenedSource {
  target: number;
  identity: FileIdentity;
  parallelReads: number;
  readAtOnce: boolean;
  /** What came of reading all of a small file at once; null for another one. */
  content: { bytes: Uint8Array } | { error: ThreadError } | null;
}

export interface OpenedDestination {
  target: number;
  parallelWrites: number;
  chunkSize: number;
  resumedFrom: number;
}

export interface OpenEndpoint {
  definition: EndpointDefinition;
  credentials: EndpointCredentials;
}
