import type { FastifyReply, FastifyRequest } from 'fastify';
import { ConditionFailed } from '../../adapters/event-store/port.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import { withCondition } from '../../commands/remembered-streams.ts';
import { isTaken } from '../idempotency/table.ts';
import { toProblem } from '../problems.ts';
import { type AuthenticationDeps, readmit } from './authenticate.ts';

/**
 * Runs `work`, which appends through `commands`. If the process admitted the request by what it
 * remembers, an append with a condition fails unless the catalog is still the same, and after an
 * error `work` is run again on what Postgres has. So no error rests on what the process remembers.
 */
export async function whenAdmitted<T>(
  deps: AuthenticationDeps & { commands: CommandDeps },
  request: FastifyRequest,
  reply: FastifyReply,
  work: (commands: CommandDeps) => Promise<T>,
): Promise<T> {
  const { commands } = deps;
  if (request.admittedBy === 'postgres') return work(commands);
  const { condition } = request;
  try {
    if (condition === null) return await work(commands);
    return await work({ ...commands, store: withCondition(commands.store, condition) });
  } catch (error) {
    if (!appendedNothing(error)) throw error;
    await readmit(deps, request, reply);
    return work(commands);
  }
}

/** Other errors leave open what was appended. */
function appendedNothing(error: unknown): boolean {
  return error instanceof ConditionFailed || isTaken(error) || isRejection(error);
}

/** Returns the error that a client gets: a rejection is decided again on what Postgres has. */
export async function confirmed(
  deps: AuthenticationDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): Promise<unknown> {
  if (request.admittedBy === 'postgres' || !isRejection(error)) return error;
  return readmit(deps, request, reply).then(
    () => error,
    (reason: unknown) => reason,
  );
}

function isRejection(error: unknown): boolean {
  return toProblem(error, '').status < 500;
}
