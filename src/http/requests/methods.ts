import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError } from '../../domain/errors.ts';
import { NOTHING_HERE } from '../problems.ts';
import { routedPathOf } from './path.ts';

/** A path of a route with a parameter or a wildcard. */
const PATTERN = /[:*]/;

export interface MethodGuard {
  /**
   * Returns true if no route handles the request. The router looks for a path per method: it takes
   * `GET /transfers/bulk` for a transfer with the id `bulk`, because only POST has that path, and
   * `GET /transfers/` for one with an empty id.
   */
  isUnrouted(request: FastifyRequest): boolean;
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
    const pattern = new RegExp(`^${source}$`, 's');
    const route = routes.get(url) ?? { pattern, methods: new Set(['OPTIONS']) };
    for (const name of [method].flat()) route.methods.add(name);
    routes.set(url, route);
  });

  const listOf = (methods: Iterable<string>) => [...new Set(methods)].sort().join(', ');

  const fixedAt = (path: string) => (PATTERN.test(path) ? undefined : routes.get(path));

  return {
    isUnrouted(request) {
      if (request.is404) return true;
      const { url = '' } = request.routeOptions;
      if (!PATTERN.test(url)) return false;
      const path = routedPathOf(request.url);
      return fixedAt(path) !== undefined || !routes.get(url)?.pattern.test(path);
    },
    reject(request, reply) {
      const path = routedPathOf(request.url);
      if (request.method === 'OPTIONS' && path === '*') {
        const methods = [...routes.values()].flatMap((route) => [...route.methods]);
        return reply.header('allow', listOf(methods)).code(204).send();
      }
      const fixed = fixedAt(path);
      const matching = fixed
        ? [fixed]
        : [...routes.values()].filter(({ pattern }) => pattern.test(path));
      if (matching.length === 0) throw new DomainError('not_found', NOTHING_HERE);
      const allow = listOf(matching.flatMap(({ methods }) => [...methods]));
      void reply.header('allow', allow);
      if (request.method === 'OPTIONS') return reply.code(204).send();
      throw new DomainError('method_not_allowed', `This path supports ${allow}`);
    },
  };
}
