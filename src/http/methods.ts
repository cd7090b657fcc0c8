import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError } from '../domain/errors.ts';
import { pathOf } from './path.ts';

export interface MethodGuard {
  /** Answers what no route takes: 204 for OPTIONS, and 405 with Allow or 404 as an error. */
  refuse(request: FastifyRequest, reply: FastifyReply): FastifyReply;
}

/** Knows the methods of every route that is registered after this. */
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

  return {
    refuse(request, reply) {
      const path = pathOf(request.url);
      const route = [...routes.values()].find(({ pattern }) => pattern.test(path));
      if (!route) throw new DomainError('not_found', 'There is nothing at this path');
      const allow = [...route.methods].sort().join(', ');
      void reply.header('allow', allow);
      if (request.method === 'OPTIONS') return reply.code(204).send();
      throw new DomainError('method_not_allowed', `This path takes ${allow}`);
    },
  };
}
