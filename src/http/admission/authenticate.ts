import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Condition } from '../../adapters/event-store/port.ts';
import { hashApiKey, isApiKey } from '../../commands/api-key.ts';
import { DomainError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { Scope } from '../../domain/scope.ts';
import type { QueueView } from '../../processes/dispatch/queue-estimate.ts';
import { type Client, needScope } from '../auth/client.ts';
import { readSessionCookie } from '../auth/cookie.ts';
import type { Credential, Identity, Standing } from '../auth/identity.ts';
import type { People } from '../auth/people.ts';
import { originOf } from '../auth/same-origin.ts';
import { hashToken } from '../auth/sessions.ts';
import { findIdempotencyKey } from '../idempotency/header.ts';
import type { KeptRow } from '../idempotency/table.ts';
import { clientNetwork } from '../requests/client-address.ts';
import { checkHead } from '../requests/protocol.ts';
import { type RateWindow, rateHeaders, uncountedHeaders } from './rate-limit.ts';
import type { Counted, CountedRequest, RequestAdmission } from './request-admission.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The rate window in which it counts. Null before authentication. */
    counted: Counted | null;
    /** The queue when the request began. Null unless its route asks for it. */
    queue: QueueView | null;
    /**
     * Position that the read model must reach to show the transfers that the log had when the
     * request began. Null if it showed all, or unless the route shows transfers.
     */
    unshown: bigint | null;
    /** The row of its Idempotency-Key when the request began. Null without a key or a row. */
    keyRow: KeptRow | null;
    /**
     * What admitted it: `memory` is what this process remembers. Then `keyRow` is null. See
     * `readmit`.
     */
    admittedBy: CountedRequest['admittedBy'];
    /** What its append must find. Null if Postgres admitted it, or the log takes no conditions. */
    condition: Condition | null;
  }
  interface FastifyContextConfig {
    /** The scope that the route needs. Without one, any valid key or session will do. */
    scope?: Scope;
    /** The route needs no key. */
    open?: boolean;
    /**
     * The route creates a transfer, so it needs the queue. A process may admit its requests by what
     * it remembers: the handler runs in `whenAdmitted`.
     */
    queue?: boolean;
    /** The answer shows what the read model has of transfers: see `own-writes.ts`. */
    showsTransfers?: boolean;
  }
}

const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS'];
const FORM = 'Authorization: Bearer KEY, with exactly one space';

const REJECTED: Record<
  Exclude<Standing, 'valid'>,
  [code: 'api_key_expired' | 'api_key_revoked' | 'api_key_invalid', detail: string]
> = {
  expired: ['api_key_expired', 'The API key has expired: ask the operator for a new one'],
  revoked: ['api_key_revoked', 'The API key was revoked: ask the operator for a new one'],
  unknown: ['api_key_invalid', 'This installation does not know the API key'],
};

export interface AuthenticationDeps {
  requestAdmission: RequestAdmission;
  people: Pick<People, 'confirm'>;
}

/**
 * Finds the client of a request, counts the request in its rate window, and sets the rate headers.
 * Throws if the window is used up, if its head is not valid, if the route needs a key and the
 * request has no valid one, or if the key lacks the scope.
 */
export async function authenticate(
  deps: AuthenticationDeps,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  await admit(deps, request, reply, { again: false });
}

/**
 * Admits a request by what Postgres has, after this process admitted it by what it remembers. Throws
 * as `authenticate`.
 */
export async function readmit(
  deps: AuthenticationDeps,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  await admit(deps, request, reply, { again: true });
}

async function admit(
  { requestAdmission, people }: AuthenticationDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  { again }: { again: boolean },
): Promise<void> {
  const credential = readCredential(request);
  // The answer keeps these headers if Postgres, which counts, does not respond.
  void reply.headers(uncountedHeaders(requestAdmission.perKey));
  const presented = credential instanceof DomainError ? null : credential;
  const { open, scope, ...route } = request.routeOptions.config;
  const { window, counted, queue, unshown, keyRow, admittedBy, condition, ...identity } =
    await requestAdmission.admit(presented, clientNetwork(request), {
      withQueue: route.queue ?? false,
      withUnshown: route.showsTransfers ?? false,
      idempotencyKey: findIdempotencyKey(request),
      again,
    });
  request.client = identity.client;
  request.counted = counted;
  request.queue = queue;
  request.unshown = unshown;
  request.keyRow = keyRow;
  request.admittedBy = admittedBy;
  request.condition = condition;
  keepWithin(window, reply);
  checkHead(request, reply);
  if (open || request.method === 'OPTIONS') return;
  if (credential instanceof DomainError) throw credential;
  if (credential.kind === 'session') {
    admitSession(request, identity);
    const { client } = identity;
    if (client?.unconfirmed && client.session !== null) {
      request.client = await people.confirm({ ...client, session: client.session });
      identity.client = request.client;
    }
  }
  admitKey(identity, scope);
}

/**
 * Counts a request as that many further ones, but never as more than a whole window: it could not
 * be sent at all. Throws if the window is used up.
 */
export async function countFurther(
  requestAdmission: RequestAdmission,
  request: FastifyRequest,
  reply: FastifyReply,
  requests: number,
): Promise<void> {
  const { counted } = request;
  const further = Math.min(requests, (counted?.limit ?? 1) - 1);
  if (counted === null || further === 0) return;
  keepWithin(await requestAdmission.count(counted, further), reply);
}

/** Sets the rate headers. Throws if the window is used up. */
function keepWithin(window: RateWindow, reply: FastifyReply): void {
  void reply.headers(rateHeaders(window));
  if (window.remaining >= 0) return;
  void reply.header('retry-after', String(window.retryAfter));
  throw new DomainError(
    'rate_limited',
    `The limit is ${window.limit} requests a minute: retry in ${window.retryAfter} seconds`,
  );
}

/** A key that is not valid. */
export class RejectedKey extends DomainError {
  /** Null for an unknown key. */
  readonly keyId: string | null;

  constructor({ standing, keyId }: Exclude<Identity, { standing: 'valid' }>) {
    super(...REJECTED[standing]);
    this.keyId = keyId;
  }
}

/** Returns the client of a key. Throws if the key is not valid or lacks the scope. */
export function admitKey(identity: Identity, scope: Scope | undefined): Client {
  if (identity.standing !== 'valid') throw new RejectedKey(identity);
  const { client } = identity;
  if (scope !== undefined) needScope(client, scope);
  return client;
}

/** Throws if the session has ended, or if a page of another site may have sent the request. */
function admitSession(request: FastifyRequest, { standing }: Identity): void {
  if (standing !== 'valid')
    throw new DomainError(
      'session_ended',
      'The session of the Admin Console has ended: sign in again',
    );
  if (SAFE_METHODS.includes(request.method) || originOf(request) === 'same') return;
  throw new DomainError(
    'cross_site_request',
    'The cookie of the Admin Console allows changes only from its own pages',
  );
}

/**
 * Reads the key of the Authorization header, else the session of the cookie. Returns an error if
 * neither is usable.
 */
function readCredential(request: FastifyRequest): Credential | DomainError {
  const values = request.raw.headersDistinct.authorization ?? [];
  const [value = ''] = values;
  if (value === '') {
    const token = readSessionCookie(request);
    if (token !== null) return { kind: 'session', sha256: hashToken(token) };
    return new DomainError('api_key_missing', `Send the API key as ${FORM}`);
  }
  if (values.length > 1)
    return new DomainError('api_key_malformed', 'The Authorization header must be given once');
  const key = /^Bearer (\S+)$/i.exec(value)?.[1];
  if (key === undefined)
    return new DomainError(
      'api_key_malformed',
      `The header must be ${FORM} and no space in the key`,
    );
  try {
    return { kind: 'key', sha256: readKey(key) };
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
}

/** Returns the hash of an API key. Throws if the text cannot be one. */
export function readKey(text: string): string {
  if (isId('key', text))
    throw new DomainError(
      'api_key_id_used',
      'This is the id of an API key. Send the key itself: it starts with wb_',
    );
  if (isApiKey(text)) return hashApiKey(text);
  throw new DomainError(
    'api_key_malformed',
    'This is not an API key: a key starts with wb_ and ends with a checksum, which does not match',
  );
}
