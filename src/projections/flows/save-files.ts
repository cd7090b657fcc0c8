import type { Transaction } from '../../adapters/postgres/connect.ts';
import { type BatchListed, isRejected } from '../../domain/batches/batch.ts';
import { transferIdOf } from '../../domain/batches/items.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream } from '../../domain/events/streams.ts';
import { type FilesSkipped, fileKey } from '../../domain/flows/flow.ts';

interface FileRow {
  flow_id: string | null;
  batch_id: string | null;
  file_key: string;
  source_uri: string;
  version: string;
  item: number | null;
  transfer_id: string | null;
  error: object | null;
  attempts: number;
  taken_at: string;
  position: string;
}

/** Saves the versions of files that flows skip. */
export async function saveSkipped(
  tx: Transaction,
  schema: string,
  events: StoredEvent[],
): Promise<void> {
  const rows = events
    .filter(({ type }) => type === 'flow.files_skipped')
    .flatMap(({ stream, data, position }) => {
      const { files, skipped_at } = data as FilesSkipped;
      return files.map(({ source_uri, version }) => ({
        flow_id: parseStream(stream).id,
        file_key: fileKey(source_uri, version),
        source_uri,
        version,
        attempts: 0,
        taken_at: skipped_at,
        position: String(position),
      }));
    });
  if (rows.length === 0) return;
  await tx`
    insert into ${tx(schema)}.flow_files
      (flow_id, file_key, source_uri, version, attempts, taken_at, position)
    select * from jsonb_to_recordset(${tx.json(rows)})
      as r(flow_id text, file_key text, source_uri text, version text, attempts integer,
           taken_at timestamptz, position bigint)
    on conflict do nothing`;
}

/** Saves the versions of files that runs take: the items of their batches. */
export async function saveTakenFiles(
  tx: Transaction,
  schema: string,
  events: StoredEvent[],
): Promise<void> {
  const rows = new Map<string, FileRow>();
  for (const event of events) {
    if (event.type !== 'batch.listed') continue;
    for (const row of takenIn(event)) {
      const key = `${row.batch_id} ${row.file_key}`;
      rows.set(key, { ...row, attempts: (rows.get(key)?.attempts ?? 0) + 1 });
    }
  }
  if (rows.size === 0) return;
  await tx`
    with taken as (
      select flow_id, file_key, source_uri, version, run_id, item, transfer_id, error,
             sum(attempts) over of_file as attempts, taken_at, r.position,
             row_number() over (of_file order by r.position desc, item desc) as place
        from jsonb_to_recordset(${tx.json([...rows.values()] as never)})
          as r(batch_id text, file_key text, source_uri text, version text, item integer,
               transfer_id text, error jsonb, attempts integer, taken_at timestamptz,
               position bigint)
        join (select batch_id, flow_id, run_id from ${tx(schema)}.flow_runs) runs using (batch_id)
      window of_file as (partition by flow_id, file_key)
    )
    insert into ${tx(schema)}.flow_files as f
      (flow_id, file_key, source_uri, version, run_id, item, transfer_id, error, attempts,
       taken_at, position)
    select flow_id, file_key, source_uri, version, run_id, item, transfer_id, error, attempts,
           taken_at, position
      from taken where place = 1
    on conflict (flow_id, file_key) do update set
      run_id = excluded.run_id, item = excluded.item, transfer_id = excluded.transfer_id,
      error = excluded.error, attempts = f.attempts + excluded.attempts,
      taken_at = excluded.taken_at, position = excluded.position`;
}

/** Returns the files that a page of a flow's batch takes. Other batches have no versions. */
function takenIn({ stream, data, position }: StoredEvent): FileRow[] {
  const { first, items, listed_at } = data as BatchListed;
  const batchId = parseStream(stream).id;
  return items.flatMap((item, i) => {
    const { source_uri, version } = item;
    if (version === undefined) return [];
    return {
      flow_id: null,
      batch_id: batchId,
      file_key: fileKey(source_uri, version),
      source_uri,
      version,
      item: first + i,
      transfer_id: isRejected(item) ? null : transferIdOf(batchId, first + i),
      error: isRejected(item) ? item.error : null,
      attempts: 1,
      taken_at: listed_at,
      position: String(position),
    };
  });
}
