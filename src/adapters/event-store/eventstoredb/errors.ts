import { ErrorType, isCommandError } from '@eventstore/db-client';
import { status } from '@grpc/grpc-js';
import { EventStoreUnavailable } from '../port.ts';

const TRANSIENT_TYPES: ReadonlySet<string> = new Set([
  ErrorType.UNAVAILABLE,
  ErrorType.CANCELLED,
  ErrorType.NOT_LEADER,
  ErrorType.TIMEOUT,
  ErrorType.DEADLINE_EXCEEDED,
]);

/** Of errors that the client passes on as gRPC gave them. */
const TRANSIENT_CODES: ReadonlySet<unknown> = new Set([status.CANCELLED, status.DEADLINE_EXCEEDED, status.UNAVAILABLE]);

// What the client gives as an unknown error or a plain one although it passes: a node that starts or
// leaves the cluster, a connection cut in mid-call, a call that our own renewal of the client ended.
const TRANSIENT_MESSAGES = /Server Is Not Ready|RST_STREAM|write after end|Cancelled on client|Failed to discover|Premature close/i;

/** True where the same call may succeed a moment later. The outcome of an append is then unknown. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof EventStoreUnavailable || (isCommandError(error) && TRANSIENT_TYPES.has(error.type))) return true;
  return ('code' in error && TRANSIENT_CODES.has(error.code)) || TRANSIENT_MESSAGES.test(error.message);
}

/** Throws the error of a call that is given up: as EventStoreUnavailable where it was a transient one. */
export function giveUp(error: unknown, what: string): never {
  if (!isTransient(error)) throw error;
  throw new EventStoreUnavailable(`EventStoreDB: ${what}: ${(error as Error).message || 'no reason given'}`, { cause: error });
}
