import { FileError, type FileStep, type Side } from '../../adapters/files/port.ts';
import { shortageOf } from '../../adapters/own-shortage.ts';
import {
  type AttemptFailure,
  AUTHENTICATION_FAILED,
  type TransferPhase,
} from '../../domain/transfers/errors.ts';

const PHASES: Record<Side, Record<FileStep, TransferPhase>> = {
  source: {
    connect: 'source_connect',
    sign_in: 'source_sign_in',
    open: 'source_open',
    transfer: 'read',
    verify: 'verify',
    commit: 'commit',
  },
  destination: {
    connect: 'destination_connect',
    sign_in: 'destination_sign_in',
    open: 'destination_open',
    transfer: 'write',
    verify: 'verify',
    commit: 'commit',
  },
};

/** An attempt failed for a reason that the client sees. */
export class AttemptError extends Error {
  override readonly name = 'AttemptError';
  readonly failure: AttemptFailure;

  constructor(failure: AttemptFailure, options?: ErrorOptions) {
    super(failure.message, options);
    this.failure = failure;
  }
}

/** The claim is lost. Nothing more may be written under it, to the log or to the destination. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/** Runs work of one side. Converts a FileError of its adapter to an AttemptError with the phase. */
export async function onSide<T>(side: Side, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    const { code, step } = error;
    throw new AttemptError(
      { code, message: messageOf(error), phase: PHASES[side][step] },
      { cause: error },
    );
  }
}

/** Of a rejected sign-in, only the test of an endpoint says which secret was wrong. */
function messageOf({ message }: FileError): string {
  return message.startsWith(AUTHENTICATION_FAILED) ? AUTHENTICATION_FAILED : message;
}

/** Returns whether an attempt ended because this process or its machine lacked something. */
export function isOfMachine(error: unknown): boolean {
  if (error instanceof FileError) return error.ofMachine;
  return error instanceof AttemptError ? isOfMachine(error.cause) : shortageOf(error) !== null;
}

/** Returns the error as the client sees it. The details of an unexpected error stay in the log. */
export function toFailure(error: unknown): AttemptFailure {
  if (error instanceof AttemptError) return error.failure;
  return {
    code: 'internal_error',
    message: 'The attempt ended with an unexpected error',
    phase: 'prepare',
  };
}
