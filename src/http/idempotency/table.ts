/*
 * The owner of `work.idempotency_keys`: a row for each Idempotency-Key of an account and route.
 */
import type { Beside } from '../../adapters/event-store/port.ts';
import type { Fragment, Queryable, Sql } from '../../adapters/postgres/connect.ts';
import { jsonArray } from '../../adapters/postgres/json-array.ts';
import { createBatcher } from '../../concurrency/batcher.ts';
import { IDEMPOTENCY_HOURS } from '../../domain/idempotency.ts';
import type { ProjectionName } from '../../domain/projection-name.ts';

/** How long a row holds. A Postgres interval that texts also show. */
export const IDEMPOTENCY_KEYS_KEPT = `${IDEMPOTENCY_HOURS} hours`;

/** A stored answer. `body` is the exact text that a replay sends. */
export interface StoredAnswer {
  body: string;
  location?: string | undefined;
  /** The positions that the first answer waited for, as decimal strings. */
  shown?: Shown;
}

/** The answer of a request as its row has it. */
export interface Stored {
  status: number;
  answer: StoredAnswer;
}

export type Shown = Partial<Record<ProjectionName, string>>;

export interface RowId {
  account_id: string;
  route: string;
  key: string;
}

export interface Row<Reserved> {
  fingerprint: string;
  reserved: Reserved;
  status: number | null;
  answer: StoredAnswer | null;
}

/** A row as it was found, and the account that it was looked up for. */
export type KeptRow = Row<unknown> & { account_id: string };

/**
 * Selects the row of a key that still holds, as a `KeptRow`. Each part of its id is an expression.
 */
export function keptRow(sql: Sql, id: Record<keyof RowId, Fragment>): Fragment {
  return sql`
    select account_id, fingerprint, reserved, status, answer from work.idempotency_keys
     where account_id = ${id.account_id} and route = ${id.route} and key = ${id.key}
       and created_at > now() - ${IDEMPOTENCY_KEYS_KEPT}::interval`;
}

/** A row that is complete from the start: its answer follows from the events of one append. */
export interface AnsweredRow extends RowId {
  fingerprint: string;
  reserved: unknown;
  status: number;
  answer: Omit<StoredAnswer, 'shown'>;
  /** The answer waits until this projection shows the events. */
  shownIn: ProjectionName;
}

/** Inserts a row in the commit of the append. Postgres rejects both if the key has a row. */
export function insertedWith(row: AnsweredRow): Beside<AnsweredRow> {
  return { item: row, write: insertAnswered };
}

const insertAnswered: Beside<AnsweredRow>['write'] = (sql, items) => {
  const rows = items.map(({ item }) => item);
  return sql`
    insert into work.idempotency_keys
      (account_id, route, key, fingerprint, reserved, status, answer)
    select account_id, route, key, fingerprint, reserved::jsonb, status,
           answer::jsonb || jsonb_build_object(
             'shown', jsonb_build_object(shown_in, position::text))
      from appended
      join unnest(
        ${items.map(({ nr }) => nr)}::integer[],
        ${idColumns(sql, rows)},
        ${rows.map(({ fingerprint }) => fingerprint)}::text[],
        ${jsonArray(
          sql,
          rows.map(({ reserved }) => JSON.stringify(reserved)),
        )},
        ${rows.map(({ status }) => status)}::integer[],
        ${jsonArray(
          sql,
          rows.map(({ answer }) => JSON.stringify(answer)),
        )},
        ${rows.map(({ shownIn }) => shownIn)}::text[])
        as n(nr, account_id, route, key, fingerprint, reserved, status, answer, shown_in)
        using (nr)
     where position is not null
     order by account_id, route, key`;
};

/** Returns true if an append was rejected because its key has a row, which may have expired. */
export function isTaken(error: unknown): boolean {
  const { code, constraint_name: name } = error as { code?: unknown; constraint_name?: unknown };
  return code === '23505' && name === 'idempotency_keys_pkey';
}

/** The rows of keys whose requests hold the locks of their keys. */
export interface IdempotencyKeys {
  /** Inserts the row of the key, replaces an expired one, or returns the existing one. */
  reserve<Reserved>(
    id: RowId,
    fingerprint: string,
    reserved: Reserved,
  ): Promise<Row<Reserved> & { repeated: boolean }>;
  /**
   * Stores the answer, unless the row has one: another attempt has then carried out the request.
   * Returns that one, or null.
   */
  storeAnswer(id: RowId, status: number, answer: StoredAnswer): Promise<Stored | null>;
  /** Removes the row, unless it has an answer. */
  remove(id: RowId): Promise<void>;
}

type Found = Row<unknown> & { repeated: boolean };

/** `nr` is the place of the call in its statement, from 1. */
type Numbered = { nr: bigint };

/** Calls that are made at the same time share a statement, and its flush to disk. */
export function createIdempotencyKeys(sql: Sql): IdempotencyKeys {
  const reserve = createBatcher(
    async (asked: (RowId & { fingerprint: string; json: string })[]) => {
      const rows = await sql<(Found & Numbered)[]>`
      with asked as (
        select * from unnest(
          ${idColumns(sql, asked)},
          ${asked.map(({ fingerprint }) => fingerprint)}::text[],
          ${jsonArray(
            sql,
            asked.map(({ json }) => json),
          )})
          with ordinality as a(account_id, route, key, fingerprint, reserved, nr)
      ), taken as (
        insert into work.idempotency_keys as k (account_id, route, key, fingerprint, reserved)
        select distinct on (account_id, route, key)
               account_id, route, key, fingerprint, reserved::jsonb
          from asked order by account_id, route, key, nr
        on conflict (account_id, route, key) do update set
          fingerprint = excluded.fingerprint, reserved = excluded.reserved, status = null,
          answer = null, created_at = now()
          where k.created_at <= now() - ${IDEMPOTENCY_KEYS_KEPT}::interval
        returning account_id, route, key, fingerprint, reserved, status, answer
      )
      select a.nr, t.fingerprint, t.reserved, t.status, t.answer, false as repeated
        from asked a join taken t using (account_id, route, key)
      union all
      select a.nr, k.fingerprint, k.reserved, k.status, k.answer, true
        from asked a join work.idempotency_keys k using (account_id, route, key)
       where not exists (select from taken t
                          where (t.account_id, t.route, t.key) = (a.account_id, a.route, a.key))`;
      return inOrderOf(asked, rows);
    },
  );

  const store = createBatcher(
    async (asked: (RowId & { status: number; answer: StoredAnswer })[]) => {
      const rows = await sql<(Stored & Numbered)[]>`
        with asked as (
          select * from unnest(
            ${idColumns(sql, asked)},
            ${asked.map(({ status }) => status)}::integer[],
            ${jsonArray(
              sql,
              asked.map(({ answer }) => JSON.stringify(answer)),
            )})
            with ordinality as a(account_id, route, key, status, answer, nr)
        ), kept as (
          select a.nr, k.account_id, k.route, k.key, k.status, k.answer
            from asked a join work.idempotency_keys k using (account_id, route, key)
           order by account_id, route, key
             for update of k
        ), stored as (
          update work.idempotency_keys as k set status = a.status, answer = a.answer::jsonb
            from kept join asked a using (nr)
           where (k.account_id, k.route, k.key) = (kept.account_id, kept.route, kept.key)
             and kept.status is null
        )
        select nr, status, answer from kept where status is not null`;
      return inOrderOf(asked, rows);
    },
  );

  return {
    async reserve<Reserved>(id: RowId, fingerprint: string, reserved: Reserved) {
      for (;;) {
        const row = await reserve({ ...id, fingerprint, json: JSON.stringify(reserved) });
        // Null: another request has committed the row since the statement began to read.
        if (row !== null) return row as Row<Reserved> & { repeated: boolean };
      }
    },
    storeAnswer: (id, status, answer) => store({ ...id, status, answer }),
    async remove({ account_id, route, key }) {
      await sql`
        delete from work.idempotency_keys
         where account_id = ${account_id} and route = ${route} and key = ${key}
           and status is null`;
    },
  };
}

/** Returns the columns of the ids of rows, as the arguments of `unnest`. */
function idColumns(sql: Queryable, ids: RowId[]): Fragment {
  return sql`
    ${ids.map(({ account_id }) => account_id)}::text[], ${ids.map(({ route }) => route)}::text[],
    ${ids.map(({ key }) => key)}::text[]`;
}

/** Returns the row of each call, in their order. Null for a call without one. */
function inOrderOf<Found>(asked: unknown[], rows: readonly (Found & Numbered)[]) {
  const found = new Map(rows.map(({ nr, ...row }) => [Number(nr), row]));
  return asked.map((_, i) => found.get(i + 1) ?? null);
}

/** Removes the rows of keys that no longer hold. */
export async function removeExpiredKeys(sql: Sql): Promise<void> {
  await sql`
    delete from work.idempotency_keys
     where created_at < now() - ${IDEMPOTENCY_KEYS_KEPT}::interval`;
}

/** Removes from the stored answers the positions that their replays wait for. */
export async function forgetShown(sql: Queryable): Promise<void> {
  await sql`update work.idempotency_keys set answer = answer - 'shown' where answer ? 'shown'`;
}
