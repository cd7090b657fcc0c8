import { type Damage, forge, repeatEnd, sql, streamOf } from './damage.ts';

export const LOG_DAMAGES: Damage[] = [
  {
    what: 'an event within a stream is removed',
    finds: 'log.revisions',
    names: (run) => run.ids.plain,
    tables: (run) =>
      sql(run)`delete from log.events where stream = ${streamOf(run.ids.plain)} and revision = 1`,
  },
  {
    what: 'the last event of a transfer is removed',
    finds: 'transfers.end',
    names: (run) => run.ids.plain,
    tables: (run) =>
      sql(run)`delete from log.events where stream = ${streamOf(run.ids.plain)} and revision = 3`,
  },
  {
    what: 'all events of a transfer are removed',
    finds: 'transfers.once',
    names: (run) => run.ids.plain,
    tables: (run) => sql(run)`delete from log.events where stream = ${streamOf(run.ids.plain)}`,
  },
  {
    what: 'the last event of the log is removed',
    finds: 'log.positions',
    names: () => 'log.head',
    tables: (run) =>
      sql(run)`delete from log.events where position = (select max(position) from log.events)`,
  },
  {
    what: 'an event is removed between others',
    finds: 'log.positions',
    names: () => 'position 8',
    tables: (run) => sql(run)`delete from log.events where position = 7`,
  },
  {
    what: 'two endpoints are configured under one name',
    finds: 'log.names',
    names: () => 'end_',
    tables: (run) => sql(run)`
          update log.events set data = regexp_replace(data, '"name":"[^"]*"', '"name":"same"')
           where type = 'endpoint.configured'`,
  },
  {
    what: 'the data of an event is changed',
    finds: 'log.chain',
    names: (run) => run.ids.plain,
    tables: (run) =>
      sql(run)`
        update log.events set data = replace(data, 'normal', 'high')
         where stream = ${streamOf(run.ids.plain)}`,
  },
  {
    what: 'the metadata of an event is changed',
    finds: 'log.chain',
    names: (run) => run.ids.plain,
    tables: (run) =>
      sql(run)`
        update log.events set metadata = replace(metadata, 'key:', 'cli:')
         where stream = ${streamOf(run.ids.plain)}`,
  },
  {
    what: 'the data of an event is changed with all later hashes: the tables reveal it',
    finds: 'read.transfers',
    names: (run) => run.ids.plain,
    tables: (run) =>
      forge(sql(run), run.ids.plain, 'transfer.created', (data) =>
        Object.assign(data, { priority: 'high' }),
      ),
  },
  {
    what: 'the checksum of the last event is changed: the source reveals it',
    finds: 'transfers.outcome',
    names: (run) => run.ids.plain,
    tables: (run) =>
      forge(sql(run), run.ids.plain, 'transfer.completed', (data) =>
        Object.assign(data, { checksum_sha256: 'f'.repeat(64) }),
      ),
  },
  {
    what: 'a retry has other metadata than its original',
    finds: 'transfers.retry',
    names: (run) => run.ids.retried,
    tables: (run) =>
      forge(sql(run), run.ids.retried, 'transfer.created', (data) =>
        Object.assign(data, { metadata: { order: 'another' } }),
      ),
  },
  {
    what: 'a retry repeats a transfer that did not fail',
    finds: 'transfers.retry',
    names: (run) => run.ids.retried,
    tables: (run) =>
      forge(sql(run), run.ids.retried, 'transfer.created', (data) =>
        Object.assign(data, { retry_of: run.ids.plain }),
      ),
  },
  {
    what: 'two events of a stream have their ids exchanged',
    finds: 'log.ids',
    names: (run) => run.ids.plain,
    tables: (run) => sql(run)`
          update log.events a set id = b.id from log.events b
           where a.stream = ${streamOf(run.ids.plain)} and b.stream = a.stream
             and a.revision + b.revision = 3`,
  },
  {
    what: 'an event was changed with its whole chain after it was signed',
    finds: 'log.checkpoints',
    names: () => 'log-checkpoints',
    tables: (run) =>
      forge(sql(run), run.ids.plain, 'transfer.created', (data) =>
        Object.assign(data, { metadata: { forged: 'yes' } }),
      ),
  },
  {
    what: 'a transfer ends twice',
    finds: 'log.order',
    names: (run) => run.ids.plain,
    tables: (run) => repeatEnd(sql(run), run.ids.plain),
  },
  {
    what: 'a transfer of a batch is gone',
    finds: 'batches.transfers',
    names: (run) => run.batchId,
    tables: (run) => sql(run)`
          delete from log.events where type like 'transfer.%' and stream =
            (select stream from log.events where type = 'transfer.created'
                and data::json ->> 'batch_id' = ${run.batchId} limit 1)`,
  },
  {
    what: 'a batch ends with other counts than its transfers have',
    finds: 'batches.counts',
    names: (run) => run.batchId,
    tables: (run) => sql(run)`
          update log.events set data = replace(data, '"completed":2', '"completed":1')
           where type = 'batch.completed' and stream = ${`waybill_batch-${run.batchId}`}`,
  },
  {
    what: 'a run of a flow ends otherwise than its batch',
    finds: 'log.order',
    names: (run) => run.flowId,
    tables: (run) => sql(run)`
          update log.events set data = replace(data, '"completed":1', '"completed":0')
           where type = 'flow.run_completed'`,
  },
  {
    what: 'a flow takes a version of a file twice',
    finds: 'flows.files',
    names: (run) => run.flowId,
    tables: (run) => sql(run)`
          update log.events
             set data = jsonb_set(data::jsonb, '{items}',
                                  (data::jsonb -> 'items') || (data::jsonb -> 'items'))::text
           where type = 'batch.listed' and data like '%"version"%'`,
  },
  {
    what: 'another source was deleted than the one that was copied',
    finds: 'log.order',
    names: (run) => run.ids.deleted,
    tables: (run) =>
      forge(sql(run), run.ids.deleted, 'transfer.source_deleted', (data) =>
        Object.assign(data, { source_file: { size_bytes: 1, version: '1' } }),
      ),
  },
  {
    what: 'a source was not deleted after its transfer',
    finds: 'transfers.after',
    names: (run) => run.ids.deleted,
    tables: (run) => sql(run)`
          delete from log.events where type = 'transfer.source_deleted'`,
  },
  {
    what: 'a stream of accesses has an event that is none',
    finds: 'log.order',
    names: () => 'access-acs_1',
    tables: (run) => sql(run)`
          update log.events set stream = 'waybill_access-acs_1'
           where position =
             (select min(position) from log.events where type = 'endpoint_name.claimed')`,
  },
];
