import type { Sql } from '../../adapters/postgres/connect.ts';
import type { AuditedEvent, AuditKind, AuditType } from '../../domain/audit.ts';
import { timesOf } from '../lists.ts';

/** How many events `eachAuditEvent` reads at a time. */
const BATCH = 1_000;

export interface AuditFilter {
  kind?: AuditKind | undefined;
  type?: AuditType | undefined;
  /** An actor as events have it, or the id or name of a key, a user, or the email of a person. */
  actor?: string | undefined;
  /** The id of a subject, the name of an endpoint, key or flow, or the URL of a webhook. */
  subject?: string | undefined;
  /** Occurred at or after this instant, ISO 8601. */
  from?: string | undefined;
  /** Occurred at or before this instant, ISO 8601. */
  to?: string | undefined;
}

/** Returns events, newest first, whether more follow, and the total, counted to `countTo`. */
export async function listAuditEvents(
  sql: Sql,
  filter: AuditFilter,
  { limit, offset, countTo }: { limit: number; offset: number; countTo: number },
): Promise<{ events: AuditedEvent[]; total: number; hasMore: boolean }> {
  const resolved = await resolve(sql, filter);
  const [events, [counted]] = await Promise.all([
    sql<
      AuditedEvent[]
    >`${shown(sql, sql`${passes(sql, resolved)} ${order(sql)} limit ${limit + 1} offset ${offset}`)}`,
    sql<{ total: number }[]>`
      select count(*)::integer as total
        from (select from read.audit a where ${passes(sql, resolved)} limit ${countTo}) counted`,
  ]);
  return {
    events: events.slice(0, limit),
    total: counted?.total ?? 0,
    hasMore: events.length > limit,
  };
}

/** Yields all matches, newest first, some at a time. Each batch is a query of its own. */
export async function* eachAuditEvent(
  sql: Sql,
  filter: AuditFilter,
): AsyncGenerator<AuditedEvent[], void, void> {
  const resolved = await resolve(sql, filter);
  for (let last: AuditedEvent | undefined; ; ) {
    const after = last
      ? sql`and (occurred_at, position, revision) < (${last.occurred_at}::text::timestamptz,
              ${String(last.position)}::bigint, ${last.revision}::integer)`
      : sql``;
    const rows: AuditedEvent[] = await sql<AuditedEvent[]>`
      ${shown(sql, sql`${passes(sql, resolved)} ${after} ${order(sql)} limit ${BATCH}`)}`;
    if (rows.length > 0) yield rows;
    if (rows.length < BATCH) return;
    last = rows.at(-1);
  }
}

function order(sql: Sql) {
  return sql`order by occurred_at desc, position desc, revision desc`;
}

/** Selects rows with the names of their subjects and actors. `which` ends with order and limit. */
function shown(sql: Sql, which: ReturnType<Sql>) {
  return sql`
    select a.*,
           case kind
             when 'endpoint' then (select name from read.endpoints where endpoint_id = subject_id)
             when 'key' then (select name from read.keys where key_id = subject_id)
             when 'batch' then null
             when 'flow' then (select state ->> 'name' from read.flows where flow_id = subject_id)
             when 'webhook' then
               (select state ->> 'url' from read.webhooks where webhook_id = subject_id)
             else (select state #>> '{facts,file_name}' from read.transfers
                    where transfer_id = subject_id)
           end as subject_name,
           (select name from read.keys
             where actor ~ '^(key|console):' and key_id = split_part(actor, ':', 2)) as key_name
      from (select * from read.audit a where ${which}) a
     ${order(sql)}`;
}

/** A filter with the ids that its names stand for. Null: any. */
type Resolved = Omit<AuditFilter, 'actor' | 'subject'> & {
  actors: string[] | null;
  subjects: string[] | null;
};

async function resolve(sql: Sql, { actor, subject, ...filter }: AuditFilter): Promise<Resolved> {
  const [actors, subjects] = await Promise.all([
    actor === undefined ? null : actorsCalled(sql, actor),
    subject === undefined ? null : subjectsCalled(sql, subject),
  ]);
  return { ...filter, actors, subjects };
}

/** Returns what holds for the rows that pass. */
function passes(sql: Sql, { kind, type, actors, subjects, ...times }: Resolved) {
  const { from, beyond } = timesOf(times);
  return sql`
    occurred_at >= ${from}::text::timestamptz and occurred_at < ${beyond}::text::timestamptz
    ${kind === undefined ? sql`` : sql`and kind = ${kind}`}
    ${type === undefined ? sql`` : sql`and type = ${type}`}
    ${actors === null ? sql`` : sql`and actor = ${oneOf(sql, actors)}`}
    ${subjects === null ? sql`` : sql`and subject_id = ${oneOf(sql, subjects)}`}`;
}

/** A single value lets Postgres read an index in the order of the list. */
function oneOf(sql: Sql, [first, ...others]: string[]) {
  if (first !== undefined && others.length === 0) return sql`${first}`;
  return sql`any(${first === undefined ? [] : [first, ...others]}::text[])`;
}

async function actorsCalled(sql: Sql, name: string): Promise<string[]> {
  const rows = await sql<{ actor: string }[]>`
    with keys as (
      select key_id from read.keys where key_id = ${name} or lower(name) = lower(${name}::text)
    ),
    candidates as (
      select ${name}::text as actor
      union select 'cli:' || ${name}::text
      union select kind || key_id from keys cross join (values ('key:'), ('console:')) k(kind)
      -- the subject at the identity provider follows in parentheses
      union select distinct actor from read.audit
             where actor >= 'person:' || ${name}::text || ' ('
               and actor < 'person:' || ${name}::text || ' )'
    )
    select actor from candidates c
     where exists (select from read.audit a where a.actor = c.actor)`;
  return rows.map(({ actor }) => actor);
}

async function subjectsCalled(sql: Sql, name: string): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    with candidates as (
      select ${name}::text as id
      union select endpoint_id from read.endpoints where lower(name) = lower(${name}::text)
      union select key_id from read.keys where lower(name) = lower(${name}::text)
      union select flow_id from read.flows where lower(state ->> 'name') = lower(${name}::text)
      union select webhook_id from read.webhooks
             where lower(state ->> 'url') = lower(${name}::text)
    )
    select id from candidates
     where exists (select from read.audit where subject_id = id)`;
  return rows.map(({ id }) => id);
}
