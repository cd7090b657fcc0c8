import type { Sql } from '../adapters/postgres/connect.ts';
import type { Scope } from '../domain/key.ts';
import { ABSOLUTE_HOURS, IDLE_MINUTES } from './session/sessions.ts';

const WINDOW_SECONDS = 60;
/** Requests per minute from one address without a valid key. */
const PER_ADDRESS = 60;
/** Requests per minute of all console sessions of one key: pages that follow what happens ask often. */
const PER_CONSOLE = 1_200;
/** Keys and addresses at most that are refused from memory. */
const REMEMBERED = 10_000;

/** Whoever a valid key or session speaks for. */
export interface Client {
  keyId: string;
  /** The key's account; of a session the one that it looks at. */
  accountId: string;
  scopes: Scope[];
  /** The SHA-256 of the token of the console session that the request belongs to; null for a request with a key. */
  session: string | null;
}

/** What a request shows, as the SHA-256 of it. */
export interface Credential {
  kind: 'key' | 'session';
  sha256: string;
}

/** A place taken in a window of requests. */
export interface RateWindow {
  limit: number;
  /** Requests left after this one; below 0 where this one was too many. */
  remaining: number;
  /** Epoch seconds at which the window ends. */
  reset: number;
  /** Whole seconds until then, at least 1. */
  retryAfter: number;
}

export type Standing = 'valid' | 'expired' | 'revoked' | 'unknown';

export type Identity = { standing: 'valid'; client: Client } | { standing: Exclude<Standing, 'valid'>; client: null };

export type Admission = Identity & { window: RateWindow };

interface KeyRow {
  key_id: string;
  account_id: string;
  scopes: Scope[];
  standing: Standing;
}

interface Row extends Omit<KeyRow, 'standing'> {
  standing: Standing | null;
  started: bigint;
  requests: number;
  now: number;
}

export interface Turnstile {
  /** Requests per minute and key. */
  perKey: number;
  /**
   * Looks a key or a session up (null where none was given) and takes a place in its window, or in that
   * of the address where there is no valid one, in one round trip.
   */
  enter(credential: Credential | null, address: string): Promise<Admission>;
}

/**
 * Fixed windows of a minute, from a subject's first request on, counted by Postgres's clock across all
 * processes. A window that is used up is refused from memory until it ends.
 */
export function createTurnstile(sql: Sql, perKey: number): Turnstile {
  const usedUp = new Map<string, { admission: Admission; until: number }>();

  function fromMemory(subject: string): Admission | null {
    const known = usedUp.get(subject);
    if (!known) return null;
    const left = known.until - performance.now();
    if (left > 0) return { ...known.admission, window: { ...known.admission.window, retryAfter: Math.ceil(left / 1000) } };
    usedUp.delete(subject);
    return null;
  }

  function remember(subject: string, admission: Admission, secondsLeft: number): void {
    const [oldest] = usedUp.keys();
    if (usedUp.size >= REMEMBERED && oldest !== undefined) usedUp.delete(oldest);
    usedUp.set(subject, { admission, until: performance.now() + secondsLeft * 1000 });
  }

  return {
    perKey,
    async enter(credential, address) {
      const byAddress = `address:${address}`;
      const refused = fromMemory(credential?.sha256 ?? byAddress);
      if (refused) return refused;
      const key = credential?.kind === 'key' ? credential.sha256 : null;
      const session = credential?.kind === 'session' ? credential.sha256 : null;

      // A crash may lose the last few requests: this commit need not wait for the disk.
      const [row] = await sql<[Row]>`
        with found as (
          select key_id, account_id, scopes, ${standing(sql)} as standing, 'key:' as window_of from read.keys where sha256 = ${key}
          union all
          select key_id, s.account_id, scopes,
                 case when ${standing(sql)} <> 'valid' then ${standing(sql)}
                      when s.used_at <= now() - ${IDLE_MINUTES} * interval '1 minute' then 'expired'
                      when s.created_at <= now() - ${ABSOLUTE_HOURS} * interval '1 hour' then 'expired'
                      else 'valid' end,
                 'console:'
            from work.console_sessions s join read.keys using (key_id) where token_sha256 = ${session}
        ), used as (
          update work.console_sessions set used_at = now()
           where token_sha256 = ${session} and used_at < now() - interval '1 minute' and (select standing from found) = 'valid'
        ), subject as materialized (
          select coalesce((select window_of || key_id from found where standing = 'valid'), ${byAddress}) as subject,
                 floor(extract(epoch from clock_timestamp()))::bigint as now,
                 set_config('synchronous_commit', 'off', true)
        ), place as (
          insert into work.rate_windows as w (subject, started, requests) select subject, now, 1 from subject
          on conflict (subject) do update set
            started = case when excluded.started >= w.started + ${WINDOW_SECONDS} then excluded.started else w.started end,
            requests = case when excluded.started >= w.started + ${WINDOW_SECONDS} then 1 else w.requests + 1 end
          returning started, requests
        ), first_of_window as (
          insert into work.key_use (key_id, used_at) select key_id, now() from found, place where standing = 'valid' and requests = 1
          on conflict (key_id) do update set used_at = now()
        )
        select key_id, account_id, scopes, standing, started, requests, extract(epoch from clock_timestamp())::float8 as now
          from place left join found on true`;

      const identity = identify(row.standing && { ...row, standing: row.standing }, session);
      const { client } = identity;
      const limit = client ? (session === null ? perKey : PER_CONSOLE) : PER_ADDRESS;
      const reset = Number(row.started) + WINDOW_SECONDS;
      const secondsLeft = reset - row.now;
      const window = { limit, remaining: limit - row.requests, reset, retryAfter: Math.max(1, Math.ceil(secondsLeft)) };
      const admission: Admission = { ...identity, window };
      if (window.remaining < 0) remember(client && credential ? credential.sha256 : byAddress, admission, secondsLeft);
      return admission;
    },
  };
}

/** Looks a key up by its hash, and counts nothing. */
export async function findKey(sql: Sql, sha256: string): Promise<Identity> {
  const [row] = await sql<KeyRow[]>`
    select key_id, account_id, scopes, ${standing(sql)} as standing from read.keys where sha256 = ${sha256}`;
  return identify(row ?? null, null);
}

/** Of a row of `read.keys`. */
function standing(sql: Sql) {
  return sql`case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'valid' end`;
}

function identify(row: KeyRow | null, session: string | null): Identity {
  if (row?.standing !== 'valid') return { standing: row?.standing ?? 'unknown', client: null };
  const { key_id: keyId, account_id: accountId, scopes } = row;
  return { standing: 'valid', client: { keyId, accountId, scopes, session } };
}

export function rateHeaders({ limit, remaining, reset }: Omit<RateWindow, 'retryAfter'>): Record<string, string> {
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(Math.max(0, remaining)),
    'x-ratelimit-reset': String(reset),
  };
}
