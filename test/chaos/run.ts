import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { check } from './checker/check.ts';
import type { ChaosClient } from './client.ts';
import { type Chaos, startChaos } from './faults.ts';
import { type ChaosOptions, parseOptions, USAGE } from './options.ts';
import { type PlannedFault, planFaults } from './plan.ts';
import { say } from './say.ts';
import { countTransfers, settle, type TransferCounts } from './settle.ts';
import { runRecord, type Site, startSite } from './site.ts';
import { type Finding, progressLine, summaryText } from './summary.ts';
import { createClients, startWorkload, type Workload } from './workload.ts';

const PROGRESS_MS = 12_000;
const COUNT_MS = 3_000;
/** The load waits while more transfers than this are open. */
const MAX_OPEN = 300;
/**
 * Longer than every retry schedule of the run with its timeouts, and than a clean-up that failed
 * three times.
 */
const SETTLE_MS = 480_000;

/** Runs the plan, and returns the exit code. `closing` stops what the run has started. */
async function main(options: ChaosOptions, closing: AsyncDisposableStack): Promise<number> {
  const { seed, minutes, engine } = options;
  const plan = planFaults(seed, minutes, options.faults);
  if (options.plan) return printPlan(plan);
  say(
    `chaos run: seed ${seed}, ${minutes} minutes, log in ${engine}, ` +
      `${plan.length} faults planned; evidence in ${options.out}`,
  );
  const findings: Finding[] = [];
  const finding = (subject: string, detail: string) =>
    void findings.push({ check: 'run', subject, detail });

  const site = await startSite(options, closing);
  const clients = await createClients(site, closing);
  say('all runs; the load begins');
  const counting = startCounting(site.service.admin);
  const isFull = () => (counting.latest()?.open ?? 0) > MAX_OPEN;
  const deps = { seed, rate: options.rate, site, clients, isFull, finding };
  const workload = await startWorkload(deps);
  const { supervisor } = site.service;
  const chaos = startChaos(plan, { ...site, seed, supervisor, finding });
  const stopProgress = showProgress(minutes, site, workload, chaos, counting.latest);
  await sleep(minutes * 60_000);

  await endLoad(site, workload, chaos);
  await untilSettled(site, workload, finding);
  stopProgress();
  await counting.stop();
  clients.webhooks.record();
  await site.evidence.finish(runRecord(site, seed, clients.neighbourKey));
  return compare(options, site, chaos, findings);
}

function printPlan(plan: PlannedFault[]): number {
  for (const { atMs, lastsMs, fault, target } of plan)
    console.log(`${(atMs / 1_000).toFixed(1)} ${fault} ${target} ${lastsMs / 1_000} s`);
  return 0;
}

interface Counting {
  /** The last counts that the service has answered; null before the first. */
  latest(): TransferCounts | null;
  stop(): Promise<void>;
}

function startCounting(admin: ChaosClient): Counting {
  let counts: TransferCounts | null = null;
  const stopping = new AbortController();
  const counted = count();

  async function count(): Promise<void> {
    for (; !stopping.signal.aborted; await sleep(COUNT_MS))
      counts = (await countTransfers(admin)) ?? counts;
  }

  return {
    latest: () => counts,
    stop() {
      stopping.abort();
      return counted;
    },
  };
}

/** Prints a line every few seconds. Returns what ends that. */
function showProgress(
  minutes: number,
  { evidence }: Site,
  { created }: Workload,
  chaos: Chaos,
  counts: () => TransferCounts | null,
): () => void {
  const end = Date.now() + minutes * 60_000;
  const left = () => Math.max(0, Math.round((end - Date.now()) / 1_000));
  const progress = setInterval(
    () => say(progressLine(left(), created.size, counts(), evidence, chaos)),
    PROGRESS_MS,
  );
  return () => clearInterval(progress);
}

async function endLoad({ receivers }: Site, workload: Workload, chaos: Chaos): Promise<void> {
  say('the load ends; lifting all faults');
  receivers.heal();
  await Promise.all([workload.stop(), chaos.stop()]);
  await workload.finish();
}

async function untilSettled(
  { service, stores }: Site,
  { flowIds }: Workload,
  finding: (subject: string, detail: string) => void,
): Promise<void> {
  say('waiting until the service has settled');
  const { admin, supervisor } = service;
  for (const waiting of await settle(admin, supervisor, stores.postgres, flowIds, SETTLE_MS))
    finding('settled', `after ${SETTLE_MS / 1_000} s: ${waiting}`);
}

/** Runs the checker, and saves and prints its result and the findings of the run itself. */
async function compare(
  { seed, minutes, engine, out }: ChaosOptions,
  { evidence, service, startedAt }: Site,
  { skipped }: Chaos,
  ofRun: Finding[],
): Promise<number> {
  say('settled; the checker compares');
  const checked = await check(out);
  const findings = [...ofRun, ...checked.findings];
  const counts = await countTransfers(service.admin);
  const summary = summaryText(evidence, skipped, counts, checked.figures, findings);
  writeFileSync(join(out, 'findings.json'), `${JSON.stringify(findings, null, 2)}\n`);
  writeFileSync(join(out, 'summary.txt'), `${summary}\n`);
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
