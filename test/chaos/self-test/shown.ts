import { type Damage, sql } from './damage.ts';
import type { SmallRun } from './small-run.ts';

function addJob(run: SmallRun) {
  return sql(run)`
    insert into work.transfer_jobs (transfer_id, account_id, status, revision, priority, rank,
        due_at, source, destination,
                                    destination_endpoint_id, claim_id, claimed_by, lease_until)
    values (${run.ids.plain}, 'acc_default', 'in_progress', 2, 'normal', now(), now(),
            'sftp://source/a', 'sftp://destination/a',
            'end_1', 'clm_left', 'mover-1', now() - interval '1 minute')`;
}

export const SHOWN_DAMAGES: Damage[] = [
  {
    what: 'a row of the read model differs in its state',
    finds: 'read.transfers',
    names: (run) => run.ids.plain,
    tables: (run) => sql(run)`
          update read.transfers
             set state = replace(state::text, '"retry_count":0', '"retry_count":1')::json
           where transfer_id = ${run.ids.plain}`,
  },
  {
    what: 'the counts behind the totals of the API are wrong',
    finds: 'api.totals',
    names: () => 'completed',
    tables: (run) =>
      sql(
        run,
      )`update read.transfer_counts set transfers = transfers - 1 where status = 'completed'`,
  },
  {
    what: 'a row of the read model has an older revision',
    finds: 'read.transfers',
    names: (run) => run.ids.plain,
    tables: (run) =>
      sql(run)`update read.transfers set revision = 2 where transfer_id = ${run.ids.plain}`,
  },
  {
    what: 'a transfer is not in the list',
    finds: 'api.list',
    names: () => 'offset',
    tables: (run) => sql(run)`delete from read.transfers where transfer_id = ${run.ids.plain}`,
  },
  {
    what: 'a transfer is searched by another text',
    finds: 'read.transfer_search',
    names: (run) => run.ids.plain,
    tables: (run) =>
      sql(run)`
        update read.transfer_search set text = text || 'x' where transfer_id = ${run.ids.plain}`,
  },
  {
    what: 'a search does not find a transfer',
    finds: 'read.transfer_search',
    names: (run) => run.ids.plain,
    tables: (run) =>
      sql(run)`delete from read.transfer_search where transfer_id = ${run.ids.plain}`,
  },
  {
    what: 'an event is not in the audit log',
    finds: 'read.audit',
    names: () => 'evt_',
    tables: (run) => sql(run)`delete from read.audit where type = 'endpoint.configured'`,
  },
  {
    what: 'an event of the audit log has another actor',
    finds: 'read.audit',
    names: () => 'evt_',
    tables: (run) =>
      sql(run)`update read.audit set actor = 'cli:nobody' where type = 'endpoint.configured'`,
  },
  {
    what: 'a count by hour is wrong',
    finds: 'read.transfer_counts',
    names: () => 'failed',
    tables: (run) =>
      sql(run)`update read.transfer_counts set transfers = transfers + 1 where status = 'failed'`,
  },
  {
    what: 'a total is wrong',
    finds: 'read.transfer_totals',
    names: () => 'completed',
    tables: (run) =>
      sql(
        run,
      )`update read.transfer_totals set transfers = transfers - 1 where status = 'completed'`,
  },
  {
    what: 'an endpoint is shown with other settings',
    finds: 'read.endpoints',
    names: () => 'end_',
    tables: (run) =>
      sql(
        run,
      )`update read.endpoints set state = state || '{"overwrite": true}' where name = 'careful'`,
  },
  {
    what: 'a key is shown with other scopes',
    finds: 'read.keys',
    names: () => 'key_',
    tables: (run) => sql(run)`update read.keys set scopes = '{}'`,
  },
  {
    what: 'a webhook is shown with other events',
    finds: 'api.webhooks',
    names: (run) => run.webhooks.ends,
    tables: (run) =>
      sql(run)`
        update read.webhooks set state = state || '{"events": []}'
         where webhook_id = ${run.webhooks.ends}`,
  },
  {
    what: 'a projection has stopped before the end',
    finds: 'read.checkpoints',
    names: () => 'transfers',
    tables: (run) =>
      sql(run)`update read.checkpoints set position = position - 5 where name = 'transfers'`,
  },
  {
    what: 'a process ended by itself',
    finds: 'processes',
    names: () => 'mover-1',
    evidence: ({ exits }) =>
      Object.assign(exits[0] ?? {}, { expected: false, code: 1, signal: null }),
  },
  {
    what: 'a claim of an ended transfer is left',
    finds: 'work.transfer_jobs',
    names: (run) => run.ids.plain,
    tables: (run) => addJob(run),
  },
  {
    what: 'a clean-up is pending',
    finds: 'work.cleanups',
    names: (run) => run.ids.missing,
    tables: (run) => sql(run)`
          insert into work.cleanups (transfer_id, account_id, destination)
          values (${run.ids.missing}, 'acc_default', 'sftp://destination/in/missing')`,
  },
  {
    what: 'a claim of a delivery is left',
    finds: 'work.pending_deliveries',
    names: () => 'dlv_',
    tables: (run) =>
      sql(run)`
        insert into work.pending_deliveries
          (delivery_id, webhook_id, event_id, claim_id, lease_until)
        select id, webhook_id, event_id, 'clm_left', now() from work.deliveries
         where webhook_id = ${run.webhooks.dead}`,
  },
  {
    what: 'a delivered delivery is still to be sent',
    finds: 'work.pending_deliveries',
    names: () => 'dlv_',
    tables: (run) =>
      sql(run)`
        insert into work.pending_deliveries (delivery_id, webhook_id, event_id)
        select id, webhook_id, event_id from work.deliveries where status = 'delivered' limit 1`,
  },
  {
    what: 'the API does not answer',
    finds: 'api',
    names: () => 'the check itself',
    evidence: ({ run }) => Object.assign(run, { apiUrl: 'http://127.0.0.1:1' }),
  },
];
