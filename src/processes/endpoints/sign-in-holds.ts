/*
 * Sign-ins that servers rejected. This file is the owner of `work.sign_in_holds`, which has a row
 * for each endpoint whose last sign-in was rejected, until one with the same credentials succeeds.
 * `until` ends the hold of a row; the row itself shows that the credentials may be wrong.
 */
import type { Queryable, Sql } from '../../adapters/postgres/connect.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';

export const HOLD_SECONDS = 60;
/** A folder is listed again and again, perhaps for weeks: once a minute would lock an account. */
const LONGEST_LISTING_HOLD_SECONDS = 15 * 60;

/** Notified of each rejected sign-in. The payload is the id of the endpoint. */
export const REJECTION_CHANNEL = 'waybill_rejected_sign_ins';

type Credentials = Pick<Endpoint, 'endpoint_id' | 'credentials_record'>;

/**
 * Holds sign-ins to an endpoint for a minute after a rejected one, in all processes. The hold ends
 * at once for new credentials.
 */
export function holdSignIn(sql: Sql, endpoint: Credentials): Promise<void> {
  return noteRejection(sql, endpoint, HOLD_SECONDS);
}

/**
 * Returns whether a listing must not sign in with these credentials. Its hold lasts for as long as
 * they had been rejected before, a minute at least and 15 minutes at most.
 */
export async function isListingHeld(
  sql: Sql,
  { endpoint_id, credentials_record }: Credentials,
): Promise<boolean> {
  const held = await sql`
    select from work.sign_in_holds
     where endpoint_id = ${endpoint_id} and credentials_record = ${credentials_record}
       and now() < until + least(
             ${LONGEST_LISTING_HOLD_SECONDS - HOLD_SECONDS} * interval '1 second',
             greatest(until - since - ${HOLD_SECONDS} * interval '1 second', interval '0'))`;
  return held.length > 0;
}

/** Records a rejected sign-in, and holds further ones: by default none. Shortens no hold. */
export async function noteRejection(
  sql: Sql,
  { endpoint_id, credentials_record }: Credentials,
  holdSeconds = 0,
): Promise<void> {
  await sql`
    with noted as (
      insert into work.sign_in_holds as h (endpoint_id, credentials_record, until)
      values (${endpoint_id}, ${credentials_record}, now() + ${holdSeconds} * interval '1 second')
      on conflict (endpoint_id) do update set
        credentials_record = excluded.credentials_record,
        since = case when h.credentials_record = excluded.credentials_record
                     then h.since else now() end,
        until = case when h.credentials_record = excluded.credentials_record
                     then greatest(h.until, excluded.until) else excluded.until end
      returning endpoint_id
    )
    select pg_notify(${REJECTION_CHANNEL}, endpoint_id) from noted`;
}

/** Forgets the rejection, and ends the hold: the server has just accepted these credentials. */
export async function forgetRejection(
  sql: Sql,
  { endpoint_id, credentials_record }: Credentials,
): Promise<void> {
  await sql`
    delete from work.sign_in_holds
     where endpoint_id = ${endpoint_id} and credentials_record = ${credentials_record}`;
}

/**
 * Forgets the rejection because of a transfer that began `ms` ago and has completed, if its hold
 * had ended by then: an older connection proves nothing. Returns true if no rejection is left.
 */
export async function forgetEarlierRejection(
  sql: Sql,
  endpointId: string,
  ms: number,
): Promise<boolean> {
  const [row] = await sql<{ left: boolean }[]>`
    with forgotten as (
      delete from work.sign_in_holds
       where endpoint_id = ${endpointId} and until <= now() - ${ms} * interval '1 millisecond'
      returning endpoint_id
    )
    select exists (select from work.sign_in_holds where endpoint_id = ${endpointId})
           and not exists (select from forgotten) as left`;
  return row?.left === false;
}

/** Returns the ids of endpoints with a rejection, also one of credentials that were replaced. */
export async function everRejecting(sql: Sql): Promise<string[]> {
  const rows = await sql<{ endpoint_id: string }[]>`select endpoint_id from work.sign_in_holds`;
  return rows.map(({ endpoint_id }) => endpoint_id);
}

/** Selects the holds that last, also of credentials that were replaced since. */
export function currentHolds(sql: Queryable) {
  return sql`
    select endpoint_id, credentials_record, until from work.sign_in_holds where until > now()`;
}

/** Selects the ids of endpoints whose current credentials were rejected last. */
export function rejectedSignIns(sql: Queryable) {
  return sql`
    select h.endpoint_id, h.until, h.since from work.sign_in_holds h
      join read.endpoints e
        on e.endpoint_id = h.endpoint_id
       and e.state ->> 'credentials_record' = h.credentials_record`;
}

/** Returns the ids of endpoints whose current credentials were rejected within the last minute. */
export async function heldSignIns(sql: Sql): Promise<Set<string>> {
  const rows = await sql<{ endpoint_id: string }[]>`
    select endpoint_id from (${rejectedSignIns(sql)}) rejected where until > now()`;
  return new Set(rows.map(({ endpoint_id }) => endpoint_id));
}
