import type { Sql } from '../../src/adapters/postgres/connect.ts';
import type { TransferEvent } from '../../src/domain/transfer.ts';

/**
 * Transfers whose histories interleave. The events of one transfer are this many positions apart.
 */
const ABREAST = 64;
const SECONDS_APART = 10;
const PER_INSERT = 50_000;

const ID = 'TRANSFER_ID';
const TIME = 'OCCURRED_AT';
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

/**
 * Appends the histories of completed transfers to an otherwise idle log and returns the number of
 * events: `events`, rounded up to whole blocks of histories. They are as the service writes them,
 * except for the hash chains, which nothing here checks.
 */
export async function writeHistories(sql: Sql, prefix: string, events: number): Promise<number> {
  const [head] = await sql<{ position: bigint }[]>`select position from log.head`;
  const first = Number(head?.position) + 1;
  const blocks = Math.ceil(events / HISTORY.length / ABREAST);
  const total = blocks * ABREAST * HISTORY.length;
  const metadata = JSON.stringify({
    account_id: 'acc_default',
    actor: 'mover:bench:1',
    causation_id: null,
    correlation_id: 'clm_01J00000000000000000000000',
    occurred_at: TIME,
    prev_hash: 'd'.repeat(64),
  });
  for (let from = 0; from < total; from += PER_INSERT) {
    const to = Math.min(total, from + PER_INSERT) - 1;
    await sql`
      insert into log.events (position, stream, revision, id, type, schema_version, data, metadata)
      select ${first}::bigint + n, ${prefix}::text || 'transfer-' || transfer_id, revision,
             'evt_' || lpad((${first}::bigint + n)::text, 26, '0'),
             (${HISTORY.map(({ type }) => type)}::text[])[revision + 1], 1,
             replace(replace((${HISTORY.map(({ data }) => JSON.stringify(data))}::text[])[revision + 1], ${ID}, transfer_id), ${TIME}, time),
             replace(${metadata}, ${TIME}, time)
        from (
          select n, revision, 'txr_' || lpad(transfer::text, 26, '0') as transfer_id,
                 to_char(timestamp '2026-01-01' + (transfer * ${SECONDS_APART} + revision) * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as time
            from (
              select n, n / ${ABREAST} % ${HISTORY.length} as revision,
                     n / ${ABREAST * HISTORY.length} * ${ABREAST} + n % ${ABREAST} as transfer
                from generate_series(${from}::bigint, ${to}::bigint) n) place
        ) event`;
  }
  await sql`update log.head set position = ${first + total - 1}`;
  await sql`vacuum analyze log.events`;
  return total;
}
