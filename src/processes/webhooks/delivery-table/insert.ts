/*
 * The folder owns `work.deliveries`, `work.pending_deliveries` and `work.delivery_attempts`: every
 * statement on them is in it, or in the SQL functions `work.due_webhooks`, `work.claim_deliveries`,
 * `work.record_attempts` and `work.purge_deliveries`, called only from it.
 *
 * A delivery has a row in `work.pending_deliveries` while its status is `pending`. A statement that
 * changes both rows changes that one first, so two statements never wait for each other. A
 * statement that adds that row to an existing delivery locks the delivery first, `for key share`:
 * the purge could delete the delivery meanwhile. Updates of a delivery do not wait for such a lock.
 *
 * The fragments here that insert rows need a CTE `moved` before them in the statement, and insert
 * nothing unless it has a row. In the outbox it is the move of the checkpoint
 * (`moveCheckpointWith`). A statement of its own begins with `with moved as (select)`.
 */
import type { Fragment, Queryable, Transaction } from '../../../adapters/postgres/connect.ts';
import { jsonArray } from '../../../adapters/postgres/json-array.ts';
import { newIds } from '../../../domain/ids.ts';
import { type Attempt, columnsOf, LEASE_SECONDS } from './claim.ts';
import { announceDeliveries, pendingAgain, toSend } from './pending.ts';

export interface NewDelivery {
  webhook_id: string;
  account_id: string;
  event_id: string;
  event_type: string;
  transfer_id: string | null;
  /** The payload as every attempt signs and sends it. */
  body: string;
}

/** A new delivery, perhaps with its first attempt. */
export interface DeliveryRow extends NewDelivery {
  id: string;
  /** When the first attempt was claimed. Null for a delivery without one: then now. */
  created_at: string | null;
  /** The claim of the first attempt while it is under way. */
  claim_id: string | null;
  /** The first attempt, if it has ended. */
  attempt: Attempt | null;
}

/** Returns deliveries as rows without an attempt, with ids in their order. */
export function asRows(deliveries: NewDelivery[]): DeliveryRow[] {
  const ids = newIds('dlv', deliveries.length);
  return deliveries.map((delivery, i) => ({
    ...delivery,
    id: ids[i] as string,
    created_at: null,
    claim_id: null,
    attempt: null,
  }));
}

/**
 * Returns the CTEs that insert deliveries, if the CTE `moved` has a row. They fail if a delivery
 * exists.
 */
export function insertedDeliveries(sql: Queryable, rows: DeliveryRow[]): Fragment {
  return sql`
    ${asTable(sql, rows)}
    , deliveries as (${insertDeliveries(sql)})
    ${insertedStates(sql)}`;
}

/** Inserts the same, and leaves deliveries that exist as they are. */
export async function insertMissing(tx: Transaction, rows: DeliveryRow[]): Promise<void> {
  const inserted = await tx<{ id: string }[]>`
    with moved as (select) ${asTable(tx, rows)} ${insertUnknown(tx)} returning id`;
  const ids = new Set(inserted.map(({ id }) => id));
  const missing = rows.filter(({ id }) => ids.has(id));
  if (missing.length > 0)
    await tx`with moved as (select) ${asTable(tx, missing)} ${insertedStates(tx)} select`;
}

/**
 * Returns the CTE `delivery` with these rows, if the CTE `moved` has one. They are in the order of
 * the unique key, so that an outbox and a replay never wait for each other.
 */
function asTable(sql: Queryable, unordered: DeliveryRow[]): Fragment {
  const rows = unordered.toSorted(byKey);
  const attempts = rows.map(({ attempt }) => attempt);
  const { at, durations, statusCodes, errors, responses, statuses, dueTimes } = columnsOf(attempts);
  return sql`
    , delivery as (
      select * from moved, unnest(
        ${rows.map(({ id }) => id)}::text[],
        ${rows.map(({ webhook_id }) => webhook_id)}::text[],
        ${rows.map(({ account_id }) => account_id)}::text[],
        ${rows.map(({ event_id }) => event_id)}::text[],
        ${rows.map(({ event_type }) => event_type)}::text[],
        ${rows.map(({ transfer_id }) => transfer_id)}::text[],
        ${jsonArray(
          sql,
          rows.map(({ body }) => body),
        )},
        ${rows.map(({ created_at }) => created_at)}::timestamptz[],
        ${rows.map(({ claim_id }) => claim_id)}::text[],
        ${at}::timestamptz[], ${durations}::integer[], ${statusCodes}::integer[],
        ${errors}::text[], ${responses}::text[], ${statuses}::text[], ${dueTimes}::timestamptz[]
      ) as d(id, webhook_id, account_id, event_id, event_type, transfer_id, body, created_at,
             claim_id, at, duration_ms, status_code, error, response_body, status, due_at)
    )`;
}

function insertDeliveries(sql: Queryable): Fragment {
  return sql`
    insert into work.deliveries
      (id, webhook_id, account_id, event_id, event_type, transfer_id, body, status, created_at,
       attempts, ended_at, last_status_code, last_error)
    select id, webhook_id, account_id, event_id, event_type, transfer_id, body, status,
           coalesce(created_at, now()), case when at is null then 0 else 1 end,
           case when status <> 'pending' then at + duration_ms * interval '1 millisecond' end,
           status_code, error
      from delivery`;
}

function insertUnknown(sql: Queryable): Fragment {
  return sql`${insertDeliveries(sql)} on conflict (webhook_id, event_id) do nothing`;
}

/** Returns the CTEs that insert what is left to send, and the attempts that have ended. */
function insertedStates(sql: Queryable): Fragment {
  return sql`
    , pending as (
      insert into work.pending_deliveries
        (delivery_id, webhook_id, event_id, transfer_id, due_at, tries, claim_id, lease_until)
      select id, webhook_id, event_id, transfer_id, coalesce(due_at, now()),
             case when at is null then 0 else 1 end, claim_id,
             case when claim_id is not null then now() + ${LEASE_SECONDS} * interval '1 second' end
        from delivery where status = 'pending'
    ),
    attempts as (
      insert into work.delivery_attempts
        (delivery_id, number, at, duration_ms, status_code, error, response_body)
      select id, 1, at, duration_ms, status_code, error, response_body
        from delivery where at is not null
    )`;
}

/** Enqueues new deliveries. Leaves existing ones as they are, sent or not. */
export async function enqueue(sql: Queryable, deliveries: NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  await sql`
    with moved as (select) ${asTable(sql, asRows(deliveries))}
    , added as (${insertUnknown(sql)} returning id, webhook_id, event_id, transfer_id)
    ${toSend(sql)} select * from added`;
  await announceDeliveries(sql);
}

/** Enqueues new deliveries, and schedules ended ones again with the same event id and bytes. */
export async function enqueueAgain(sql: Queryable, deliveries: NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  await sql`
    with known as (
      select d.id, d.webhook_id, d.event_id, d.transfer_id
        from unnest(
          ${deliveries.map(({ webhook_id }) => webhook_id)}::text[],
          ${deliveries.map(({ event_id }) => event_id)}::text[]) as e(webhook_id, event_id)
        join work.deliveries d using (webhook_id, event_id)
       order by d.webhook_id, d.event_id for key share of d
    ),
    again as (${toSend(sql)} select * from known on conflict do nothing returning delivery_id)
    ${pendingAgain(sql)}`;
  // Must be last: it also enqueues a delivery that the purge deleted meanwhile.
  await enqueue(sql, deliveries);
}

function byKey(a: NewDelivery, b: NewDelivery): number {
  if (a.webhook_id !== b.webhook_id) return a.webhook_id < b.webhook_id ? -1 : 1;
  return a.event_id < b.event_id ? -1 : 1;
}
