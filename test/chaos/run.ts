import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClientKey, startAdministration } from './administration.ts';
import { putTree, startBatchLoad } from './batch-load.ts';
import { check } from './checker/check.ts';
import { createClient } from './client.ts';
import type { RunRecord } from './evidence.ts';
import { startChaos } from './faults.ts';
import { sourceFiles } from './files.ts';
import { putFolders, startFlowLoad } from './flow-load.ts';
import { startLoad } from './load.ts';
import { type ChaosOptions, parseOptions, USAGE } from './options.ts';
import { startPartners } from './partners.ts';
import { planFaults, RECEIVERS } from './plan.ts';
import { startReceivers } from './receivers.ts';
import { startService } from './service.ts';
import { countTransfers, settle, type TransferCounts } from './settle.ts';
import { openStores } from './stores.ts';
import { type Finding, progressLine, summaryText } from './summary.ts';
import { webhookLoad } from './webhook-load.ts';
import { openEvidence } from './writer.ts';

const PROGRESS_MS = 12_000;
const COUNT_MS = 3_000;
/** The account of the load, and another one that must see nothing of it. */
const ACCOUNT = 'acc_default';
const NEIGHBOUR = 'acc_neighbour';
const NEIGHBOUR_SHARE = 0.2;
/** The load waits while more transfers than this are open. */
const MAX_OPEN = 300;
/**
 * Longer than every retry schedule of the run with its timeouts, and than a clean-up that failed
 * three times.
 */
const SETTLE_MS = 480_000;

const say = (text: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);

async function main(options: ChaosOptions, closing: AsyncDisposableStack): Promise<number> {
  const { seed, minutes, engine } = options;
  const plan = planFaults(seed, minutes, options.faults);
  if (options.plan) {
    for (const { atMs, lastsMs, fault, target } of plan)
      console.log(`${(atMs / 1_000).toFixed(1)} ${fault} ${target} ${lastsMs / 1_000} s`);
    return 0;
  }
  say(
    `chaos run: seed ${seed}, ${minutes} minutes, log in ${engine}, ` +
      `${plan.length} faults planned; evidence in ${options.out}`,
  );
  const findings: Finding[] = [];
  const finding = (subject: string, detail: string) =>
    void findings.push({ check: 'run', subject, detail });

  const evidence = openEvidence(options.out);
  const partners = await startPartners();
  closing.defer(partners.stop);
  for (const reason of partners.skipped) say(`skipped: ${reason}`);
  const files = sourceFiles(seed);
  for (const { path, content } of files.each())
    await Promise.all(partners.servers.map((server) => server.put(path, content)));
  await putTree(seed, partners.servers, files);
  await putFolders(partners.servers);
  // Newer files at a destination come from the service.
  const startedAt = new Date().toISOString();
  const stores = await openStores(options);
  closing.defer(stores.close);
  if (stores.eventStore && !stores.eventStoreProxies)
    say('skipped: network faults of the event store: it is no single insecure node');
  const receivers = await startReceivers(seed, evidence);
  closing.defer(receivers.close);
  const service = await startService(stores, partners, evidence);
  const { supervisor, admin, adminKey, urls } = service;
  closing.defer(supervisor.close);
  closing.defer(admin.close);

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

  say('all runs; the load begins');
  let counts: TransferCounts | null = null;
  const isFull = () => (counts?.open ?? 0) > MAX_OPEN;
  const shared = { seed, partners, files, isFull };
  const load = startLoad({
    ...{ ...shared, client, admin, folder: '', rate: options.rate },
    strangers: () => others.created,
  });
  const batches = startBatchLoad({ ...shared, client, folder: '', share: 1 });
  // The same Idempotency-Keys in another account.
  const others = startLoad({
    ...{ ...shared, client: neighbour, admin: null, folder: 'neighbour/' },
    rate: options.rate * NEIGHBOUR_SHARE,
    strangers: () => load.created,
  });
  const ofNeighbour = { client: neighbour, folder: 'neighbour/', share: NEIGHBOUR_SHARE };
  const otherBatches = startBatchLoad({ ...shared, ...ofNeighbour });
  const flows = await startFlowLoad({ seed, client: admin, partners, evidence, isFull, finding });
  const administration = startAdministration(
    {
      seed,
      client: admin,
      partners,
      endpointIds: service.endpointIds,
      webhooks,
      finding,
      useKey: (key) => {
        clientKey = key;
      },
      async tryKey(key) {
        const other = createClient(urls, () => key, evidence, ACCOUNT);
        const answer = await other.look('/transfers?limit=1').finally(other.close);
        return answer?.status ?? null;
      },
    },
    firstKey,
  );
  const chaos = startChaos(plan, {
    seed,
    stores,
    partners,
    receivers,
    supervisor,
    evidence,
    finding,
  });
  const watching = new AbortController();
  const watched = watch();
  const end = Date.now() + minutes * 60_000;

  async function watch(): Promise<void> {
    const left = () => Math.max(0, Math.round((end - Date.now()) / 1_000));
    const progress = setInterval(
      () => say(progressLine(left(), load.created.size, counts, evidence, chaos)),
      PROGRESS_MS,
    );
    for (; !watching.signal.aborted; await sleep(COUNT_MS))
      counts = (await countTransfers(admin)) ?? counts;
    clearInterval(progress);
  }

  await sleep(minutes * 60_000);
  say('the load ends; lifting all faults');
  receivers.heal();
  const loads = [load, batches, others, otherBatches, flows, administration, chaos];
  const ending = loads.map((one) => one.stop());
  await Promise.all(ending);
  await administration.finish();
  await flows.finish();
  say('waiting until the service has settled');
  for (const waiting of await settle(admin, supervisor, stores.postgres, flows.ids, SETTLE_MS))
    finding('settled', `after ${SETTLE_MS / 1_000} s: ${waiting}`);
  watching.abort();
  await watched;
  webhooks.record();
  const run: RunRecord = {
    seed,
    startedAt,
    settledAt: new Date().toISOString(),
    log: stores.eventStore
      ? { engine: 'eventstoredb', url: stores.eventStore.url }
      : { engine: 'postgres' },
    streamPrefix: stores.streamPrefix,
    databaseUrl: stores.postgres.url,
    apiUrl: urls[0] as string,
    adminKey,
    neighbourKey: neighbourKey.key,
    endpoints: partners.endpoints.map(({ record }) => record),
  };
  await evidence.finish(run);
  say('settled; the checker compares');
  const checked = await check(options.out);
  findings.push(...checked.findings);
  counts = await countTransfers(admin);
  const summary = summaryText(evidence, chaos.skipped, counts, checked.figures, findings);
  writeFileSync(join(options.out, 'findings.json'), `${JSON.stringify(findings, null, 2)}\n`);
  writeFileSync(join(options.out, 'summary.txt'), `${summary}\n`);
  console.log(`\nSeed ${seed}, ${minutes} minutes, log in ${engine}, began ${startedAt}`);
  console.log(summary);
  say(findings.length === 0 ? 'passed' : `FAILED with ${findings.length} findings`);
  return findings.length === 0 ? 0 : 1;
}

let options: ChaosOptions;
try {
  options = parseOptions(process.argv.slice(2));
} catch (error) {
  console.error(`${(error as Error).message}\n${USAGE}`);
  process.exit(2);
}
// Each server of the run ends with this process.
process.setMaxListeners(100);
const closing = new AsyncDisposableStack();
const close = (code: number) => closing.disposeAsync().finally(() => process.exit(code));
process.once('uncaughtException', (error) => {
  console.error(error);
  void close(1);
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void close(130));
const code = await main(options, closing).catch((error: unknown) => {
  console.error(error);
  return 1;
});
await close(code);
