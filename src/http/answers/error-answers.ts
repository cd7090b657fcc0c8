import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Problem } from '../../contract/problems.ts';
import { reasonOf } from '../../domain/errors.ts';
import type { AccessRecorder } from '../access-log/recorder.ts';
import { confirmed } from '../admission/admitted.ts';
import { type AuthenticationDeps, authenticate } from '../admission/authenticate.ts';
import { safePath } from '../log.ts';
import { PROBLEM_TYPE, RETRY_SECONDS, toProblem } from '../problems.ts';
import { isApi } from '../requests/path.ts';
import { dropLateAnswer, mayTakeEffect, withinLimit } from '../requests/time-limit.ts';
import { withAllFaults } from './all-faults.ts';

/** Answers errors with problem documents, logs those of the service, and counts failed sign-ins. */
export interface ErrorAnswers {
  /** For an error of a hook or handler. */
  ofRequest(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply>;
  /** For an error of Fastify, such as a broken URL. Fastify runs no hooks for it. */
  ofFramework(error: Error, request: FastifyRequest, reply: FastifyReply): Promise<void>;
}

export function createErrorAnswers(
  access: AccessRecorder,
  authentication: AuthenticationDeps,
): ErrorAnswers {
  function answer(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const problem = toProblem(error, request.id, { mayTakeEffect: mayTakeEffect(request) });
    access.rejected(request, problem.code, error);
    if (problem.status >= 500) logFailure(error, problem, request);
    answerProblem(problem, reply);
  }

  return {
    async ofRequest(error, request, reply) {
      const answered = await withinLimit(request, reply, () =>
        confirmed(authentication, request, reply, withAllFaults(error, request)),
      ).catch((reason: unknown) => reason);
      answer(answered, request, reply);
      dropLateAnswer(answered, reply);
      return reply;
    },
    async ofFramework(error, request, reply) {
      const admit = async () =>
        isApi(request) ? authenticate(authentication, request, reply) : undefined;
      const rejection = await withinLimit(request, reply, admit).catch((reason: unknown) => reason);
      answer(rejection ?? error, request, reply);
    },
  };
}

function answerProblem(problem: Problem, reply: FastifyReply): void {
  if (problem.status === 415)
    void reply.headers({ accept: 'application/json', 'accept-encoding': 'identity' });
  if (problem.status === 401) void reply.header('www-authenticate', 'Bearer');
  const retryAfter = RETRY_SECONDS[problem.code];
  if (retryAfter !== undefined) void reply.header('retry-after', String(retryAfter));
  void reply.code(problem.status).type(PROBLEM_TYPE).serializer(JSON.stringify).send(problem);
}

/**
 * Logs a stack for faults of the service only. A failed endpoint or an unavailable store is logged
 * with its reason.
 */
function logFailure(error: unknown, { code, status }: Problem, request: FastifyRequest): void {
  const fields = { path: safePath(request.url), code };
  if (status === 500) request.log.error({ err: error, ...fields }, 'a request failed');
  else request.log.warn({ reason: reasonOf(error), ...fields }, 'a request failed');
}
