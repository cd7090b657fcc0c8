import { createHash, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Held, Locks } from '../../adapters/postgres/locks.ts';
import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import { withAppend } from '../../commands/remembered-streams.ts';
import { DomainError } from '../../domain/errors.ts';
import { canonicalJson } from '../../domain/events/canonical-json.ts';
import type { NewEvent } from '../../domain/events/event.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';
import { accountLimit, causeOf, clientOf } from '../auth/client.ts';
import { PROBLEM_TYPE, toProblem } from '../problems.ts';
import { readIdempotencyKey } from './header.ts';
import {
  IDEMPOTENCY_KEYS_KEPT,
  type IdempotencyKeys,
  insertedWith,
  isTaken,
  type Row,
  type RowId,
  type Shown,
  type Stored,
} from './table.ts';

/** Statuses below 500 whose answers are not stored: a later request may get another answer. */
const NOT_STORED = [400, 401, 403, 409, 429];

function isStored(status: number): boolean {
  return status < 500 && !NOT_STORED.includes(status);
}

export interface Answer<Body> {
  status: number;
  body: Body;
  location?: string;
  /** The body of a replay, if `body` shows a secret that appears only once. */
  replayed?: Body;
}

/**
 * One attempt to carry out an operation. An attempt that lost its lock without notice may continue
 * minutes after another one has carried out the operation, and after other commands that followed.
 */
export interface Attempt<Reserved> {
  reserved: Reserved;
  /**
   * True if an earlier attempt has reserved the ids, and may have appended. If it is false, another
   * attempt may have appended all the same. The events in the log decide.
   */
  repeated: boolean;
  /** Rejects an append after the lock was lost. Waits for read models, as a replay does. */
  commands: CommandDeps;
  /** The same correlation id for all attempts: `ofRequest` recognizes their events. */
  cause: Cause;
}

export interface Operation<Reserved extends object, Body> {
  /** The body contains a secret, such as a password. */
  secretBody?: boolean;
  /**
   * What the operation does or shows depends on whether the client may act on all accounts. Then a
   * key belongs to clients that may do the same, too.
   */
  byRights?: boolean;
  /** The operation changes nothing, so it may be repeated. Its answer is not stored. */
  readOnly?: boolean;
  /** Chooses the ids and times of the operation, so that it can be repeated. Returns JSON. */
  reserve(): Reserved | Promise<Reserved>;
  /**
   * Runs the operation. It must append, and wait for read models, through `commands`. Two attempts
   * must not append the same twice: creations use the reserved ids, other commands `ofRequest`.
   */
  run(attempt: Attempt<Reserved>): Promise<Answer<Body>>;
  /**
   * Set if `run` makes one append, and its answer follows from the appended events. A log in
   * Postgres then keeps the answer in the same commit: nothing is reserved, and nothing is locked.
   */
  inOneAppend?: {
    answerOf(events: NewEvent[]): Answer<Body>;
    /** The projection that `run` waits for. */
    shownIn: ProjectionName;
  };
}

export interface IdempotencyDeps {
  idempotencyKeys: IdempotencyKeys;
  locks: Locks;
  commands: CommandDeps;
}

/**
 * Answers a POST. With an Idempotency-Key, the operation is carried out once within
 * `IDEMPOTENCY_KEYS_KEPT`, also across crashes: its ids are committed before anything is appended,
 * and its answer is stored afterwards, or the answer is committed with its only append. A replay is
 * sent when the read models show what the first answer waited for. Throws `idempotency_in_progress`
 * while another request with the key runs, and `idempotency_key_reused` if the key came with
 * another body, or for `byRights` from a client with other rights.
 */
export async function idempotent<Reserved extends object, Body>(
  deps: IdempotencyDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  operation: Operation<Reserved, Body>,
): Promise<FastifyReply> {
  const key = readIdempotencyKey(request);
  const { idempotencyKeys, commands } = deps;
  const runAlone = async () => {
    const reserved = await operation.reserve();
    return operation.run({ reserved, repeated: false, commands, cause: causeOf(request) });
  };
  if (key === null) return sendAnswer(reply, await runAlone());

  const id = { account_id: clientOf(request).accountId, ...key };
  const fingerprint = await fingerprintOf(
    askedFor(request, operation.byRights ?? false),
    id,
    operation.secretBody ?? false,
  );
  const found = foundRow(request, id);
  const stored = found && toStored(found, fingerprint);
  if (stored) return sendStored(commands, reply, stored);
  if (operation.readOnly) return sendAnswer(reply, await runAlone());
  if (found === null) {
    const answer = await runInOneAppend(commands, id, fingerprint, request, operation);
    if (answer !== null) return sendAnswer(reply, answer);
  }

  const lock = await deps.locks.tryAcquire(`idempotency:${JSON.stringify(Object.values(id))}`);
  if (!lock)
    throw new DomainError(
      'idempotency_in_progress',
      'Another request with this Idempotency-Key is in progress: wait for its answer, then retry',
    );
  let answer: Stored | Answer<Body>;
  try {
    const reserved = { ...(await operation.reserve()), requestId: request.id };
    const row = await idempotencyKeys.reserve(id, fingerprint, reserved);
    answer =
      toStored(row, fingerprint) ?? (await runOnce(deps, id, row, { request, lock }, operation));
  } finally {
    // Before the client gets its answer: its next request must not find the lock taken.
    await lock.release();
  }
  return 'answer' in answer ? sendStored(commands, reply, answer) : sendAnswer(reply, answer);
}

/**
 * Returns the row as it was when the request began. Null if there was none: then a row that has
 * come since rejects the append, and `reserve` returns it.
 */
function foundRow({ keyRow }: FastifyRequest, id: RowId): Row<unknown> | null {
  return keyRow?.account_id === id.account_id ? keyRow : null;
}

/**
 * Returns what two requests under one key must have in common. Without a limit of accounts it is
 * the body alone, so rows of older versions still match.
 */
function askedFor(request: FastifyRequest, byRights: boolean): string {
  const given = canonicalJson(request.body) ?? '';
  // A request that needs no body may have this one.
  const body = given === '{}' ? '' : given;
  const account = byRights ? accountLimit(request) : null;
  return account === null ? body : `${body}\nof ${account}`;
}

/**
 * Hashes a body. A body with a secret gets a slow hash: an attacker could guess a chosen secret
 * from a fast one.
 */
async function fingerprintOf(body: string, id: RowId, secret: boolean): Promise<string> {
  if (!secret) return createHash('sha256').update(body).digest('hex');
  return (
    await promisify<string, string, number, Buffer>(scrypt)(body, JSON.stringify(id), 32)
  ).toString('hex');
}

/**
 * Runs an operation whose events and answer share a commit. Returns null if that is not possible:
 * the log is elsewhere, the key has a row, or the answer is an error that is stored. A crash leaves
 * both or neither. Of concurrent requests, Postgres rejects the append of all but one.
 */
async function runInOneAppend<Reserved extends object, Body>(
  commands: CommandDeps,
  id: RowId,
  fingerprint: string,
  request: FastifyRequest,
  { inOneAppend, reserve, run }: Operation<Reserved, Body>,
): Promise<Answer<Body> | null> {
  const { store } = commands;
  if (inOneAppend === undefined || store.appendWith === undefined) return null;
  const { answerOf, shownIn } = inOneAppend;
  const reserved = await reserve();
  const append: EventStore['append'] = (stream, expected, events) => {
    const { status, body, location } = answerOf(events);
    const answer = { body: JSON.stringify(body), location };
    const row = { ...id, fingerprint, reserved, status, answer, shownIn };
    return (store.appendWith as NonNullable<EventStore['appendWith']>)(stream, expected, events, {
      beside: insertedWith(row),
    });
  };
  try {
    const through = { ...commands, store: withAppend(store, append) };
    return await run({ reserved, repeated: false, commands: through, cause: causeOf(request) });
  } catch (error) {
    if (request.admittedBy === 'memory') throw error;
    if (isTaken(error) || isStored(toProblem(error, '').status)) return null;
    throw error;
  }
}

/**
 * Runs an operation under the lock of its key. Returns the stored answer instead of its own if
 * another attempt has stored one meanwhile.
 */
async function runOnce<Reserved extends object, Body>(
  { idempotencyKeys, commands }: IdempotencyDeps,
  id: RowId,
  row: Row<Reserved & FirstRequest> & { repeated: boolean },
  { request, lock }: { request: FastifyRequest; lock: Held },
  operation: Operation<Reserved, Body>,
): Promise<Stored | Answer<Body>> {
  const { reserved, repeated } = row;
  const shown: Shown = {};
  const through: CommandDeps = {
    ...commands,
    store: appendingUnder(lock, commands.store),
    waitFor(projection, position, isUrgent) {
      if (position !== null && position > BigInt(shown[projection] ?? -1))
        shown[projection] = String(position);
      return commands.waitFor(projection, position, isUrgent);
    },
  };
  const correlationId = reserved.requestId ?? request.id;
  const cause = { ...causeOf(request), correlationId, keyed: true };
  try {
    const answer = await operation.run({ reserved, repeated, commands: through, cause });
    const stored = await idempotencyKeys.storeAnswer(id, answer.status, {
      body: JSON.stringify(answer.replayed ?? answer.body),
      location: answer.location,
      shown,
    });
    return stored ?? answer;
  } catch (error) {
    const problem = toProblem(error, request.id);
    // After a fault, it is unknown what was appended. The next request finds the reservation.
    if (isStored(problem.status)) {
      const stored = await idempotencyKeys.storeAnswer(id, problem.status, {
        body: JSON.stringify(problem),
      });
      if (stored !== null) return stored;
    }
    // Another process may have appended under the reserved ids, or may do so yet.
    else if (problem.status < 500 && !repeated && lock.isSure()) await idempotencyKeys.remove(id);
    throw error;
  }
}

/**
 * Rejects appends after the lock was lost. Without it, a late attempt could follow an answer of
 * another one that changed nothing, and so left no event in the log. It decides nothing: the loss
 * may not be noticed yet.
 */
function appendingUnder(lock: Held, store: EventStore): EventStore {
  return withAppend(store, async (...append) => {
    if (!lock.isSure())
      throw new DomainError(
        'unavailable',
        'The lock of this Idempotency-Key was lost before the append: send the request again',
        {},
        { cause: lock.signal.reason },
      );
    return store.append(...append);
  });
}

/** Names the request that reserved a row. Rows of older versions do not. */
interface FirstRequest {
  requestId?: string;
}

/** Returns the stored answer of a row, or null. Throws `idempotency_key_reused`. */
function toStored({ fingerprint, status, answer }: Row<unknown>, expected: string): Stored | null {
  if (fingerprint !== expected) {
    throw new DomainError(
      'idempotency_key_reused',
      'This Idempotency-Key was used with another body, or by a client with other rights, within ' +
        `the last ${IDEMPOTENCY_KEYS_KEPT}: use a new key`,
    );
  }
  return status === null || answer === null ? null : { status, answer };
}

function sendAnswer<Body>(
  reply: FastifyReply,
  { status, body, location }: Answer<Body>,
): FastifyReply {
  if (location !== undefined) void reply.header('location', location);
  return reply.code(status).send(body);
}

async function sendStored(
  { waitFor }: CommandDeps,
  reply: FastifyReply,
  { status, answer }: Stored,
): Promise<FastifyReply> {
  const shown = Object.entries(answer.shown ?? {}) as [ProjectionName, string][];
  await Promise.all(shown.map(([name, position]) => waitFor(name, BigInt(position))));
  void reply
    .header('idempotent-replayed', 'true')
    .type(status < 400 ? 'application/json; charset=utf-8' : PROBLEM_TYPE);
  if (answer.location !== undefined) void reply.header('location', answer.location);
  return reply.code(status).serializer(String).send(answer.body);
}
