import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError } from '../../domain/errors.ts';
import { routedPathOf } from './path.ts';

export interface MethodGuard {
  /**
   * Answers a request that no route handles: OPTIONS with 204. Else it throws 405 (with Allow) or
   * 404.
   */
  reject(request: FastifyRequest, reply: FastifyReply): FastifyReply;
}

/** Creates a guard that knows the methods of every route registered after this call. */
export function createMethodGuard(app: FastifyInstance): MethodGuard {
  const routes = new Map<string, { pattern: RegExp; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const source = url
      .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replace(/:\w+/g, '[^/]+')
      .replace('*', '.*');
    const pattern = new RegExp(`^${source}$`);
    const route = routes.get(url) ?? { pattern, methods: new Set(['OPTIONS']) };
    for (const name of [method].flat()) route.methods.add(name);
    routes.set(url, route);
  });

  const listOf = (methods: Iterable<string>) => [...new Set(methods)].sort().join(', ');

  return {
    reject(request, reply) {
      const path = routedPathOf(request.url);
      if (request.method === 'OPTIONS' && path === '*') {
        const methods = [...routes.values()].flatMap((route) => [...route.methods]);
        return reply.header('allow', listOf(methods)).code(204).send();
      }
      // The router looks for a pattern per method, so several can match: `/bulk` and `/:id`.
      const matching = [...routes.values()].filter(({ pattern }) => pattern.test(path));
      if (matching.length === 0) throw new DomainError('not_found', 'Nothing exists at this path');
      const allow = listOf(matching.flatMap(({ methods }) => [...methods]));
      void reply.header('allow', allow);
      if (request.method === 'OPTIONS') return reply.code(204).send();
      throw new DomainError('method_not_allowed', `This path supports ${allow}`);
    },
  };
}
