import { randomBytes } from 'node:crypto';
import { type ChaosClient, createClient, textOf } from './client.ts';
import type { Partners } from './partners.ts';
import { runWaybill, type Supervisor, startSupervisor } from './processes.ts';
import type { Stores } from './stores.ts';
import type { EvidenceWriter } from './writer.ts';

const START_MS = 120_000;

/**
 * Short enough that a run of two minutes sees retries end, and long enough to survive an outage of
 * seconds.
 */
const SETTINGS = {
  WAYBILL_TRANSFER_RETRY_DELAYS: '1s,2s,4s,8s,15s,30s',
  WAYBILL_WEBHOOK_RETRY_DELAYS: '1s,2s,4s,8s,15s,30s',
  WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
  WAYBILL_RATE_LIMIT: '1000000',
  WAYBILL_MOVERS: '8',
  WAYBILL_LOG_LEVEL: 'info',
};

export interface Service {
  supervisor: Supervisor;
  urls: string[];
  adminKey: string;
  /** Has the scope `admin`. */
  admin: ChaosClient;
  endpointIds: Map<string, string>;
}

/** Starts the installation and configures its endpoints. */
export async function startService(
  stores: Stores,
  partners: Partners,
  evidence: EvidenceWriter,
): Promise<Service> {
  const secrets = { WAYBILL_MASTER_KEY: randomBytes(32).toString('base64') };
  await runWaybill(['migrate'], { ...secrets, ...stores.directSettings });
  const created = await runWaybill(
    ['keys', 'create', '--name', 'chaos', '--scopes', 'admin', '--json'],
    {
      ...secrets,
      ...stores.directSettings,
    },
  );
  const adminKey = (JSON.parse(created) as { key: string }).key;
  const supervisor = startSupervisor(
    (name) => ({ ...SETTINGS, ...secrets, ...stores.settingsOf(name) }),
    evidence,
  );
  try {
    await supervisor.untilReady(START_MS);
    const urls = supervisor.processes.flatMap(({ url }) => (url === null ? [] : [url]));
    const admin = createClient(urls, () => adminKey, evidence, null);
    return { supervisor, urls, adminKey, admin, endpointIds: await configure(admin, partners) };
  } catch (error) {
    await supervisor.close();
    throw error;
  }
}

async function configure(
  admin: ChaosClient,
  { endpoints }: Partners,
): Promise<Map<string, string>> {
  const ids = new Map<string, string>();
  for (const { name, request } of endpoints) {
    const call = {
      method: 'POST',
      path: '/endpoints',
      body: request,
      idempotencyKey: `chaos-endpoint-${name}`,
    } as const;
    const answer = await admin.send({ kind: 'other', what: 'configure endpoint' }, call);
    const id = textOf(answer, 'id');
    if (answer?.status !== 201 || id === null) {
      const said = `${answer?.status} ${JSON.stringify(answer?.body)}`;
      throw new Error(`the endpoint ${name} was not configured: ${said}`);
    }
    ids.set(name, id);
  }
  return ids;
}
