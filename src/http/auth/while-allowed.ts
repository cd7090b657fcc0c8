import type { FastifyRequest } from 'fastify';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { DomainError } from '../../domain/errors.ts';
import { type Client, clientOf } from './client.ts';
import type { People } from './people.ts';
import { lostAccess, stillValid } from './still-valid.ts';

/** How often a long answer checks the access of its client. */
const CHECK_MS = 60_000;

export interface WhileAllowedDeps {
  sql: Sql;
  people: Pick<People, 'confirm'>;
  /** One minute by default. */
  accessCheckMs?: number | undefined;
}

/**
 * Yields the pieces of a long answer while its client has access. Then it throws, which breaks the
 * connection: the client sees that the answer is incomplete.
 */
export type WhileAllowed = <Piece>(
  request: FastifyRequest,
  pieces: AsyncIterable<Piece>,
) => AsyncGenerator<Piece, void, void>;

export function createWhileAllowed(deps: WhileAllowedDeps): WhileAllowed {
  const { accessCheckMs = CHECK_MS } = deps;
  return async function* whileAllowed(request, pieces) {
    const client = clientOf(request);
    let checkedAt = performance.now();
    for await (const piece of pieces) {
      if (performance.now() - checkedAt >= accessCheckMs) {
        // The client sees the error only if the answer has not begun.
        if (!(await isAllowed(deps, client))) throw lostAccess(client);
        checkedAt = performance.now();
      }
      yield piece;
    }
  };
}

async function isAllowed({ sql, people }: WhileAllowedDeps, client: Client): Promise<boolean> {
  const { session, keyId } = client;
  try {
    // The page that asked may send no further request, which would confirm the roles of the person.
    if (session !== null && keyId === null) await people.confirm({ ...client, session });
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    // If the provider is busy or away, the last confirmation counts while it holds.
    if (error.code !== 'unavailable') return false;
  }
  return stillValid(sql, client);
}
