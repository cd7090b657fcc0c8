import type { EventStore } from '../../src/adapters/event-store/port.ts';
import type { Sql } from '../../src/adapters/postgres/connect.ts';
import { canonicalJson } from '../../src/domain/events/canonical-json.ts';
import { chain } from '../../src/domain/events/chain.ts';
import type { NewEvent } from '../../src/domain/events/event.ts';
import { newId } from '../../src/domain/ids.ts';
import type { TransferEvent } from '../../src/domain/transfers/transfer.ts';

/**
 * Transfers whose histories interleave. The events of one transfer are this many positions apart.
 */
const ABREAST = 64;
const APPENDS_AT_ONCE = 256;
const SECONDS_APART = 10;
const BLOCKS_PER_INSERT = 200;
/** A VACUUM of more than this may take longer than a connection waits for an answer. */
const INSERTS_PER_VACUUM = 10;

const ID = 'TRANSFER_ID';
const TIME = 'OCCURRED_AT';
const HASH = 'PREV_HASH';
const endpoint = (id: string) => ({ id: `end_${id.padEnd(26, '0')}`, revision: 0 });
const source = `sftp://hospital/lab/${ID}.pdf`;
const destination = `sftp://bank/inbox/${ID}.pdf`;

/** The history of a transfer that completes, with placeholders for its id and times. */
const HISTORY: TransferEvent[] = [
  {
    type: 'transfer.created',
    data: {
      transfer_id: ID,
      account_id: 'acc_default',
      file_name: `${ID}.pdf`,
      source,
      destination,
      source_uri: source,
      destination_uri: destination,
      priority: 'normal',
      notify_on_complete: true,
      metadata: { batch: 'nightly', department: 'radiology' },
      source_endpoint_id: endpoint('1').id,
      destination_endpoint_id: endpoint('2').id,
      retry_of: null,
      created_at: TIME,
      estimated_start: TIME,
    },
  },
  { type: 'transfer.queued', data: { reason: 'admitted' } },
  {
    type: 'transfer.in_progress',
    data: {
      claim_id: 'clm_01J00000000000000000000000',
      started_at: TIME,
      source_endpoint: endpoint('1'),
      destination_endpoint: endpoint('2'),
    },
  },
  {
    type: 'transfer.completed',
    data: {
      completed_at: TIME,
      size_bytes: 10_240,
      speed_bps: 81_920_000,
      duration_ms: 40,
      checksum_sha256: 'c'.repeat(64),
      verification: {
        size: true,
        source_unchanged: true,
        destination_checksum: 'none',
        read_back: false,
        atomic_replace: true,
      },
    },
  },
];

const METADATA = {
  account_id: 'acc_default',
  actor: 'mover:bench:1',
  causation_id: null,
  correlation_id: 'clm_01J00000000000000000000000',
  occurred_at: TIME,
  prev_hash: HASH,
};

/** Returns the events of a transfer that completes, as the service writes them. */
export function newHistory(transferId: string): NewEvent[] {
  const now = new Date().toISOString();
  const events = JSON.parse(
    JSON.stringify(HISTORY).replaceAll(ID, transferId).replaceAll(TIME, now),
  ) as TransferEvent[];
  const { account_id, actor, causation_id, correlation_id } = METADATA;
  return chain(events, null, { account_id, actor, causation_id, correlation_id }, { now });
}

/**
 * Appends the histories of completed transfers through an engine, each with one append. Returns the
 * number of events: `events`, rounded up to whole histories.
 */
export async function appendHistories(
  store: Pick<EventStore, 'append'>,
  events: number,
): Promise<number> {
  const left = Array(Math.ceil(events / HISTORY.length)).keys();
  let appended = 0;
  await Promise.all(
    Array.from({ length: APPENDS_AT_ONCE }, async () => {
      for (const _ of left) {
        const transferId = newId('txr');
        await store.append(`transfer-${transferId}`, 'no_stream', newHistory(transferId));
        appended += HISTORY.length;
      }
    }),
  );
  return appended;
}

/** A function of the session: the events of one transfer, each with the hash of the one before. */
const FUNCTION = `
  create function pg_temp.history(
    transfer_id text, begins timestamp, first bigint, types text[], datas text[], metadata_of text
  ) returns table (log_position bigint, revision integer, id text, type text, data text, metadata text)
  language plpgsql as $$
  declare
    prev_hash text := 'null';
    occurred_at text;
  begin
    for n in 1 .. array_length(types, 1) loop
      occurred_at := to_char(begins + (n - 1) * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
      revision := n - 1;
      log_position := first + revision * ${ABREAST};
      id := 'evt_' || lpad(log_position::text, 26, '0');
      type := types[n];
      data := replace(replace(datas[n], '${ID}', transfer_id), '${TIME}', occurred_at);
      metadata := replace(replace(metadata_of, '${TIME}', occurred_at), '"${HASH}"', prev_hash);
      prev_hash := '"' || encode(sha256(convert_to(
        '{"data":' || data || ',"id":"' || id || '","metadata":' || metadata ||
        ',"schema_version":1,"type":"' || type || '"}', 'UTF8')), 'hex') || '"';
      return next;
    end loop;
  end $$`;

/**
 * Appends the histories of completed transfers to an otherwise idle log and returns the number of
 * events: `events`, rounded up to whole blocks of histories. They are as the service writes them.
 */
export async function writeHistories(sql: Sql, prefix: string, events: number): Promise<number> {
  const session = await sql.reserve();
  try {
    await session.unsafe(FUNCTION);
    const [head] = await session<{ position: bigint }[]>`select position from log.head`;
    const first = Number(head?.position) + 1;
    const blocks = Math.ceil(events / HISTORY.length / ABREAST);
    const total = blocks * ABREAST * HISTORY.length;
    for (let from = 0, inserts = 1; from < blocks; from += BLOCKS_PER_INSERT, inserts++) {
      const to = Math.min(blocks, from + BLOCKS_PER_INSERT) - 1;
      await session`
        insert into log.events (position, stream, revision, id, type, schema_version, data, metadata)
        select e.log_position, ${prefix}::text || 'transfer-' || transfer_id, e.revision, e.id, e.type, 1,
               e.data, e.metadata
          from generate_series(${from}::bigint, ${to}::bigint) block,
               generate_series(0, ${ABREAST - 1}::bigint) place,
               lateral (select block * ${ABREAST} + place as transfer) numbered,
               lateral (select 'txr_' || lpad(transfer::text, 26, '0') as transfer_id) named,
               lateral pg_temp.history(
                 transfer_id,
                 timestamp '2026-01-01' + transfer * ${SECONDS_APART} * interval '1 second',
                 ${first}::bigint + block * ${ABREAST * HISTORY.length} + place,
                 ${HISTORY.map(({ type }) => type)}::text[],
                 ${HISTORY.map(({ data }) => canonicalJson(data))}::text[],
                 ${canonicalJson(METADATA)}) e
         order by e.log_position`;
      if (inserts % INSERTS_PER_VACUUM === 0) await session`vacuum log.events`;
    }
    await session`update log.head set position = ${first + total - 1}`;
    await session`vacuum analyze log.events`;
    return total;
  } finally {
    session.release();
  }
}
