import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createKey } from '../../../src/commands/keys.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import { PROCESS_ROLES } from '../../../src/process-roles.ts';
import { startService } from '../../../src/service.ts';
import { type S3Server, startS3Server } from '../../support/file-servers/s3/server/server.ts';
import { type SftpServer, startSftpServer } from '../../support/file-servers/sftp/server.ts';
import {
  CAUSE,
  configureEndpoint,
  configureSftp,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { until } from '../../support/service/transfers.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhooks/receiver.ts';
import type { Evidence } from '../checker/evidence-files.ts';
import type { ExitRecord, RunRecord } from '../evidence.ts';
import { createLoad, digest, recordDeliveries } from './load.ts';

const ALL_TYPES = [
  'transfer.created',
  'transfer.in_progress',
  'transfer.completed',
  'transfer.failed',
  'transfer.cancelled',
  'transfer.marker_written',
  'transfer.source_deleted',
  'batch.completed',
  'flow.run_completed',
  'log.checkpoint',
];

/** A run without faults on a real installation, with a transfer of every kind, and its evidence. */
export interface SmallRun {
  installation: TestInstallation;
  evidence: Evidence;
  source: SftpServer;
  destination: SftpServer;
  s3: S3Server;
  /** Ids of transfers by their results. */
  ids: Record<
    | 'plain'
    | 'keyed'
    | 'lost'
    | 'lostWithKey'
    | 'first'
    | 'second'
    | 'missing'
    | 'retried'
    | 'cancelled'
    | 'refused'
    | 'object'
    | 'deleted',
    string
  >;
  batchId: string;
  flowId: string;
  webhooks: Record<'all' | 'ends' | 'dead', string>;
  close(): Promise<void>;
}

type Load = ReturnType<typeof createLoad>;

/** The servers of a small run. */
type Servers = Pick<SmallRun, 'installation' | 'source' | 'destination' | 's3'> & {
  receiver: WebhookReceiver;
};

/** `settings`: those of the installation, such as another engine. */
export async function startSmallRun(settings: Record<string, string> = {}): Promise<SmallRun> {
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  const servers = await startServers(settings, closers);
  const { installation, source, destination, s3, receiver } = servers;
  writeFileSync(join(destination.root, 'older'), 'it was there before the run');
  await sleep(20);
  const startedAt = new Date().toISOString();
  const pausedId = await configureEndpoints(servers);
  const adminKey = await createAdminKey(installation);
  const service = await startService(installation, PROCESS_ROLES);
  const load = createLoad(service.url as string, adminKey, source.root);
  const deliveries = recordDeliveries(receiver);
  const webhooks = await registerWebhooks(load, receiver.url);
  await load.ask('POST', `/v1/endpoints/${pausedId}/pause`);
  writeFileSync(join(destination.root, 'kept'), 'kept');
  const { ids, batchId, flow } = await createAll(load);
  // One key was sent twice. The batch has two transfers, the flow one.
  const transfers = load.requests.filter(({ kind }) => kind === 'create').length - 1 + 2 + 1;
  await until('the end of all started transfers', () => isSettled(installation, transfers));
  await load.ask('POST', '/v1/checkpoints');
  await service.stop();
  const api = await startService(installation, ['api']);
  closers.push(() => api.stop());

  const stay = new Set(Object.values(webhooks));
  const evidence: Evidence = {
    run: runRecord(servers, { startedAt, adminKey, apiUrl: api.url as string }),
    requests: load.requests,
    deliveries: deliveries(webhooks),
    webhooks: load.webhooks.map((webhook) => ({
      ...webhook,
      removedAt: stay.has(webhook.webhookId) ? null : new Date().toISOString(),
    })),
    exits: [killedMover(startedAt)],
    faults: [],
    versions: [flow.version],
    placed: [{ endpoint: 'careful', path: '/kept', ...digest(Buffer.from('kept')) }],
  };
  return {
    ...{ installation, evidence, source, destination, s3, ids, batchId, flowId: flow.id },
    ...{ webhooks, close },
  };
}

async function startServers(
  settings: Record<string, string>,
  closers: (() => Promise<unknown>)[],
): Promise<Servers> {
  const [installation, source, destination, s3, receiver] = await Promise.all([
    openTestInstallation({
      WAYBILL_RATE_LIMIT: '100000',
      WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
      WAYBILL_WEBHOOK_RETRY_DELAYS: '200ms,200ms',
      ...settings,
    }),
    startSftpServer(),
    startSftpServer(),
    startS3Server(),
    startWebhookReceiver(),
  ]);
  closers.push(
    () => installation.close(),
    () => source.stop(),
    () => destination.stop(),
    () => s3.stop(),
    () => receiver.close(),
  );
  return { installation, source, destination, s3, receiver };
}

/** Returns the id of the endpoint `paused`, which is not paused yet. */
async function configureEndpoints(servers: Servers): Promise<string> {
  const { installation, source, destination, s3 } = servers;
  await configureSftp(installation, 'source', source);
  await configureSftp(installation, 'destination', destination);
  await configureSftp(installation, 'careful', destination, { overwrite: false });
  const pausedId = await configureSftp(installation, 'paused', destination);
  s3.createBucket('bucket');
  await configureEndpoint(installation, {
    name: 'cloud',
    protocol: 's3',
    bucket: 'bucket',
    prefix: 'in/',
    region: s3.region,
    endpoint_url: s3.endpointUrl,
    force_path_style: true,
    access_key_id: s3.accessKeyId,
    secret_access_key: s3.secretAccessKey,
  });
  return pausedId;
}

async function createAdminKey({ commands }: TestInstallation): Promise<string> {
  const request = keyRequest.parse({
    name: 'load',
    scopes: ['admin'],
    account: 'acc_default',
    expires_in: '1h',
  });
  return (await createKey(commands, request, CAUSE, { allowNever: false })).key;
}

/** Registers the webhooks that stay, and one that is removed at once. */
async function registerWebhooks(load: Load, url: string): Promise<SmallRun['webhooks']> {
  const all = await load.register(`${url}/all`, ALL_TYPES);
  const ends = await load.register(`${url}/ends`, ['transfer.completed', 'transfer.failed']);
  const dead = await load.register(`${url}/dead`, ['transfer.cancelled']);
  const dropped = await load.register(`${url}/dropped`, ['key.expiring_soon']);
  await load.ask('POST', `/v1/webhooks/${all}/ping`);
  await load.ask('DELETE', `/v1/webhooks/${dropped}`);
  return { all, ends, dead };
}

/** Creates a transfer of every kind, a batch and a flow. */
async function createAll(load: Load) {
  const plain = await load.create('destination/in/plain');
  const keyed = await load.create('destination/in/keyed', { key: 'one', from: 'keyed' });
  await load.create('destination/in/keyed', { key: 'one', from: 'keyed' });
  const lost = await load.create('destination/in/lost', { lost: true });
  const lostWithKey = await load.create('destination/in/lost-with-key', { lost: true, key: 'two' });
  const first = await load.create('destination/in/twice', { from: 'once', size: 3_000 });
  await load.ended([first]);
  const second = await load.create('destination/in/twice', { from: 'again', size: 4_000 });
  const missing = await load.create('destination/in/missing', { size: null });
  const object = await load.create('cloud/object', { size: 100_000 });
  const refused = await load.create('careful/kept');
  const deleted = await load.create('destination/in/deleted', { after: { source: 'delete' } });
  const batchId = await load.createBatch('in/batch', ['one', 'other']);
  const flow = await load.createFlow('flow', 'file.csv');
  const cancelled = await load.create('paused/in/cancelled');
  await load.ask('PATCH', `/v1/transfers/${cancelled}`, { priority: 'high' });
  await load.cancel(cancelled);
  await load.ended([missing], 'failed');
  const retried = await load.retry(missing);
  const ids: SmallRun['ids'] = {
    ...{ plain, keyed, lost, lostWithKey, first, second, missing, retried },
    ...{ cancelled, refused, object, deleted },
  };
  return { ids, batchId, flow };
}

function runRecord(
  { installation, source, destination, s3 }: Servers,
  { startedAt, adminKey, apiUrl }: Pick<RunRecord, 'startedAt' | 'adminKey' | 'apiUrl'>,
): RunRecord {
  const { accessKeyId, secretAccessKey, region, endpointUrl: url } = s3;
  const { DATABASE_URL, EVENTSTORE_URL } = installation.environment;
  return {
    seed: 1,
    startedAt,
    settledAt: new Date().toISOString(),
    log: EVENTSTORE_URL ? { engine: 'eventstoredb', url: EVENTSTORE_URL } : { engine: 'postgres' },
    streamPrefix: installation.config.streamPrefix,
    databaseUrl: DATABASE_URL as string,
    apiUrl,
    adminKey,
    endpoints: [
      { name: 'source', kind: 'folder', protocol: 'sftp', path: source.root },
      ...['destination', 'careful', 'paused'].map((name) => ({
        name,
        kind: 'folder' as const,
        protocol: 'sftp' as const,
        path: destination.root,
      })),
      {
        ...{ name: 'cloud', kind: 's3', url, region, bucket: 'bucket' },
        ...{ accessKeyId, secretAccessKey },
      },
    ],
  };
}

/** A mover that the run killed: its exit is expected. */
function killedMover(at: string): ExitRecord {
  const exit = { code: null, signal: 'SIGKILL', expected: true, output: '' };
  return { at, process: 'mover-1', ...exit };
}

async function isSettled({ sql }: TestInstallation, transfers: number): Promise<boolean> {
  const [found] = await sql<{ left: bigint; shown: bigint; told: bigint }[]>`
    select (select count(*) from work.transfer_jobs) + (select count(*) from work.cleanups)
         + (select count(*) from work.deliveries where status = 'pending')
         + (select count(*) from work.after_steps)
         + (select count(*) from read.batches where not ended)
         + (select count(*) from read.flows
             where (state ->> 'requested') is not null
                or jsonb_array_length(state -> 'open_runs') > 0) as left,
           (select count(*) from read.transfers
             where status in ('completed', 'failed', 'cancelled')) as shown,
           (select count(*) from work.deliveries
             where event_type in ('transfer.completed', 'transfer.failed')) as told`;
  return (
    found?.left === 0n &&
    Number(found.shown) === transfers &&
    Number(found.told) >= 2 * (transfers - 1)
  );
}
