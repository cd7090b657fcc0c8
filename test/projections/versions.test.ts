import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { AccessEvent } from '../../src/domain/access.ts';
import type { BatchEvent } from '../../src/domain/batches/batch.ts';
import type { EndpointEvent } from '../../src/domain/endpoints/endpoint.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import { CHECKPOINTS, RETENTION, SIGNING_KEYS } from '../../src/domain/events/streams.ts';
import type { FlowEvent } from '../../src/domain/flows/flow.ts';
import type { KeyEvent } from '../../src/domain/key.ts';
import { createFrontier } from '../../src/domain/proof/frontier.ts';
import { leafHash } from '../../src/domain/proof/hash.ts';
import { leafOf } from '../../src/domain/proof/leaf.ts';
import type { CheckpointEvent } from '../../src/domain/proof/signed-checkpoint.ts';
import type { SigningKeyEvent } from '../../src/domain/proof/signing-key.ts';
import type { RetentionEvent } from '../../src/domain/retention.ts';
import type { TransferCreated, TransferEvent } from '../../src/domain/transfers/transfer.ts';
import type { WebhookEvent } from '../../src/domain/webhook.ts';
import type { Projection } from '../../src/projections/projection.ts';
import { PROJECTIONS } from '../../src/projections/read-models.ts';
import { createLog } from '../support/domain/histories.ts';
import {
  AFTER_EVENTS,
  BATCH_ITEM,
  batchCompleted,
  batchCreated,
  batchListed,
  endpointConfigured,
  flowCreated,
  keyCreated,
  LISTING_ERROR,
  REJECTED,
  RUN_COMPLETED,
  RUN_STARTED,
  started,
  T1,
  T2,
  TRANSFER_EVENTS,
  transferCreated,
  webhookRegistered,
} from '../support/domain/samples.ts';
import { createTestDatabase, describeWithPostgres } from '../support/postgres/test-database.ts';

const FOLDER = join(import.meta.dirname, 'folds');

type DomainEvent =
  | TransferEvent
  | BatchEvent
  | FlowEvent
  | EndpointEvent
  | KeyEvent
  | WebhookEvent
  | AccessEvent
  | SigningKeyEvent
  | CheckpointEvent
  | RetentionEvent;

/** Every event that a fold may meet. The compiler requires an entry for a new one. */
const TYPES = {
  'transfer.created': true,
  'transfer.queued': true,
  'transfer.in_progress': true,
  'transfer.completed': true,
  'transfer.failed': true,
  'transfer.cancelled': true,
  'transfer.priority_changed': true,
  'transfer.marker_written': true,
  'transfer.marker_failed': true,
  'transfer.source_deleted': true,
  'transfer.source_moved': true,
  'transfer.source_kept': true,
  'batch.created': true,
  'batch.listed': true,
  'batch.opened': true,
  'batch.cancelled': true,
  'batch.completed': true,
  'flow.created': true,
  'flow.updated': true,
  'flow.paused': true,
  'flow.resumed': true,
  'flow.removed': true,
  'flow.files_skipped': true,
  'flow.run_requested': true,
  'flow.run_empty': true,
  'flow.run_started': true,
  'flow.run_listed': true,
  'flow.run_completed': true,
  'flow.run_failed': true,
  'flow.recovered': true,
  'endpoint.configured': true,
  'endpoint.updated': true,
  'endpoint.credentials_replaced': true,
  'endpoint.paused': true,
  'endpoint.resumed': true,
  'endpoint.removed': true,
  'endpoint.connectivity_lost': true,
  'endpoint.connectivity_restored': true,
  'endpoint.host_key_announced': true,
  'key.created': true,
  'key.revoked': true,
  'key.expiring_soon': true,
  'webhook.registered': true,
  'webhook.updated': true,
  'webhook.secret_rotated': true,
  'webhook.removed': true,
  'access.exported': true,
  'access.history_read': true,
  'access.receipt_read': true,
  'access.sign_in_failed': true,
  'log.key_created': true,
  'log.key_rotated': true,
  'log.checkpoint_signed': true,
  'log.retention_recorded': true,
  'log.retention_completed': true,
} satisfies Record<DomainEvent['type'], true>;

interface Recording {
  events: StoredEvent[];
  tables: Record<string, { columns: unknown[]; rows: unknown[] }>;
}

describeWithPostgres('the version of a projection', () => {
  it.each(Object.values(PROJECTIONS))('of $name rises with its fold', async (projection) => {
    const file = join(FOLDER, `${projection.name}.v${projection.version}.json`);
    if (!existsSync(file)) await record(projection, file);
    const { events, tables } = revive(await readFile(file, 'utf8'));
    expect(
      await fold(projection, events),
      `The fold or the tables of ${projection.name} changed. Raise its version in ` +
        'src/projections, ' +
        'and record it: RECORD_FOLDS=1 npx vitest run test/projections/versions.test.ts',
    ).toEqual(tables);
  });

  it('is checked with every type of event', async () => {
    const recorded = new Set<string>();
    for (const { name, version } of Object.values(PROJECTIONS)) {
      const text = await readFile(join(FOLDER, `${name}.v${version}.json`), 'utf8');
      for (const { type } of revive(text).events) recorded.add(type);
    }
    expect([...recorded].sort()).toEqual(Object.keys(TYPES).sort());
  });
});

/** Never overwrites a recording: it shows the results of the projection at that version. */
async function record(projection: Projection, file: string): Promise<void> {
  if (process.env.RECORD_FOLDS !== '1') {
    throw new Error(
      `${file} is missing. Record it: RECORD_FOLDS=1 npx vitest run test/projections/versions.test.ts`,
    );
  }
  const events = history().filter(({ stream }) =>
    projection.streams.some((start) => stream.startsWith(start)),
  );
  const recording: Recording = { events, tables: await fold(projection, events) };
  await mkdir(FOLDER, { recursive: true });
  await writeFile(
    file,
    `${JSON.stringify(recording, (_, value) => (typeof value === 'bigint' ? String(value) : value), 1)}\n`,
  );
}

function revive(text: string): Recording {
  const { events, tables } = JSON.parse(text) as Recording;
  return { events: events.map((e) => ({ ...e, position: BigInt(e.position) })), tables };
}

async function fold(projection: Projection, events: StoredEvent[]): Promise<Recording['tables']> {
  const database = await createTestDatabase();
  try {
    return await database.sql.begin(async (tx) => {
      await tx`create schema folded`;
      await projection.create(tx, 'folded');
      for (const index of projection.indexes?.(tx, 'folded') ?? []) await index;
      await projection.apply(tx, 'folded', events);
      const tables: Recording['tables'] = {};
      for (const table of projection.tables) {
        const columns = await tx<{ column: string }[]>`
          select column_name || ' ' || data_type as column from information_schema.columns
           where table_schema = 'folded' and table_name = ${table} order by 1`;
        const rows = await tx<{ row: string }[]>`
          select to_jsonb(t)::text as row from folded.${tx(table)} t order by 1`;
        tables[table] = {
          columns: columns.map(({ column }) => column),
          rows: rows.map(({ row }) => JSON.parse(row)),
        };
      }
      return tables;
    });
  } finally {
    await database.drop();
  }
}

function history(): StoredEvent[] {
  const log = createLog();
  const append = (stream: string, ...events: DomainEvent[]) => {
    for (const event of events) log.append(stream, event);
  };
  const { admitted, retry, lost, completed, failed, cancelled, priority } = TRANSFER_EVENTS;
  const start = { type: 'transfer.in_progress', data: started() } as const;
  const transfer = (id: string, more: Partial<TransferCreated> = {}) => {
    append(id, {
      type: 'transfer.created',
      data: transferCreated({ transfer_id: id.slice('transfer-'.length), ...more }),
    });
    return id;
  };
  append(transfer('transfer-txr_1'), admitted, start, retry, start, lost, start, completed);
  append(transfer('transfer-txr_2'), admitted, start, failed);
  append(transfer('transfer-txr_3'), cancelled);
  append(transfer('transfer-txr_4'), priority);
  transfer('transfer-txr_5', { retry_of: 'txr_2' });
  append(transfer('transfer-txr_6', { batch_id: 'bat_1' }), admitted, start, completed);
  append(transfer('transfer-txr_7', { batch_id: 'bat_1' }), admitted, start);
  append(transfer('transfer-txr_11', { source_endpoint_id: 'end_old' }), admitted, start);
  const { versioned, marked, unmarked, deleted, moved, kept } = AFTER_EVENTS;
  const marker = { destination_marker: '.done' };
  const moving = { move_to: 'processed/' };
  const ended = [admitted, start, versioned] as const;
  append(transfer('transfer-txr_8', { after: { ...marker, source: 'delete' } }), ...ended);
  append('transfer-txr_8', marked, deleted);
  append(transfer('transfer-txr_9', { after: { ...marker, source: moving } }), ...ended);
  append('transfer-txr_9', unmarked, kept);
  append(transfer('transfer-txr_10', { after: { destination_marker: null, source: moving } }));
  append('transfer-txr_10', ...ended, moved);

  const listed = {
    type: 'batch.listed',
    data: batchListed({ items: [BATCH_ITEM, REJECTED] }),
  } as const;
  append('batch-bat_1', { type: 'batch.created', data: batchCreated() }, listed);
  append('batch-bat_1', { type: 'batch.opened', data: { opened_at: T1 } }, batchCompleted());
  append('batch-bat_2', { type: 'batch.created', data: batchCreated({ batch_id: 'bat_2' }) });
  append('batch-bat_2', { type: 'batch.cancelled', data: { cancelled_at: T1 } });

  appendFlows(append);

  const endpoint = endpointConfigured();
  const { max_connections, accounts, overwrite, settings } = endpoint;
  const { endpoint_id, name } = endpoint;
  append(
    'endpoint-end_1',
    { type: 'endpoint.configured', data: endpoint },
    { type: 'endpoint.updated', data: { max_connections: 2, accounts, overwrite, settings } },
    {
      type: 'endpoint.credentials_replaced',
      data: { credentials_record: 'vlt_2', sign_in: 'password' },
    },
    { type: 'endpoint.paused', data: {} },
    {
      type: 'endpoint.connectivity_lost',
      data: {
        endpoint_id,
        name,
        protocol: 'sftp',
        host: 'files.example.com',
        last_success_at: null,
        detected_at: T1,
        error: { code: 'timeout', message: 'no answer' },
      },
    },
    {
      type: 'endpoint.host_key_announced',
      data: {
        endpoint_id,
        name,
        sha256: `SHA256:${'b'.repeat(43)}`,
        key_type: 'ssh-ed25519',
        verified_by: `SHA256:${'a'.repeat(43)}`,
        announced_at: T1,
      },
    },
  );
  append(
    'endpoint-end_2',
    { type: 'endpoint.configured', data: endpointConfigured({ name: 'other', max_connections }) },
    { type: 'endpoint.paused', data: {} },
    { type: 'endpoint.resumed', data: {} },
    { type: 'endpoint.connectivity_restored', data: { restored_at: T1 } },
    { type: 'endpoint.removed', data: {} },
  );
  append(
    'key-key_1',
    { type: 'key.created', data: keyCreated() },
    {
      type: 'key.expiring_soon',
      data: { key_id: 'key_1', name: 'ci', expires_at: T1, days_remaining: 3 },
    },
    { type: 'key.revoked', data: { revoked_at: T1 } },
  );
  append(
    'webhook-whk_1',
    { type: 'webhook.registered', data: webhookRegistered() },
    { type: 'webhook.updated', data: { enabled: false, updated_at: T1 } },
    {
      type: 'webhook.secret_rotated',
      data: {
        secret_record: 'vlt_2',
        previous_secret_record: 'vlt_1',
        previous_until: T1,
        rotated_at: T1,
      },
    },
  );
  append(
    'webhook-whk_2',
    { type: 'webhook.registered', data: webhookRegistered() },
    { type: 'webhook.removed', data: { removed_at: T1 } },
  );
  append(
    'access-acs_1',
    { type: 'access.exported', data: { export: 'log', parameters: { from: '13' } } },
    { type: 'access.history_read', data: { transfer_id: 'txr_1' } },
    { type: 'access.receipt_read', data: { transfer_id: 'txr_1' } },
    {
      type: 'access.sign_in_failed',
      data: {
        address: '198.51.100.7',
        failures: 2,
        reasons: { api_key_revoked: 2 },
        key_ids: ['key_1'],
        first_at: T1,
        last_at: T1,
      },
    },
  );

  const key = {
    key_id: '0a1b2c3d',
    public_key: 'PEM',
    key_record: 'vlt_3',
    since: T1,
    statement: 'a note',
  };
  append(
    SIGNING_KEYS,
    { type: 'log.key_created', data: key },
    {
      type: 'log.key_rotated',
      data: { ...key, key_id: '4e5f6071', previous_key_id: '0a1b2c3d', signed_by_previous: true },
    },
  );
  const tree = createFrontier();
  for (const event of log.events) tree.append(leafHash(leafOf(event)));
  append(CHECKPOINTS, {
    type: 'log.checkpoint_signed',
    data: {
      size: tree.size(),
      root_hash: Buffer.from(tree.root()).toString('hex'),
      key_id: '4e5f6071',
      note: 'a note',
      signed_at: T1,
    },
  });
  const gone = log.events.filter(({ stream }) => stream === 'transfer-txr_3');
  const [created] = gone.map(({ data }) => data as TransferCreated);
  append(
    RETENTION,
    {
      type: 'log.retention_recorded',
      data: {
        ended_before: T2,
        export: { name: 'waybill-before-2026-01-31.ndjson', sha256: '0'.repeat(64) },
        checkpoint: { size: tree.size(), root_hash: Buffer.from(tree.root()).toString('hex') },
        transfers: [
          {
            transfer_id: 'txr_3',
            account_id: created?.account_id ?? '',
            events: gone.map((event) => ({
              id: event.id,
              index: log.events.indexOf(event),
              position: String(event.position),
              hash: Buffer.from(leafHash(leafOf(event))).toString('hex'),
            })),
          },
        ],
      },
    },
    { type: 'log.retention_completed', data: { completed_at: T2 } },
  );
  return log.events;
}

/**
 * A flow with a run that takes two files, one of them twice, and what else can happen to a flow.
 */
function appendFlows(append: (stream: string, ...events: DomainEvent[]) => void): void {
  const { run_id, batch_id } = RUN_STARTED;
  const empty = { run_id: 'run_2', error: null, ended_at: T2 };
  const { flow_id, name } = RUN_COMPLETED;
  append(
    'flow-flo_1',
    { type: 'flow.created', data: flowCreated({ start: 'new_only' }) },
    {
      type: 'flow.files_skipped',
      data: {
        files: [{ source_uri: 'sftp://from/out/old.csv', version: '1 T0' }],
        through: 'old.csv',
        last: true,
        skipped_at: T1,
      },
    },
    { type: 'flow.run_started', data: RUN_STARTED },
  );
  append(
    'batch-bat_3',
    {
      type: 'batch.created',
      data: batchCreated({ batch_id, source: { type: 'flow', flow_id, run_id } }),
    },
    {
      type: 'batch.listed',
      data: batchListed({
        items: [
          { ...BATCH_ITEM, version: '2 T1' },
          { ...REJECTED, version: '3 T1' },
          { ...BATCH_ITEM, version: '2 T1', retry_of: 'txr_0' },
        ],
      }),
    },
  );
  append(
    'flow-flo_1',
    { type: 'flow.run_listed', data: { run_id, listed_at: T1 } },
    {
      type: 'flow.run_failed',
      data: { flow_id, name, run_id, error: LISTING_ERROR, failed_at: T1 },
    },
    { type: 'flow.run_completed', data: RUN_COMPLETED },
    { type: 'flow.recovered', data: { flow_id, name, failed_since: T1, recovered_at: T2 } },
    { type: 'flow.run_requested', data: { run_id: 'run_2', requested_at: T1 } },
    { type: 'flow.run_empty', data: empty },
    { type: 'flow.paused', data: { paused_at: T1 } },
    { type: 'flow.updated', data: { trigger: null, updated_at: T1 } },
    { type: 'flow.resumed', data: { resumed_at: T2 } },
  );
  append(
    'flow-flo_2',
    { type: 'flow.created', data: flowCreated({ flow_id: 'flo_2', enabled: false }) },
    {
      type: 'flow.run_failed',
      data: { flow_id: 'flo_2', name, run_id: 'run_3', error: LISTING_ERROR, failed_at: T1 },
    },
    { type: 'flow.removed', data: { removed_at: T2 } },
  );
}
