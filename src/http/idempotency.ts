import { createHash, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import canonicalize from 'canonicalize';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Sql } from '../adapters/postgres/connect.ts';
import type { Locks } from '../adapters/postgres/locks.ts';
import { DomainError, fieldError } from '../domain/errors.ts';
import { IDEMPOTENCY_KEYS_KEPT } from '../processes/housekeeping.ts';
import { clientOf } from './auth.ts';
import { PROBLEM_TYPE, toProblem } from './problems.ts';

/** Below 500, what a later request may well be answered otherwise: these answers are not kept. */
const NOT_KEPT = [400, 401, 403, 409, 429];

export interface Answer<Body> {
  status: number;
  body: Body;
  location?: string;
  /** The body that a replay gives instead, where this one shows a secret once. */
  replayed?: Body;
}

/** An answer as it is kept: its body in the very bytes that were sent. */
interface KeptAnswer {
  body: string;
  location?: string | undefined;
}

interface Row<Reserved> {
  fingerprint: string;
  reserved: Reserved;
  status: number | null;
  answer: KeptAnswer | null;
}

export interface Operation<Reserved, Body> {
  /** The body holds a password or the like. */
  secretBody?: boolean;
  /** Settles on the ids and times that the operation uses, so that it can be repeated. JSON. */
  reserve(): Reserved;
  /** `repeated`: an earlier process began this with the same `reserved` and may have appended; its events are then the truth. */
  run(reserved: Reserved, repeated: boolean): Promise<Answer<Body>>;
}

/**
 * Answers a POST. With an Idempotency-Key it is done once within `IDEMPOTENCY_KEYS_KEPT`, over crashes too: the ids
 * are committed before anything is appended, and the answer is kept after it. Throws `idempotency_in_progress`
 * while another process or request does it, and `idempotency_key_reused` where the body was another.
 */
export async function idempotent<Reserved, Body>(
  deps: { sql: Sql; locks: Locks },
  request: FastifyRequest,
  reply: FastifyReply,
  operation: Operation<Reserved, Body>,
): Promise<FastifyReply> {
  const key = readKey(request);
  if (key === null) return sendAnswer(reply, await operation.run(operation.reserve(), false));

  const { sql } = deps;
  const id = { account_id: clientOf(request).accountId, route: routeOf(request), key };
  const fingerprint = await fingerprintOf(canonicalize(request.body) ?? '', id, operation.secretBody ?? false);
  const kept = await findAnswer(sql, id, fingerprint);
  if (kept) return sendKept(reply, kept);

  const lock = await deps.locks.tryAcquire(`idempotency:${JSON.stringify(Object.values(id))}`);
  if (!lock)
    throw new DomainError(
      'idempotency_in_progress',
      'A request with this Idempotency-Key is being answered: wait for it, then send this one again',
    );
  let answer: Kept | Answer<Body>;
  try {
    const row = await reserve(sql, id, fingerprint, operation.reserve());
    answer = toKept(row, fingerprint) ?? (await runOnce(sql, id, row, request.id, operation));
  } finally {
    // Before the client has its answer: what it sends next must not find the lock taken.
    await lock.release();
  }
  return 'answer' in answer ? sendKept(reply, answer) : sendAnswer(reply, answer);
}

/** Of a secret that somebody has chosen a quick hash would tell it to whoever can guess. */
async function fingerprintOf(body: string, id: RowId, secret: boolean): Promise<string> {
  if (!secret) return createHash('sha256').update(body).digest('hex');
  return (await promisify<string, string, number, Buffer>(scrypt)(body, JSON.stringify(id), 32)).toString('hex');
}

interface RowId {
  account_id: string;
  route: string;
  key: string;
}

/** The route with what its parameters name: the same however the path is spelt. */
function routeOf({ method, routeOptions, params }: FastifyRequest): string {
  return [method, routeOptions.url, ...Object.values(params as Record<string, string>).map(encodeURIComponent)].join(' ');
}

function readKey(request: FastifyRequest): string | null {
  const values = request.raw.headersDistinct['idempotency-key'];
  if (values === undefined) return null;
  if (values.length === 1 && /^[\x20-\x7e]{1,255}$/.test(values[0] as string)) return values[0] as string;
  throw fieldError('Idempotency-Key', 'must be given once, with 1 to 255 printable ASCII characters', 'invalid_parameter');
}

async function runOnce<Reserved, Body>(
  sql: Sql,
  id: RowId,
  row: Row<Reserved> & { repeated: boolean },
  requestId: string,
  operation: Operation<Reserved, Body>,
): Promise<Answer<Body>> {
  try {
    const answer = await operation.run(row.reserved, row.repeated);
    await keep(sql, id, answer.status, { body: JSON.stringify(answer.replayed ?? answer.body), location: answer.location });
    return answer;
  } catch (error) {
    const problem = toProblem(error, requestId);
    // After a fault nobody knows what was appended: the next request finds what was reserved.
    if (problem.status < 500) {
      if (NOT_KEPT.includes(problem.status)) await forget(sql, id);
      else await keep(sql, id, problem.status, { body: JSON.stringify(problem) });
    }
    throw error;
  }
}

async function findAnswer(sql: Sql, { account_id, route, key }: RowId, fingerprint: string): Promise<Kept | null> {
  const [row] = await sql<Row<unknown>[]>`
    select fingerprint, reserved, status, answer from work.idempotency_keys
     where account_id = ${account_id} and route = ${route} and key = ${key} and created_at > now() - ${IDEMPOTENCY_KEYS_KEPT}::interval`;
  return row ? toKept(row, fingerprint) : null;
}

interface Kept {
  status: number;
  answer: KeptAnswer;
}

/** The answer of a row, if it has one. Throws `idempotency_key_reused`. */
function toKept({ fingerprint, status, answer }: Row<unknown>, expected: string): Kept | null {
  if (fingerprint !== expected) {
    throw new DomainError(
      'idempotency_key_reused',
      `This Idempotency-Key was used with another body within the last ${IDEMPOTENCY_KEYS_KEPT}: use a new one`,
    );
  }
  return status === null || answer === null ? null : { status, answer };
}

/** Takes the row of the key, or replaces one that is too old, or gives the one that is there. */
async function reserve<Reserved>(
  sql: Sql,
  { account_id, route, key }: RowId,
  fingerprint: string,
  reserved: Reserved,
): Promise<Row<Reserved> & { repeated: boolean }> {
  const [row] = await sql<[Row<Reserved> & { repeated: boolean }]>`
    with taken as (
      insert into work.idempotency_keys as k (account_id, route, key, fingerprint, reserved)
      values (${account_id}, ${route}, ${key}, ${fingerprint}, ${sql.json(reserved as never)})
      on conflict (account_id, route, key) do update set
        fingerprint = excluded.fingerprint, reserved = excluded.reserved, status = null, answer = null, created_at = now()
        where k.created_at <= now() - ${IDEMPOTENCY_KEYS_KEPT}::interval
      returning fingerprint, reserved, status, answer, false as repeated
    )
    select * from taken
    union all
    select fingerprint, reserved, status, answer, true from work.idempotency_keys
     where account_id = ${account_id} and route = ${route} and key = ${key} and not exists (select from taken)`;
  return row;
}

async function keep(sql: Sql, { account_id, route, key }: RowId, status: number, answer: KeptAnswer): Promise<void> {
  await sql`
    update work.idempotency_keys set status = ${status}, answer = ${sql.json(answer as never)}
     where account_id = ${account_id} and route = ${route} and key = ${key}`;
}

async function forget(sql: Sql, { account_id, route, key }: RowId): Promise<void> {
  await sql`delete from work.idempotency_keys where account_id = ${account_id} and route = ${route} and key = ${key}`;
}

function sendAnswer<Body>(reply: FastifyReply, { status, body, location }: Answer<Body>): FastifyReply {
  if (location !== undefined) void reply.header('location', location);
  return reply.code(status).send(body);
}

function sendKept(reply: FastifyReply, { status, answer }: Kept): FastifyReply {
  void reply.header('idempotent-replayed', 'true').type(status < 400 ? 'application/json; charset=utf-8' : PROBLEM_TYPE);
  if (answer.location !== undefined) void reply.header('location', answer.location);
  return reply.code(status).serializer(String).send(answer.body);
}
