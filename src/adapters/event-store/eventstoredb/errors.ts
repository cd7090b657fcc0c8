import {
  type CommandError,
  ErrorType,
  isCommandError,
  NotLeaderError,
} from '@eventstore/db-client';
import { status } from '@grpc/grpc-js';
import { EventStoreUnavailable, EventStoreUnusable, PositionUnknown } from '../port.ts';

const TRANSIENT_TYPES: ReadonlySet<string> = new Set([
  ErrorType.UNAVAILABLE,
  ErrorType.CANCELLED,
  ErrorType.NOT_LEADER,
  ErrorType.TIMEOUT,
  ErrorType.DEADLINE_EXCEEDED,
]);

/** Codes of gRPC errors that the client passes on unchanged. */
const TRANSIENT_CODES: ReadonlySet<unknown> = new Set([
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.UNAVAILABLE,
]);

// The client reports these transient failures as unknown or plain errors: a node starts or leaves
// the cluster, a connection breaks during a call, or our own renewal of the client ended a call.
const TRANSIENT_MESSAGES =
  /Server Is Not Ready|RST_STREAM|write after end|Cancelled on client|Failed to discover|Premature close|Channel has been shut down/i;

/** How a call ends when another one has failed and its client was replaced. It names no cause. */
const CLIENT_REPLACED =
  /Cancelled on client|Channel closed before call started|Channel has been shut down/i;

/** How gRPC says that it cannot connect. The cause is `null` while its first try goes on. */
const NOT_CONNECTED = /No connection established\. Last error: (?:Error: )?(.*?)\. Resolution note/;

/** A node that answers as the leader lacks what this process knows. */
export class StaleNode extends Error {
  override readonly name = 'StaleNode';

  constructor(lacks: string) {
    super(`the node that answered lacks ${lacks}, and no longer leads`);
  }
}

/** The log lacks what a subscription of this process has yielded: another one took its place. */
export class LogReplaced extends PositionUnknown {
  override readonly name = 'LogReplaced';
}

/**
 * The server may have an append, and did not answer. The call that carried it must end, because it
 * could send the append later.
 */
export class AnswerLost extends Error {
  override readonly name = 'AnswerLost';
}

/** Returns true if the same call may succeed later. The outcome of an append is then unknown. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (
    error instanceof EventStoreUnavailable ||
    error instanceof StaleNode ||
    error instanceof AnswerLost ||
    (isCommandError(error) && TRANSIENT_TYPES.has(error.type))
  )
    return true;
  return (
    ('code' in error && TRANSIENT_CODES.has(error.code)) || TRANSIENT_MESSAGES.test(error.message)
  );
}

/** Returns what an operator must know. A node alone knows no leader, although it runs. */
function reasonOf(error: Error): string {
  if (/Failed to discover/.test(error.message))
    return (
      'no node answers, or those that answer have no leader. Check that most of the nodes run and ' +
      'reach each other, and their addresses'
    );
  if (error instanceof NotLeaderError)
    return 'the node that answered is not the leader. Check that most of the nodes run';
  return `${faultOf(error)}. Check that it runs, and its address`;
}

function faultOf({ message }: Error): string {
  if (CLIENT_REPLACED.test(message))
    return 'another request got no answer, or its connection broke, so this one ended too';
  const cause = NOT_CONNECTED.exec(message)?.[1];
  if (cause === undefined) return message || 'no reason given';
  return cause === 'null' ? 'no connection' : `no connection (${cause})`;
}

function isInvalidPosition(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: string };
  return code === status.INVALID_ARGUMENT && /invalid position/i.test(message ?? '');
}

/**
 * Throws the error of a call that is given up: EventStoreUnavailable for a transient error,
 * EventStoreUnusable if the server rejects the user, PositionUnknown, and any other error unchanged.
 */
export function giveUp(error: unknown, what: string): never {
  if (isTransient(error)) {
    throw new EventStoreUnavailable(`EventStoreDB: ${what}: ${reasonOf(error as Error)}`, {
      cause: error,
    });
  }
  if (isInvalidPosition(error))
    throw new PositionUnknown(`EventStoreDB: ${what}: ${(error as Error).message}`, {
      cause: error,
    });
  if (isCommandError(error as Error) && (error as CommandError).type === ErrorType.ACCESS_DENIED) {
    throw new EventStoreUnusable(
      `EventStoreDB refuses to ${what}. Check user and password, and the rights of the user ` +
        '(docs/operators.md)',
      { cause: error },
    );
  }
  throw error;
}
