import type { Sql } from '../adapters/postgres/connect.ts';
import type { Scope } from '../domain/key.ts';

const WINDOW_SECONDS = 60;
/** Requests per minute from one address without a valid key. */
const PER_ADDRESS = 60;
/** Keys and addresses at most that are refused from memory. */
const REMEMBERED = 10_000;

/** Whoever a valid key speaks for. */
export interface Client {
  keyId: string;
  accountId: string;
  scopes: Scope[];
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

export interface Admission {
  standing: Standing;
  client: Client | null;
  window: RateWindow;
}

interface Row {
  key_id: string | null;
  account_id: string;
  scopes: Scope[];
  standing: Standing | null;
  started: bigint;
  requests: number;
  now: number;
}

export interface Turnstile {
  /** Requests per minute and key. */
  perKey: number;
  /**
   * Looks a key up by its hash (null where none was given) and takes a place in its window, or in that
   * of the address where there is no valid key, in one round trip.
   */
  enter(sha256: string | null, address: string): Promise<Admission>;
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
    async enter(sha256, address) {
      const byAddress = `address:${address}`;
      const refused = fromMemory(sha256 ?? byAddress);
      if (refused) return refused;

      // A crash may lose the last few requests: this commit need not wait for the disk.
      const [row] = await sql<[Row]>`
        with found as (
          select key_id, account_id, scopes,
                 case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'valid' end as standing
            from read.keys where sha256 = ${sha256}
        ), subject as materialized (
          select coalesce((select 'key:' || key_id from found where standing = 'valid'), ${byAddress}) as subject,
                 floor(extract(epoch from clock_timestamp()))::bigint as now,
                 set_config('synchronous_commit', 'off', true)
        ), place as (
          insert into work.rate_windows as w (subject, started, requests) select subject, now, 1 from subject
          on conflict (subject) do update set
            started = case when excluded.started >= w.started + ${WINDOW_SECONDS} then excluded.started else w.started end,
            requests = case when excluded.started >= w.started + ${WINDOW_SECONDS} then 1 else w.requests + 1 end
          returning started, requests
        )
        select key_id, account_id, scopes, standing, started, requests, extract(epoch from clock_timestamp())::float8 as now
          from place left join found on true`;

      const client = row.standing === 'valid' ? { keyId: row.key_id as string, accountId: row.account_id, scopes: row.scopes } : null;
      const limit = client ? perKey : PER_ADDRESS;
      const reset = Number(row.started) + WINDOW_SECONDS;
      const secondsLeft = reset - row.now;
      const window = { limit, remaining: limit - row.requests, reset, retryAfter: Math.max(1, Math.ceil(secondsLeft)) };
      const admission = { standing: row.standing ?? 'unknown', client, window };
      if (window.remaining < 0) remember(client ? (sha256 as string) : byAddress, admission, secondsLeft);
      return admission;
    },
  };
}

export function rateHeaders({ limit, remaining, reset }: Omit<RateWindow, 'retryAfter'>): Record<string, string> {
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(Math.max(0, remaining)),
    'x-ratelimit-reset': String(reset),
  };
}
