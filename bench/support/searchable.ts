import type { Sql } from '../../src/adapters/postgres/connect.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import type { TransferCreated, TransferEvent } from '../../src/domain/transfers/transfer.ts';
import { PROJECTIONS } from '../../src/projections/read-models.ts';

/** Of every second transfer. */
export const ACCOUNT = 'acc_default';
/** Accounts that share the others. */
const OTHERS = 500;
const PER_BATCH = 10_000;
const SECONDS_APART = 3;
const START = Date.parse('2025-11-01T00:00:00.000Z');
const BASE32 = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

const HOSTS = ['hospital', 'bank', 'insurer', 'warehouse', 'laboratory'];
const REGIONS = ['north', 'south', 'east', 'west'];
const TYPES = ['csv', 'pdf', 'xml', 'zip'];

/**
 * Fills the read models `transfers` and `transfer_search` with transfers whose words have all
 * frequencies: `report` in half of them, `invoice` in 20 %, `payroll` in 1 %, `audit` in 0.1 %,
 * `zebra` in 0.01 %. One of 1,000 is cancelled.
 */
export async function fillReadModels(
  sql: Sql,
  transfers: number,
  report: (done: number) => void,
): Promise<void> {
  // Indexes of random keys are cheaper to create at the end, as in a rebuild.
  const indexes = await sql<{ name: string; definition: string }[]>`
    select format('%I.%I', schemaname, indexname) as name, indexdef as definition
      from pg_indexes
     where schemaname = 'read' and tablename = 'transfers' and indexdef not like '% UNIQUE %'`;
  for (const { name } of indexes) await sql.unsafe(`drop index ${name}`);
  for (let from = 0; from < transfers; from += PER_BATCH) {
    const events: StoredEvent[] = [];
    for (let n = from; n < Math.min(transfers, from + PER_BATCH); n++) {
      const created = transfer(n);
      const add = (event: TransferEvent, revision: number) =>
        events.push({
          ...event,
          id: `evt_${n}_${revision}`,
          stream: `transfer-${created.transfer_id}`,
          position: BigInt(n * 2 + revision + 1),
          revision,
        } as unknown as StoredEvent);
      add({ type: 'transfer.created', data: created }, 0);
      if (n % 1_000 < 2)
        add({ type: 'transfer.cancelled', data: { cancelled_at: created.created_at } }, 1);
    }
    await Promise.all(
      (['transfers', 'transfer_search'] as const).map((name) =>
        sql.begin((tx) => PROJECTIONS[name].apply(tx, 'read', events)),
      ),
    );
    report(from + PER_BATCH);
  }
  for (const { definition } of indexes) await sql.unsafe(definition);
  await sql`vacuum analyze read.transfers`;
  await sql`vacuum analyze read.transfer_search_0, read.transfer_search_full`;
}

function transfer(n: number): TransferCreated {
  const at = START + n * SECONDS_APART * 1_000;
  const created_at = new Date(at).toISOString();
  const random = scatter(n);
  const day = created_at.slice(0, 10);
  const file = `${kindOf(n >> 1)}-${day.replaceAll('-', '')}-${digits(random(), 6)}.${pick(TYPES, random())}`;
  const source = `sftp://${pick(HOSTS, random())}${random() % 40}.example.com/out/${day.replaceAll('-', '/')}/${file}`;
  const destination = `s3://archive-${random() % 7}/incoming/${pick(REGIONS, random())}/${file}`;
  return {
    transfer_id: ulidOf(at, random),
    account_id: n % 2 === 0 ? ACCOUNT : `acc_${random() % OTHERS}`,
    file_name: file,
    source,
    destination,
    source_uri: source,
    destination_uri: destination,
    priority: 'normal',
    notify_on_complete: false,
    retry_of: null,
    metadata: { order: digits(random(), 8), customer: `c${digits(random() % 5_000, 5)}` },
    source_endpoint_id: null,
    destination_endpoint_id: 'end_01J00000000000000000000000',
    created_at,
    estimated_start: created_at,
  };
}

function kindOf(n: number): string {
  if (n % 2 === 0) return 'report';
  if (n % 10 < 5 && n % 5 < 4) return 'invoice';
  if (n % 100 === 5) return 'payroll';
  if (n % 1_000 === 7) return 'audit';
  if (n % 10_000 === 9) return 'zebra';
  return 'statement';
}

/** Returns a source of numbers that depend on `seed` alone (mulberry32). */
function scatter(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

function pick(values: readonly string[], n: number): string {
  return values[n % values.length] as string;
}

function digits(n: number, length: number): string {
  return String(n).padStart(length, '0').slice(-length);
}

function ulidOf(at: number, random: () => number): string {
  let time = '';
  for (let rest = at, i = 0; i < 10; i++, rest = Math.floor(rest / 32))
    time = BASE32[rest % 32] + time;
  return `txr_${time}${Array.from({ length: 16 }, () => BASE32[random() % 32]).join('')}`;
}
