import { createClientKey, startAdministration } from './administration.ts';
import { startBatchLoad } from './batch-load.ts';
import { type ChaosClient, createClient } from './client.ts';
import { startFlowLoad } from './flow-load.ts';
import { startLoad } from './load.ts';
import { RECEIVERS } from './plan.ts';
import type { Site } from './site.ts';
import { type WebhookLoad, webhookLoad } from './webhook-load.ts';

/** The account of the load, and another one that must see nothing of it. */
const ACCOUNT = 'acc_default';
const NEIGHBOUR = 'acc_neighbour';
const NEIGHBOUR_SHARE = 0.2;

/** The clients of a run, and the webhooks that it registers. */
export interface Clients {
  client: ChaosClient;
  neighbour: ChaosClient;
  neighbourKey: string;
  firstKey: ClientKey;
  /** The key that `client` sends from now on. */
  useKey(key: string): void;
  /** Sends one request with this key and returns its status; null without an answer. */
  tryKey(key: string): Promise<number | null>;
  webhooks: WebhookLoad;
}

interface ClientKey {
  id: string;
  key: string;
}

/** Everything that sends requests or writes files during the run. */
export interface Workload {
  /** The ids of the transfers that the load has created. */
  created: Set<string>;
  flowIds: string[];
  /** Sends nothing new; returns when every client has its last answer. */
  stop(): Promise<void>;
  /** Resumes paused endpoints and flows. The caller lifts all faults before. */
  finish(): Promise<void>;
}

interface WorkloadDeps {
  seed: number;
  /** Transfers a second. */
  rate: number;
  site: Site;
  clients: Clients;
  /** True while too many transfers are open. */
  isFull(): boolean;
  finding(subject: string, detail: string): void;
}

/** Creates the keys and the clients of both accounts, and registers the first webhooks. */
export async function createClients(site: Site, closing: AsyncDisposableStack): Promise<Clients> {
  const { evidence, receivers } = site;
  const { admin, urls } = site.service;
  const firstKey = await createClientKey(admin, 1);
  if (!firstKey) throw new Error('the first API key was not created');
  let clientKey = firstKey.key;
  const client = createClient(urls, () => clientKey, evidence, ACCOUNT);
  closing.defer(client.close);
  const neighbourKey = await createClientKey(admin, 1, NEIGHBOUR);
  if (!neighbourKey) throw new Error('the API key of the other account was not created');
  const neighbour = createClient(urls, () => neighbourKey.key, evidence, NEIGHBOUR);
  closing.defer(neighbour.close);
  const webhooks = webhookLoad(client, receivers, evidence, RECEIVERS.length);
  for (const receiver of RECEIVERS) await webhooks.register(receiver);

  return {
    ...{ client, neighbour, neighbourKey: neighbourKey.key, firstKey, webhooks },
    useKey: (key) => {
      clientKey = key;
    },
    async tryKey(key) {
      const other = createClient(urls, () => key, evidence, ACCOUNT);
      const answer = await other.look('/transfers?limit=1').finally(other.close);
      return answer?.status ?? null;
    },
  };
}

/** Starts the loads of both accounts, the flows, and the administration. */
export async function startWorkload(deps: WorkloadDeps): Promise<Workload> {
  const { seed, rate, site, clients, isFull, finding } = deps;
  const { partners, files, evidence, service } = site;
  const { client, neighbour, firstKey, useKey, tryKey, webhooks } = clients;
  const shared = { seed, partners, files, isFull };
  const load = startLoad({
    ...{ ...shared, client, admin: service.admin, folder: '', rate },
    strangers: () => others.created,
  });
  const batches = startBatchLoad({ ...shared, client, folder: '', share: 1 });
  // The same Idempotency-Keys in another account.
  const ofNeighbour = { ...shared, client: neighbour, folder: 'neighbour/' };
  const others = startLoad({
    ...{ ...ofNeighbour, admin: null, rate: rate * NEIGHBOUR_SHARE },
    strangers: () => load.created,
  });
  const otherBatches = startBatchLoad({ ...ofNeighbour, share: NEIGHBOUR_SHARE });
  const byAdmin = { seed, client: service.admin, partners, finding };
  const flows = await startFlowLoad({ ...byAdmin, evidence, isFull });
  const { endpointIds } = service;
  const administration = startAdministration(
    { ...byAdmin, endpointIds, webhooks, useKey, tryKey },
    firstKey,
  );
  const loads = [load, batches, others, otherBatches, flows, administration];

  return {
    created: load.created,
    flowIds: flows.ids,
    async stop() {
      await Promise.all(loads.map((one) => one.stop()));
    },
    async finish() {
      await administration.finish();
      await flows.finish();
    },
  };
}
