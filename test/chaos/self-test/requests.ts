import type { Evidence } from '../checker/evidence-files.ts';
import type { VersionRecord } from '../evidence.ts';
import { type Damage, drop, sql } from './damage.ts';

type Create = Extract<Evidence['requests'][number], { kind: 'create' }>;

const ASKED = { sentAt: '', answeredAt: '', status: 200, account: 'acc_default', names: [] };
const CANCEL = { ...ASKED, kind: 'cancel' } as const;
const LIST = { ...ASKED, kind: 'other', what: 'list' } as const;

function creates({ requests }: Evidence): Create[] {
  return requests.filter((request) => request.kind === 'create') as Create[];
}

export const REQUEST_DAMAGES: Damage[] = [
  {
    what: 'a request was answered with 500',
    finds: 'api.statuses',
    names: () => 'rebuild',
    evidence: ({ requests }) =>
      requests.push({ ...CANCEL, kind: 'other', what: 'rebuild', status: 500 }),
  },
  {
    what: 'a transfer is unknown after its creation was answered',
    finds: 'api.statuses',
    names: (run) => run.ids.plain,
    evidence: ({ requests }, run) =>
      requests.push({ ...CANCEL, kind: 'detail', transferId: run.ids.plain, status: 404 }),
  },
  {
    what: 'an account is shown a transfer of another account',
    finds: 'api.accounts',
    names: () => 'list',
    evidence: ({ requests }, { ids }) =>
      requests.push({ ...LIST, account: 'acc_other', names: [ids.plain] }),
  },
  {
    what: 'an account is shown a batch of another account',
    finds: 'api.accounts',
    names: () => 'list',
    evidence: ({ requests }, { batchId }) =>
      requests.push({ ...LIST, account: 'acc_other', names: [batchId] }),
  },
  {
    what: 'an answer names a flow that is not in the log',
    finds: 'api.accounts',
    names: () => 'list',
    evidence: ({ requests }) =>
      requests.push({ ...LIST, names: ['flo_00000000000000000000000000'] }),
  },
  {
    what: 'an account has changed a transfer of another account',
    finds: 'api.accounts',
    names: () => 'PATCH',
    evidence: ({ requests }, { ids }) =>
      requests.push({ ...ASKED, kind: 'foreign', what: 'PATCH', transferId: ids.plain }),
  },
  {
    what: 'the cancel of a batch was answered, and did not happen',
    finds: 'transfers.cancel',
    names: ({ batchId }) => batchId,
    evidence: ({ requests }, { batchId }) =>
      requests.push({ ...ASKED, kind: 'cancel_batch', batchId }),
  },
  {
    what: 'one key has led to two transfers',
    finds: 'transfers.once',
    names: () => 'key one',
    evidence(evidence, run) {
      const [, again] = creates(evidence).filter(({ idempotencyKey }) => idempotencyKey === 'one');
      Object.assign(again as Create, { transferId: run.ids.first });
    },
  },
  {
    what: 'a key is answered twice as if for the first time',
    finds: 'transfers.once',
    names: () => 'key one',
    evidence: (evidence) => {
      for (const request of creates(evidence)) request.replayed = false;
    },
  },
  {
    what: 'a batch lacks a file that was asked for',
    finds: 'transfers.items',
    names: (run) => run.batchId,
    evidence({ requests }) {
      for (const request of requests)
        if (request.kind === 'create_batch') request.files.push(...request.files.slice(0, 1));
    },
  },
  {
    what: 'a batch was created without a request',
    finds: 'transfers.items',
    names: (run) => run.batchId,
    evidence: ({ requests }) => drop(requests, ({ kind }) => kind === 'create_batch'),
  },
  {
    what: 'a flow has copied another version of a file last',
    finds: 'transfers.versions',
    names: () => 'file.csv',
    evidence: ({ versions }) => versions.push({ ...versions[0], sha256: 'newer' } as VersionRecord),
  },
  {
    what: 'a flow has copied a version that was never written',
    finds: 'transfers.outcome',
    names: () => 'txr_',
    evidence: ({ versions }) => Object.assign(versions[0] as VersionRecord, { size: 1 }),
  },
  {
    what: 'a transfer was created without a request',
    finds: 'transfers.once',
    names: (run) => run.ids.lost,
    evidence: ({ requests }) =>
      drop(requests, (request) => request.kind === 'create' && request.status === null),
  },
  {
    what: 'a transfer was created although its request was rejected',
    finds: 'transfers.once',
    names: (run) => run.ids.lostWithKey,
    evidence(evidence) {
      for (const request of creates(evidence))
        if (request.idempotencyKey === 'two') request.status = 403;
    },
  },
  {
    what: 'a transfer goes elsewhere than its request says',
    finds: 'transfers.once',
    names: (run) => run.ids.plain,
    evidence(evidence, run) {
      for (const request of creates(evidence))
        if (request.transferId === run.ids.plain) request.destination.path = '/in/elsewhere';
    },
  },
  {
    what: 'a transfer failed without a cause',
    finds: 'transfers.outcome',
    names: (run) => run.ids.missing,
    evidence(evidence) {
      for (const request of creates(evidence))
        if (request.file === null) request.file = { size: 1, sha256: 'f'.repeat(64) };
    },
  },
  {
    what: 'a transfer completed without a file at its source',
    finds: 'transfers.outcome',
    names: (run) => run.ids.plain,
    evidence(evidence, run) {
      for (const request of creates(evidence))
        if (request.transferId === run.ids.plain) request.file = null;
    },
  },
  {
    what: 'a cancel was answered, and the transfer completed',
    finds: 'transfers.cancel',
    names: (run) => run.ids.plain,
    evidence: ({ requests }, run) => requests.push({ ...CANCEL, transferId: run.ids.plain }),
  },
  {
    what: 'a transfer was cancelled without a request',
    finds: 'transfers.outcome',
    names: (run) => run.ids.cancelled,
    evidence: ({ requests }) => drop(requests, ({ kind }) => kind === 'cancel'),
  },
  {
    what: 'an answer with a key is not kept',
    finds: 'transfers.once',
    names: () => 'key one',
    tables: (run) => sql(run)`update work.idempotency_keys set status = null where key = 'one'`,
  },
  {
    what: 'a key would lead a repetition to another transfer',
    finds: 'transfers.once',
    names: () => 'key one',
    tables: (run) => sql(run)`
      update work.idempotency_keys
         set reserved = ${run.installation.sql.json({ transferId: run.ids.first })}
       where key = 'one'`,
  },
];
