import type { Condition, EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { createBatcher } from '../../concurrency/batcher.ts';
import type { Queue, QueueRow, QueueView } from '../../processes/dispatch/queue-estimate.ts';
import { newestUnshown } from '../../projections/transfers/unshown.ts';
import {
  type Credential,
  type FoundRow,
  type Identity,
  identify,
  lookUp,
  noteUse,
} from '../auth/identity.ts';
import type { KeyOfRequest } from '../idempotency/header.ts';
import { type KeptRow, keptRow } from '../idempotency/table.ts';
import {
  countRequests,
  createUsedUpWindows,
  numberRequests,
  PER_ADDRESS,
  PER_CONSOLE,
  type RateWindow,
  toWindow,
  type WindowRow,
} from './rate-limit.ts';
import { createRememberedClients, type Known } from './remembered-clients.ts';

/** The rate window in which a request counts. */
export interface Counted {
  subject: string;
  /** Requests per minute. */
  limit: number;
}

/** What a request asks for beside its client. */
export interface Asked {
  /** The queue that a transfer of the client would join. */
  withQueue: boolean;
  /** The position that the read model must reach to show all transfers. */
  withUnshown: boolean;
  /** The row of this key. */
  idempotencyKey: KeyOfRequest | null;
  /** The request was admitted and counted by what the process remembers, which may be outdated. */
  again: boolean;
}

/**
 * `queue`, `unshown` and `keyRow` are null unless they were asked for. `unshown` is also null if the
 * read model shows all transfers, or if the log is not in this Postgres.
 */
export type CountedRequest = Identity & {
  counted: Counted;
  window: RateWindow;
  queue: QueueView | null;
  unshown: bigint | null;
  keyRow: KeptRow | null;
  /** `memory` is what the process remembers. It knows no row of a key: `keyRow` is null. */
  admittedBy: 'postgres' | 'memory';
  /** What its append must find. Null if Postgres admitted it, or if the log takes no conditions. */
  condition: Condition | null;
};

/** What the admission of a request can read beside the client. */
export interface Views {
  queue: Pick<Queue, 'ask'>;
  store: Pick<EventStore, 'queryNewest' | 'appendWith'>;
}

export interface RequestAdmission {
  /** Requests per minute and key. */
  perKey: number;
  /**
   * Finds the client of a key or session (null if the request has none) and counts the request in
   * the client's window. Without a valid key or session, it counts in the window of the address.
   * Also reads what is `asked`: nothing by default. A request that asks for the queue may be
   * admitted by what the process remembers.
   */
  admit(credential: Credential | null, address: string, asked?: Asked): Promise<CountedRequest>;
  /** Counts further requests in a window, and returns its state after them. */
  count(counted: Counted, requests: number): Promise<RateWindow>;
}

interface Visitor extends Asked {
  key: string | null;
  session: string | null;
  byAddress: string;
  /** How many requests to count. */
  weight: number;
}

type Found = FoundRow & WindowRow & { key_row: KeptRow | null };

/** The first row of a batch has what belongs to no client, if a request asked for it. */
type Row = Found & { queue: QueueRow | null; unshown: bigint | null };

const NOTHING: Asked = {
  withQueue: false,
  withUnshown: false,
  idempotencyKey: null,
  again: false,
};

/**
 * Creates the admission of all requests. One statement finds the client and counts the request.
 * Requests that arrive at the same time share one round trip. The commits of `sql` need not wait
 * for the disk: a crash may lose the last few counts.
 */
export function createRequestAdmission(sql: Sql, perKey: number, views: Views): RequestAdmission {
  const usedUp = createUsedUpWindows<CountedRequest>();
  const findOne = createBatcher((visitors: Visitor[]) => findAndCount(sql, views, visitors));
  const takesConditions = views.store.appendWith !== undefined;
  const remembered = createRememberedClients(takesConditions, (key, subject, weight) => {
    const visitor = { key, session: null, byAddress: subject, weight, ...NOTHING };
    findOne(visitor).catch(() => undefined);
  });

  return {
    perKey,
    async admit(credential, address, asked = NOTHING) {
      const byAddress = `address:${address}`;
      const rejected = usedUp.find(credential?.sha256 ?? byAddress);
      if (rejected) return rejected;
      const key = credential?.kind === 'key' ? credential.sha256 : null;
      const session = credential?.kind === 'session' ? credential.sha256 : null;
      if (key !== null && asked.again) remembered.forget(key);
      // Only an append that takes conditions also finds the row of the key.
      const mayRemember = asked.withQueue && (takesConditions || asked.idempotencyKey === null);
      const known = key !== null && mayRemember ? remembered.admit(key) : null;
      if (known) return admittedFromMemory(known, perKey);
      const weight = (asked.again ? 0 : 1) + (key === null ? 0 : remembered.takeUncounted(key));
      const begun = asked.withQueue ? remembered.begin() : null;
      const { view, unshown, ...row } = await findOne({
        key,
        session,
        byAddress,
        weight,
        ...asked,
      });

      const identity = identify(row, session);
      const { client } = identity;
      if (client)
        await noteUse(sql, client, {
          key: row.requests === row.weight,
          session: row.unnoted === true,
        });
      const limit = client ? (session === null ? perKey : PER_CONSOLE) : PER_ADDRESS;
      const { window, secondsLeft } = toWindow(row, limit);
      const counted = { subject: row.subject, limit };
      const keyRow = row.key_row;
      const answer = {
        ...identity,
        ...{ counted, window, queue: view, unshown, keyRow },
        ...{ admittedBy: 'postgres' as const, condition: null },
      };
      if (window.remaining < 0)
        usedUp.add(
          client && credential ? credential.sha256 : byAddress,
          { ...answer, unshown: null, keyRow: null },
          secondsLeft,
        );
      // A request that shares the statement gets the view too, but did not begin before it.
      else if (client && key !== null && view && begun !== null)
        remembered.remember(key, {
          client,
          subject: row.subject,
          window,
          secondsLeft: Math.min(secondsLeft, row.expires_in ?? secondsLeft),
          queue: view,
          begun,
        });
      return answer;
    },

    async count({ subject, limit }, requests) {
      const [row] = await sql<[WindowRow]>`
        with visitors as (select ${subject}::text as subject, ${requests}::integer as weight),
             counts as (${countRequests(sql)})
        select visitors.weight, counts.*, extract(epoch from clock_timestamp())::float8 as now
          from visitors join counts using (subject)`;
      return toWindow(row, limit).window;
    },
  };
}

/** Returns a request that the process admits by what it remembers. */
function admittedFromMemory(
  { client, subject, window, queue, condition }: Known,
  limit: number,
): CountedRequest {
  return {
    standing: 'valid',
    client,
    counted: { subject, limit },
    window,
    queue,
    unshown: null,
    keyRow: null,
    admittedBy: 'memory',
    condition,
  };
}

async function findAndCount(
  sql: Sql,
  { queue, store }: Views,
  visitors: Visitor[],
): Promise<(Found & { view: QueueView | null; unshown: bigint | null })[]> {
  const asked = visitors.some(({ withQueue }) => withQueue)
    ? queue.ask(sql`(select array_agg(distinct account_id) from visitors)::text[]`)
    : null;
  const unshown = visitors.some(({ withUnshown }) => withUnshown)
    ? newestUnshown(sql, store)
    : null;
  const keys = visitors.map(({ idempotencyKey }) => idempotencyKey);
  const keyRow = keptRow(sql, {
    account_id: sql`visitors.account_id`,
    route: sql`visitors.route`,
    key: sql`visitors.idempotency_key`,
  });
  const rows = await sql<Row[]>`
    with visitors as materialized (
      select nr, route, idempotency_key,
             key_id, account_id, scopes, standing, unnoted, actor, unconfirmed, expires_in,
             case when standing = 'valid' then weight else least(weight, 1) end as weight,
             case when standing is distinct from 'valid' then by_address
                  when session is null then 'key:' || key_id
                  else 'console:' || coalesce(key_id, actor) end as subject
        from unnest(
          ${visitors.map(({ key }) => key)}::text[],
          ${visitors.map(({ session }) => session)}::text[],
          ${visitors.map(({ byAddress }) => byAddress)}::text[],
          ${visitors.map(({ weight }) => weight)}::integer[],
          ${keys.map((key) => key?.route ?? null)}::text[],
          ${keys.map((key) => key?.key ?? null)}::text[])
          with ordinality as v(key, session, by_address, weight, route, idempotency_key, nr)
        left join lateral (${lookUp(sql)}) found on true
    ), counts as (${countRequests(sql)})
    select key_id, account_id, scopes, standing, unnoted, actor, unconfirmed, expires_in, subject,
           weight, started, requests, extract(epoch from clock_timestamp())::float8 as now,
           ${asked ? sql`case when nr = 1 then (select to_jsonb(q) from (${asked.query}) q) end` : sql`null`} as queue,
           ${unshown ? sql`case when nr = 1 then ${unshown} end` : sql`null::bigint`} as unshown,
           ${keys.some((key) => key !== null) ? sql`(select to_jsonb(k) from (${keyRow}) k)` : sql`null`} as key_row
      from visitors join counts using (subject) order by nr`;
  numberRequests(rows);
  const found = rows[0]?.queue ?? null;
  const view = asked && found ? asked.read(found) : null;
  const newest = rows[0]?.unshown ?? null;
  return rows.map(({ queue: _, ...row }, i) => ({
    ...row,
    view,
    unshown: visitors[i]?.withUnshown ? newest : null,
  }));
}
