import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Handled } from '../../commands/handle.ts';
import type * as answers from '../../contract/endpoints/answers.ts';
import { toEndpoint } from '../../contract/endpoints/views.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';
import { notFound } from '../../domain/errors.ts';
import { endpointConnectivity } from '../../processes/endpoints/connectivity.ts';
import { type ConfiguredEndpoint, findEndpoint } from '../../projections/catalog/queries.ts';
import { accountLimit } from '../auth/client.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';

/**
 * Finds the endpoint that a request names. Throws `not_found`, also for an endpoint that the
 * client's account may not use.
 */
export async function usableEndpoint(
  stores: Pick<OperatorRoutesDeps, 'sql' | 'store'>,
  request: FastifyRequest<{ Params: { endpoint_id: string } }>,
): Promise<ConfiguredEndpoint> {
  const found = await findEndpoint(stores, request.params.endpoint_id);
  if (!found || !mayUse(found, accountLimit(request))) throw notFound('endpoint');
  return found;
}

/** Returns the answer for an endpoint, as the client may see it. */
export async function shownEndpoint(
  { sql }: Pick<OperatorRoutesDeps, 'sql'>,
  request: FastifyRequest,
  { state, revision }: Pick<Handled<Endpoint>, 'state' | 'revision'>,
): Promise<answers.Endpoint> {
  const health = await endpointConnectivity(sql);
  return toEndpoint({ ...state, revision }, health.get(state.endpoint_id), accountLimit(request));
}

/** Sends an endpoint. Its ETag is its revision. */
export async function sendEndpoint(
  deps: Pick<OperatorRoutesDeps, 'sql'>,
  request: FastifyRequest,
  reply: FastifyReply,
  found: Pick<Handled<Endpoint>, 'state' | 'revision'>,
): Promise<FastifyReply> {
  const body = await shownEndpoint(deps, request, found);
  return reply.header('etag', `"${found.revision}"`).send(body);
}

/** `account` is null for a client that may use every endpoint. */
export function mayUse({ accounts }: Endpoint, account: string | null): boolean {
  return account === null || accounts === null || accounts.includes(account);
}
