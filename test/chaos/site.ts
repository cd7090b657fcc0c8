import { putTree } from './batch-load.ts';
import type { RunRecord } from './evidence.ts';
import { type SourceFiles, sourceFiles } from './files.ts';
import { putFolders } from './flow-load.ts';
import type { ChaosOptions } from './options.ts';
import { type Partners, startPartners } from './partners.ts';
import { type Receivers, startReceivers } from './receivers.ts';
import { say } from './say.ts';
import { type Service, startService } from './service.ts';
import { openStores, type Stores } from './stores.ts';
import { type EvidenceWriter, openEvidence } from './writer.ts';

/** All that a run starts before its load: stores, partners with files, receivers, the service. */
export interface Site {
  evidence: EvidenceWriter;
  partners: Partners;
  files: SourceFiles;
  stores: Stores;
  receivers: Receivers;
  service: Service;
  /** Newer files at a destination come from the service. */
  startedAt: string;
}

/** Starts the site. `closing` then stops it, the last part first. */
export async function startSite(
  options: ChaosOptions,
  closing: AsyncDisposableStack,
): Promise<Site> {
  const { seed } = options;
  const evidence = openEvidence(options.out);
  const partners = await startPartners();
  closing.defer(partners.stop);
  for (const reason of partners.skipped) say(`skipped: ${reason}`);
  const files = sourceFiles(seed);
  await putSources(seed, partners, files);
  const startedAt = new Date().toISOString();
  const stores = await openStores(options);
  closing.defer(stores.close);
  if (stores.eventStore && !stores.eventStoreProxies)
    say('skipped: network faults of the event store: it is no single insecure node');
  const receivers = await startReceivers(seed, evidence);
  closing.defer(receivers.close);
  const service = await startService(stores, partners, evidence);
  closing.defer(service.supervisor.close);
  closing.defer(service.admin.close);
  return { evidence, partners, files, stores, receivers, service, startedAt };
}

async function putSources(seed: number, partners: Partners, files: SourceFiles): Promise<void> {
  for (const { path, content } of files.each())
    await Promise.all(partners.servers.map((server) => server.put(path, content)));
  await putTree(seed, partners.servers, files);
  await putFolders(partners.servers);
}

/** Returns what the checker needs to know about a run that has settled now. */
export function runRecord(
  { startedAt, stores, service, partners }: Site,
  seed: number,
  neighbourKey: string,
): RunRecord {
  return {
    seed,
    startedAt,
    settledAt: new Date().toISOString(),
    log: stores.eventStore
      ? { engine: 'eventstoredb', url: stores.eventStore.url }
      : { engine: 'postgres' },
    streamPrefix: stores.streamPrefix,
    databaseUrl: stores.postgres.url,
    apiUrl: service.urls[0] as string,
    adminKey: service.adminKey,
    neighbourKey,
    endpoints: partners.endpoints.map(({ record }) => record),
  };
}
