import { createHash } from 'node:crypto';
import { appendFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { uriOf } from './batch-load.ts';
import { type ChaosClient, textOf } from './client.ts';
import { type Partner, type Partners, untilPut } from './partners.ts';
import { PARTNERS, type PartnerName } from './plan.ts';
import { randomFrom } from './random.ts';
import type { EvidenceWriter } from './writer.ts';

/** Files that the writer puts into all folders, a second. */
const WRITES_PER_SECOND = 1.2;
/** Actions on flows, a second. */
const ACTIONS_PER_SECOND = 0.08;
/** Newer names than these many are rewritten. */
const REWRITTEN = 12;
const PIECES_APART_MS = 20;

export interface FlowLoad {
  /** Ends the writer when its last file is in place. */
  stop(): Promise<void>;
  /** Resumes flows that are paused. Call it after all faults are lifted. */
  finish(): Promise<void>;
  ids: string[];
}

interface FlowPlan {
  source: PartnerName;
  after: object | null;
  ready: object;
}

/** Longer than any pause of the writer within a file. */
const UNCHANGED = { unchanged_for: '3s' };
const FLOWS: FlowPlan[] = [
  { source: 'sftp', after: null, ready: UNCHANGED },
  { source: 'sftp', after: { source: 'delete' }, ready: UNCHANGED },
  {
    source: 'ftps',
    after: { source: { move_to: 'taken' }, destination_marker: '.done' },
    ready: UNCHANGED,
  },
  { source: 's3', after: { source: 'delete' }, ready: { unchanged_for: '0s' } },
  { source: 'azure', after: null, ready: { unchanged_for: '0s' } },
];

const folderOf = (n: number) => `flows/${n}`;

interface FlowLoadDeps {
  seed: number;
  /** Has the scope `admin`: its key stays. */
  client: ChaosClient;
  partners: Partners;
  evidence: EvidenceWriter;
  isFull(): boolean;
  finding(subject: string, detail: string): void;
}

/** Creates the folders of the flows. The listing of one that is missing would fail. */
export async function putFolders(servers: Partner[]): Promise<void> {
  for (const [n, { source }] of FLOWS.entries())
    await servers
      .find(({ name }) => name === source)
      ?.put(`${folderOf(n)}/first.txt`, Buffer.from('not taken'));
}

/** Creates flows, and writes files into their folders: new ones, and others again. */
export async function startFlowLoad(deps: FlowLoadDeps): Promise<FlowLoad> {
  const { seed, client, partners, evidence } = deps;
  const random = randomFrom(seed, 'flows');
  const flows = FLOWS.flatMap((plan, n) => {
    const server = partners.servers.find(({ name }) => name === plan.source);
    return server ? [{ ...plan, n, server, folder: folderOf(n), names: [] as string[] }] : [];
  });
  type Flow = (typeof flows)[number];
  const ids: string[] = [];
  const paused = new Set<string>();
  const stopping = new AbortController();
  for (const flow of flows) ids.push(await create(flow));
  let written = 0;
  let actions = 0;
  const running = [write(), act()];

  async function create({ n, server, folder, after, ready }: Flow): Promise<string> {
    const place = PARTNERS.indexOf(server.name) + 1 + n;
    const { endpoint } = partners.servers[place % partners.servers.length] as Partner;
    const body = {
      name: `flow ${n}`,
      source: { uri: `${uriOf(server.endpoint, folder)}/`, pattern: '*.csv' },
      ready,
      trigger: { every: '5s' },
      destination_uri: `${uriOf(endpoint, `taken/${n}`)}/`,
      ...(after && { after }),
    };
    const idempotencyKey = `chaos-flow-${n}`;
    const call = { method: 'POST', path: '/flows', body, idempotencyKey } as const;
    const answer = await client.send({ kind: 'other', what: 'create flow' }, call);
    const id = answer?.status === 201 ? textOf(answer, 'id') : null;
    if (id === null) throw new Error(`the flow ${n} was not created: ${JSON.stringify(answer)}`);
    return id;
  }

  async function write(): Promise<void> {
    for (;;) {
      await pause(random.gapMs(WRITES_PER_SECOND));
      while (!stopping.signal.aborted && deps.isFull()) await sleep(100);
      if (stopping.signal.aborted) return;
      await writeOne(random.pick(flows));
    }
  }

  async function writeOne({ server, folder, names, after }: Flow): Promise<void> {
    const n = ++written;
    const again = names.length > 0 && random.chance(0.4);
    const name = again ? random.pick(names.slice(-REWRITTEN)) : `${n}.csv`;
    if (!again) names.push(name);
    const path = `${folder}/${name}`;
    // No two versions have the same size: a server may tell its times in seconds.
    const content = Buffer.from(`version ${n}\n`.repeat(200 + n)).subarray(0, 1_000 + 10 * n);
    const sha256 = createHash('sha256').update(content).digest('hex');
    const { root, endpoint } = server;
    evidence.version({
      at: new Date().toISOString(),
      endpoint: endpoint.name,
      path,
      size: content.length,
      sha256,
    });
    if (root === null) return untilPut(server, path, content);
    // A file that the flow deletes must not be open while it is written again.
    if (random.chance(0.5) || (again && after !== null)) {
      const hidden = join(root, folder, `.${n}.tmp`);
      writeFileSync(hidden, content);
      renameSync(hidden, join(root, path));
      return;
    }
    mkdirSync(dirname(join(root, path)), { recursive: true });
    const half = content.length >> 1;
    writeFileSync(join(root, path), content.subarray(0, half));
    await sleep(PIECES_APART_MS);
    appendFileSync(join(root, path), content.subarray(half));
  }

  async function act(): Promise<void> {
    for (;;) {
      await pause(random.gapMs(ACTIONS_PER_SECOND));
      if (stopping.signal.aborted) return;
      const id = random.pick(ids);
      if (random.chance(0.5)) await send('run', `/flows/${id}/runs`);
      else {
        paused.add(id);
        await send('pause', `/flows/${id}/pause`);
        await pause(random.whole(1_000, 10_000));
        await resume(id);
      }
    }
  }

  async function resume(id: string): Promise<void> {
    const answer = await send('resume', `/flows/${id}/resume`);
    if (answer?.status === 200) paused.delete(id);
  }

  function send(verb: string, path: string) {
    const idempotencyKey = `chaos-flow-${verb}-${++actions}`;
    return client.send(
      { kind: 'other', what: `${verb} flow` },
      { method: 'POST', path, idempotencyKey },
    );
  }

  async function pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: stopping.signal }).catch(() => undefined);
  }

  return {
    ids,
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
    async finish() {
      for (const id of paused) await resume(id);
      for (const id of paused) deps.finding(id, 'the flow could not be resumed after all faults');
    },
  };
}
