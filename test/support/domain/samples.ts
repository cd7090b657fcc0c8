import type {
  BatchCreated,
  BatchEvent,
  BatchItem,
  BatchListed,
  RejectedItem,
} from '../../../src/domain/batches/batch.ts';
import type { EndpointConfigured } from '../../../src/domain/endpoints/endpoint.ts';
import type { FlowCreated, RunCompleted } from '../../../src/domain/flows/flow.ts';
import type { KeyCreated } from '../../../src/domain/key.ts';
import type { SftpSettings } from '../../../src/domain/protocols/sftp.ts';
import { transferError } from '../../../src/domain/transfers/errors.ts';
import type {
  AttemptFigures,
  TransferCreated,
  TransferEvent,
  TransferStarted,
  Verification,
} from '../../../src/domain/transfers/transfer.ts';
import type { WebhookRegistered } from '../../../src/domain/webhook.ts';

export const T0 = '2026-03-01T10:00:00.000Z';
export const T1 = '2026-03-01T10:00:05.000Z';
export const T2 = '2026-03-01T10:01:00.000Z';

export const FIGURES: AttemptFigures = { transferred_bytes: 0, size_bytes: 1000, speed_bps: null };
export const VERIFICATION: Verification = {
  size: true,
  source_unchanged: true,
  destination_checksum: 'none',
  read_back: false,
  atomic_replace: true,
};
/** The end of an attempt that has copied a file, after which its source may be deleted. */
export const COPIED = {
  type: 'completed',
  sizeBytes: 1,
  speedBps: null,
  checksumSha256: 'ab'.repeat(32),
  verification: VERIFICATION,
  sourceVersion: '1772359200',
} as const;

export function transferCreated(changes: Partial<TransferCreated> = {}): TransferCreated {
  return {
    transfer_id: 'txr_01JNQ0000000000000000000T1',
    account_id: 'acc_default',
    file_name: 'a.csv',
    source: 'sftp://from/a.csv',
    destination: 'sftp://to/in/a.csv',
    source_uri: 'sftp://from/a.csv',
    destination_uri: 'sftp://to/in/',
    priority: 'normal',
    notify_on_complete: false,
    metadata: {},
    source_endpoint_id: 'end_1',
    destination_endpoint_id: 'end_2',
    retry_of: null,
    created_at: T0,
    estimated_start: T0,
    ...changes,
  };
}

export function batchCreated(changes: Partial<BatchCreated> = {}): BatchCreated {
  return {
    batch_id: 'bat_1',
    account_id: 'acc_default',
    source: { type: 'items' },
    priority: 'normal',
    metadata: {},
    notify_on_complete: false,
    created_at: T0,
    ...changes,
  };
}

export const BATCH_ITEM: BatchItem = {
  source_uri: 'sftp://from/a.csv',
  destination_uri: 'sftp://to/in/',
  route: 0,
};

export const REJECTED: RejectedItem = {
  source_uri: 'sftp://from/a%0Ab.csv',
  error: { code: 'validation_failed', message: 'must not contain control characters' },
};

export function batchListed(changes: Partial<BatchListed> = {}): BatchListed {
  return {
    first: 0,
    routes: [{ source_endpoint_id: 'end_1', destination_endpoint_id: 'end_2' }],
    items: [BATCH_ITEM],
    through: null,
    last: true,
    listed_at: T0,
    estimated_start: T0,
    ...changes,
  };
}

export function flowCreated(changes: Partial<FlowCreated> = {}): FlowCreated {
  return {
    flow_id: 'flo_1',
    account_id: 'acc_default',
    name: 'orders',
    source: { uri: 'sftp://from/out/', pattern: '*.csv', exclude: [], recursive: false },
    ready: { unchanged_for: '30s' },
    trigger: { every: '5m' },
    destination_uri: 's3://to/in/',
    priority: 'normal',
    metadata: {},
    enabled: true,
    start: 'now',
    created_at: T0,
    ...changes,
  };
}

export const RUN_STARTED = {
  run_id: 'run_1',
  batch_id: 'bat_3',
  reason: 'schedule',
  started_at: T1,
} as const;

export const LISTING_ERROR = {
  code: 'permission_denied',
  message: '/out: permission denied',
  folder: '',
} as const;

export const RUN_COMPLETED: RunCompleted = {
  flow_id: 'flo_1',
  name: 'orders',
  run_id: 'run_1',
  batch_id: 'bat_3',
  status: 'completed_with_failures',
  counts: { files: 2, completed: 1, failed: 1, cancelled: 0 },
  bytes: 1000,
  started_at: T1,
  ended_at: T2,
};

/** The end of a batch of two items, one of which was rejected. */
export function batchCompleted(): Extract<BatchEvent, { type: 'batch.completed' }> {
  return {
    type: 'batch.completed',
    data: {
      batch_id: 'bat_1',
      status: 'completed_with_failures',
      counts: { items: 2, completed: 1, failed: 1, cancelled: 0 },
      bytes: 1000,
      created_at: T0,
      ended_at: T2,
    },
  };
}

export function started(claim_id = 'clm_1', started_at = T0): TransferStarted {
  return {
    claim_id,
    started_at,
    source_endpoint: { id: 'end_1', revision: 0 },
    destination_endpoint: { id: 'end_2', revision: 3 },
  };
}

const TIMED_OUT = transferError({ code: 'timeout', message: 'no answer', phase: 'read' }, 1, T1);

/** Possible events of a transfer after its creation, by what happens. */
export const TRANSFER_EVENTS = {
  admitted: { type: 'transfer.queued', data: { reason: 'admitted' } },
  started: { type: 'transfer.in_progress', data: started() },
  retry: {
    type: 'transfer.queued',
    data: { reason: 'retry', error: TIMED_OUT, attempt: 1, not_before: T2, ...FIGURES },
  },
  lost: {
    type: 'transfer.queued',
    data: { reason: 'mover_lost', claim_id: 'clm_1', lost_in_a_row: 1, ...FIGURES },
  },
  completed: {
    type: 'transfer.completed',
    data: {
      completed_at: T1,
      size_bytes: 1000,
      speed_bps: 1600,
      duration_ms: 5000,
      checksum_sha256: 'ab'.repeat(32),
      verification: VERIFICATION,
    },
  },
  failed: {
    type: 'transfer.failed',
    data: { error: { ...TIMED_OUT, retryable: false }, failed_at: T1, ...FIGURES },
  },
  cancelled: { type: 'transfer.cancelled', data: { cancelled_at: T1 } },
  priority: { type: 'transfer.priority_changed', data: { priority: 'high', changed_at: T1 } },
} as const satisfies Record<string, TransferEvent>;

const SOURCE_FILE = { source_file: { size_bytes: 1000, version: '1772359200' }, confirmed: true };
const REASON = { code: 'permission_denied', message: 'the server refuses' } as const;

/** The steps after a transfer, and the end before them. */
export const AFTER_EVENTS = {
  versioned: {
    type: 'transfer.completed',
    data: { ...TRANSFER_EVENTS.completed.data, source_version: '1772359200' },
  },
  marked: {
    type: 'transfer.marker_written',
    data: { marker: 'sftp://to/in/a.csv.done', written_at: T1 },
  },
  unmarked: {
    type: 'transfer.marker_failed',
    data: { marker: 'sftp://to/in/a.csv.done', reason: REASON, failed_at: T1 },
  },
  deleted: { type: 'transfer.source_deleted', data: { ...SOURCE_FILE, deleted_at: T2 } },
  moved: {
    type: 'transfer.source_moved',
    data: { ...SOURCE_FILE, moved_to: 'sftp://from/processed/a.csv', moved_at: T2 },
  },
  kept: { type: 'transfer.source_kept', data: { reason: REASON, found: null, kept_at: T2 } },
} as const satisfies Record<string, TransferEvent>;

export function sftpSettings(changes: Partial<SftpSettings> = {}): SftpSettings {
  return {
    protocol: 'sftp',
    host: 'files.example.com',
    port: 22,
    base_path: '/',
    username: 'waybill',
    host_key_sha256: null,
    host_keys: null,
    ...changes,
  };
}

export function endpointConfigured(changes: Partial<EndpointConfigured> = {}): EndpointConfigured {
  return {
    endpoint_id: 'end_01JNQ0000000000000000000E1',
    name: 'files',
    max_connections: 8,
    accounts: null,
    overwrite: true,
    settings: sftpSettings(),
    credentials_record: 'vlt_1',
    sign_in: 'password',
    configured_at: T0,
    ...changes,
  };
}

export function keyCreated(changes: Partial<KeyCreated> = {}): KeyCreated {
  return {
    key_id: 'key_01JNQ0000000000000000000K1',
    account_id: 'acc_default',
    name: 'ci',
    scopes: ['transfers:read'],
    sha256: '00'.repeat(32),
    last_four: 'abcd',
    expires_at: '2026-03-11T10:00:00.000Z',
    created_at: T0,
    ...changes,
  };
}

export function webhookRegistered(changes: Partial<WebhookRegistered> = {}): WebhookRegistered {
  return {
    webhook_id: 'whk_01JNQ0000000000000000000W1',
    account_id: 'acc_default',
    url: 'https://receiver.example.com/hook',
    events: ['transfer.completed', 'transfer.failed'],
    secret_record: 'vlt_1',
    created_at: T0,
    ...changes,
  };
}
