import type { Sql } from '../adapters/postgres/connect.ts';
import { createBatcher } from '../batcher.ts';
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
  /** The session is in use, and was noted to be so more than a minute ago. */
  unnoted: boolean | null;
  subject: string;
  started: bigint;
  requests: number;
  now: number;
}

export interface RateLimiter {
  /** Requests per minute and key. */
  perKey: number;
  /**
   * Looks a key or a session up (null where none was given) and takes a place in its window, or in that
   * of the address where there is no valid one, in one round trip, which those who come at once share.
   */
  admit(credential: Credential | null, address: string): Promise<Admission>;
}

/**
 * Fixed windows of a minute, from a subject's first request on, counted by Postgres's clock across all
 * processes. A window that is used up is refused from memory until it ends. The commits of `sql` need not wait
 * for the disk: a crash may lose the last few requests.
 */
export function createRateLimiter(sql: Sql, perKey: number): RateLimiter {
  const usedUp = new Map<string, { admission: Admission; until: number }>();
  const takePlace = createBatcher((visitors: Visitor[]) => takePlaces(sql, visitors));

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
    async admit(credential, address) {
      const byAddress = `address:${address}`;
      const refused = fromMemory(credential?.sha256 ?? byAddress);
      if (refused) return refused;
      const key = credential?.kind === 'key' ? credential.sha256 : null;
      const session = credential?.kind === 'session' ? credential.sha256 : null;
      const row = await takePlace({ key, session, byAddress });

      const identity = identify(row.standing && { ...row, standing: row.standing }, session);
      const { client } = identity;
      if (client) await noteUse(sql, client, row);
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

interface Visitor {
  key: string | null;
  session: string | null;
  byAddress: string;
}

/** Rows are locked in one order by all who write several. */
async function takePlaces(sql: Sql, visitors: Visitor[]): Promise<Row[]> {
  const rows = await sql<Row[]>`
    with visitors as materialized (
      select nr, key_id, account_id, scopes, standing, unnoted,
             case when standing = 'valid' then window_of || key_id else by_address end as subject
        from unnest(
          ${visitors.map(({ key }) => key)}::text[],
          ${visitors.map(({ session }) => session)}::text[],
          ${visitors.map(({ byAddress }) => byAddress)}::text[]) with ordinality as v(key, session, by_address, nr)
        left join lateral (
          select key_id, account_id, scopes, ${standing(sql)} as standing, 'key:' as window_of, false as unnoted
            from read.keys where sha256 = v.key
          union all
          select key_id, s.account_id, scopes,
                 case when ${standing(sql)} <> 'valid' then ${standing(sql)}
                      when s.used_at <= now() - ${IDLE_MINUTES} * interval '1 minute' then 'expired'
                      when s.created_at <= now() - ${ABSOLUTE_HOURS} * interval '1 hour' then 'expired'
                      else 'valid' end,
                 'console:', s.used_at < now() - interval '1 minute'
            from work.console_sessions s join read.keys using (key_id) where token_sha256 = v.session
        ) found on true
    ), places as (
      insert into work.rate_windows as w (subject, started, requests)
      select subject, floor(extract(epoch from clock_timestamp()))::bigint, count(*) from visitors group by subject order by subject
      on conflict (subject) do update set
        started = case when excluded.started >= w.started + ${WINDOW_SECONDS} then excluded.started else w.started end,
        requests = case when excluded.started >= w.started + ${WINDOW_SECONDS} then excluded.requests else w.requests + excluded.requests end
      returning subject, started, requests
    )
    select key_id, account_id, scopes, standing, unnoted, subject, started, requests, extract(epoch from clock_timestamp())::float8 as now
      from visitors join places using (subject) order by nr`;
  // Of several in one window each is counted after the one before: the last is the one that the window has come to.
  const counts = new Map<string, number>();
  for (const row of rows.toReversed()) {
    row.requests = counts.get(row.subject) ?? row.requests;
    counts.set(row.subject, row.requests - 1);
  }
  return rows;
}

/** To the minute: with the first request of a window, and where that of a session is so old. */
async function noteUse(sql: Sql, { keyId, session }: Client, { requests, unnoted }: Row): Promise<void> {
  if (requests === 1) {
    await sql`
      insert into work.key_use (key_id, used_at) values (${keyId}, now()) on conflict (key_id) do update set used_at = excluded.used_at`;
  }
  if (unnoted) await sql`update work.console_sessions set used_at = now() where token_sha256 = ${session}`;
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
