import type { NewEvent } from '../../../src/domain/events/event.ts';
import { eventHash } from '../../../src/domain/events/event-hash.ts';
import { nextEventId } from '../../../src/domain/ids.ts';
import type { Evidence } from '../checker/evidence-files.ts';
import type { SmallRun } from './small-run.ts';

const TABLES = [
  'log.events',
  'log.head',
  'read.transfers',
  'read.transfer_counts',
  'read.transfer_totals',
  'read.transfer_search',
  'read.audit',
  'read.batches',
  'read.batch_counts',
  'read.flows',
  'read.endpoints',
  'read.keys',
  'read.webhooks',
  'read.checkpoints',
  'work.checkpoints',
  'work.transfer_jobs',
  'work.cleanups',
  'work.after_steps',
  'work.deliveries',
  'work.pending_deliveries',
  'work.delivery_attempts',
  'work.outbox_webhooks',
  'work.idempotency_keys',
];

/** A damage, and what the checker must report. */
export interface Damage {
  what: string;
  /** The check that finds it. */
  finds: string;
  /** A part of the finding's subject. */
  names(run: SmallRun): string;
  /** Changes a copy of the evidence. */
  evidence?(evidence: Evidence, run: SmallRun): void;
  /** Changes tables, which are restored afterwards. */
  tables?(run: SmallRun): Promise<unknown>;
  /** Changes files, and returns a function that undoes it. */
  files?(run: SmallRun): Undo | Promise<Undo>;
}

export type Undo = () => void | Promise<void>;

type Sql = SmallRun['installation']['sql'];

/** Damages the tables of a run and restores them. The triggers of the log are off meanwhile. */
export async function keepTables(sql: Sql): Promise<{ restore(): Promise<void> }> {
  await sql`alter table log.events disable trigger user`;
  await sql`create schema kept`;
  const copies = TABLES.map((table) => ({ table, copy: `kept.${table.replace('.', '_')}` }));
  for (const { table, copy } of copies)
    await sql`create table ${sql(copy)} as select * from ${sql(table)}`;
  return {
    async restore() {
      await sql.begin(async (tx) => {
        for (const { table, copy } of copies) {
          await tx`delete from ${tx(table)}`;
          const columns = await tx<{ name: string }[]>`
            select attname as name from pg_attribute
             where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
               and attgenerated = ''`;
          const names = tx(columns.map(({ name }) => name));
          await tx`insert into ${tx(table)} (${names}) select ${names} from ${tx(copy)}`;
        }
      });
    },
  };
}

export function sql(run: SmallRun): Sql {
  return run.installation.sql;
}

export function streamOf(transferId: string): string {
  return `waybill_transfer-${transferId}`;
}

/** Removes items from a list in place. */
export function drop<T>(list: T[], isGone: (item: T) => boolean): void {
  list.splice(0, list.length, ...list.filter((item) => !isGone(item)));
}

interface Row {
  revision: number;
  event: NewEvent;
}

/**
 * Changes the data of one event of a transfer and, as a careful forger does, every later
 * `prev_hash`.
 */
export async function forge(
  sql: Sql,
  transferId: string,
  type: string,
  change: (data: Record<string, unknown>) => void,
): Promise<void> {
  const stream = streamOf(transferId);
  const rows = await eventsOf(sql, stream);
  let previous: string | null = null;
  for (const { revision, event } of rows) {
    if (event.type === type) change(event.data as Record<string, unknown>);
    const metadata = { ...event.metadata, prev_hash: previous };
    previous = eventHash({ ...event, metadata });
    await sql`
      update log.events
         set data = ${JSON.stringify(event.data)}, metadata = ${JSON.stringify(metadata)}
       where stream = ${stream} and revision = ${revision}`;
  }
}

async function eventsOf(sql: Sql, stream: string): Promise<Row[]> {
  const rows = await sql<
    (Omit<NewEvent, 'data' | 'metadata'> & { revision: number; data: string; metadata: string })[]
  >`
    select revision, id, type, schema_version, data, metadata from log.events
     where stream = ${stream} order by revision`;
  return rows.map(({ revision, data, metadata, ...event }) => ({
    revision,
    event: { ...event, data: JSON.parse(data), metadata: JSON.parse(metadata) },
  }));
}

/**
 * Appends a copy of a transfer's last event under the next id, correctly chained, as the log's own
 * function accepts it.
 */
export async function repeatEnd(sql: Sql, transferId: string): Promise<void> {
  const stream = streamOf(transferId);
  const last = (await eventsOf(sql, stream)).at(-1) as Row;
  const { id, type, schema_version, data, metadata } = last.event;
  const next = nextEventId(id, 0);
  const again = JSON.stringify({ ...metadata, prev_hash: eventHash(last.event) });
  await sql`
    select * from log.append(
      ${[stream]}::text[], ${[last.revision]}::integer[], ${[1]}::integer[], ${[1]}::integer[],
      ${[1]}::integer[],
      ${[next]}::text[],
      ${[type]}::text[], ${[schema_version]}::integer[], ${[JSON.stringify(data)]}::text[],
      ${[again]}::text[])`;
}
