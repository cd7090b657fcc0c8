import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { createKey, revokeKey } from '../../commands/keys.ts';
import * as schemas from '../../contract/keys.ts';
import { notFound } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { findKeyById, listKeys } from '../../projections/catalog/queries.ts';
import { idempotent } from '../idempotency/idempotency.ts';
import {
  idempotencyHeaders,
  noQuery,
  responses,
  WITH_BODY,
  WITH_IDEMPOTENCY_KEY,
} from '../openapi/documentation.ts';
import type { OperatorRoutesDeps } from '../route-deps.ts';

export function keyRoutes(deps: OperatorRoutesDeps): FastifyPluginAsyncZod {
  const { sql, store, config } = deps;

  async function find(id: string): Promise<schemas.Key> {
    const found = await findKeyById({ sql, store }, id);
    if (!found) throw notFound('key');
    return schemas.toKey(found);
  }

  return async (app) => {
    app.route({
      method: 'GET',
      url: '/keys',
      config: { scope: 'admin' },
      schema: {
        operationId: 'listKeys',
        summary: 'List API keys',
        tags: ['Administration'],
        querystring: noQuery,
        response: responses({ 200: ['Every key of the installation', schemas.keyList] }, [
          'unknown_field',
        ]),
      },
      handler: async (): Promise<schemas.KeyList> => ({
        data: (await listKeys(sql)).map(schemas.toKey),
      }),
    });

    app.route({
      method: 'POST',
      url: '/keys',
      config: { scope: 'admin' },
      schema: {
        operationId: 'createKey',
        summary: 'Create an API key',
        tags: ['Administration'],
        headers: idempotencyHeaders,
        querystring: noQuery,
        body: schemas.keyRequest,
        response: responses({ 201: ['The key, shown once', schemas.createdKey] }, [
          ...WITH_BODY,
          ...WITH_IDEMPOTENCY_KEY,
        ]),
      },
      handler: (request, reply) =>
        idempotent<{ keyId: string }, schemas.CreatedKey>(deps, request, reply, {
          reserve: () => ({ keyId: newId('key') }),
          async run({ reserved: { keyId }, commands, cause }) {
            const options = { allowNever: config.allowUnlimitedKeys, id: keyId };
            const { key, state, isNew } = await createKey(commands, request.body, cause, options);
            const replayed = schemas.toKey({ ...state, last_used_at: null });
            return { status: 201, body: { ...replayed, ...(isNew && { key }) }, replayed };
          },
        }),
    });

    app.route({
      method: 'POST',
      url: '/keys/:key_id/revoke',
      config: { scope: 'admin' },
      schema: {
        operationId: 'revokeKey',
        summary: 'Revoke an API key',
        description: 'After this answer, no process accepts the key.',
        tags: ['Administration'],
        params: schemas.keyParams,
        headers: idempotencyHeaders,
        querystring: noQuery,
        response: responses({ 200: ['The key is revoked', schemas.key] }, [
          'unknown_field',
          ...WITH_IDEMPOTENCY_KEY,
          'not_found',
        ]),
      },
      async handler(request, reply) {
        const { id } = await find(request.params.key_id);
        return idempotent(deps, request, reply, {
          reserve: () => ({}),
          async run({ commands, cause }) {
            await revokeKey(commands, id, cause);
            return { status: 200, body: await find(id) };
          },
        });
      },
    });
  };
}
