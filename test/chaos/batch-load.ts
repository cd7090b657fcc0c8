import { setTimeout as sleep } from 'node:timers/promises';
import { type ChaosClient, textOf } from './client.ts';
import type { BatchFile } from './evidence.ts';
import type { SourceFile, SourceFiles } from './files.ts';
import type { ChaosEndpoint, Partner, Partners } from './partners.ts';
import { type Random, randomFrom } from './random.ts';

const KiB = 1 << 10;
/** Batches a second, on average. */
const RATE = 0.08;
const ITEMS: [number, number] = [2, 25];
const LARGEST_ITEM = 256 * KiB;
/** The folders that batches list: on each server, with files in two levels. */
const TREE = { folder: 'tree', folders: 4, files: 6 };

export interface BatchLoad {
  /** Sends nothing new; returns when every client has its last answer. */
  stop(): Promise<void>;
}

interface BatchLoadDeps {
  seed: number;
  client: ChaosClient;
  /** Folder of the files that its batches write; empty, or with a slash at its end. */
  folder: string;
  /** Share of the usual rate. */
  share: number;
  partners: Partners;
  files: SourceFiles;
  isFull(): boolean;
}

/** Writes the files that batches of a folder move. */
export async function putTree(seed: number, servers: Partner[], files: SourceFiles): Promise<void> {
  for (const [path, file] of treeOf(seed, files))
    for (const server of servers) await server.put(`${TREE.folder}/${path}`, file.content);
}

function treeOf(seed: number, files: SourceFiles) {
  const random = randomFrom(seed, 'tree');
  const tree = new Map<string, SourceFile & { content: Buffer }>();
  for (let folder = 0; folder < TREE.folders; folder++)
    for (let n = 0; n < TREE.files; n++) {
      const name = random.chance(0.2) ? `ü ${n}%` : `${n}`;
      tree.set(`${folder}/${name}.dat`, files.make(random.whole(0, 4 * KiB)));
    }
  return tree;
}

/** Creates batches of items and of folders. Cancels, retries, repeats and reads some of them. */
export function startBatchLoad(deps: BatchLoadDeps): BatchLoad {
  const { seed, client, partners, files } = deps;
  const random = randomFrom(seed, 'batches');
  const tree = treeOf(seed, files);
  const clients = new Set<Promise<void>>();
  const stopping = new AbortController();
  const running = run();

  async function run(): Promise<void> {
    for (let n = 1; ; n++) {
      await pause(random.gapMs(RATE * deps.share));
      while (!stopping.signal.aborted && deps.isFull()) await sleep(100);
      if (stopping.signal.aborted) return;
      const one = oneClient(n, randomFrom(seed, `batch ${n}`)).finally(() => clients.delete(one));
      clients.add(one);
    }
  }

  async function oneClient(n: number, own: Random): Promise<void> {
    const create = own.chance(0.5) ? ofItems(n, own) : ofFolder(n, own);
    const batchId = await create();
    if (batchId === null) return;
    const path = `/batches/${batchId}`;
    const [early, late] = [own.whole(0, 3_000), own.whole(5_000, 30_000)];
    const other = (what: string) =>
      client.send({ kind: 'other', what }, { method: 'GET', path: path });
    const steps: [probability: number, step: () => Promise<unknown>][] = [
      [0.4, () => other('batch')],
      [
        0.25,
        () =>
          pause(early).then(() =>
            client.send({ kind: 'cancel_batch', batchId }, { method: 'DELETE', path }),
          ),
      ],
      // A client that crashed after the answer sends the same request again.
      [0.2, create],
      // Rejected unless a transfer of the batch has failed.
      [0.6, () => pause(late).then(() => retry(n, batchId))],
    ];
    for (const [probability, step] of steps)
      if (own.chance(probability) && !stopping.signal.aborted) await step();
  }

  function retry(n: number, of: string) {
    const idempotencyKey = `chaos-batch-retry-${seed}-${n}`;
    return client.send(
      { kind: 'retry_batch', idempotencyKey, of, batchId: null, replayed: false },
      { method: 'POST', path: `/batches/${of}/retry`, idempotencyKey },
    );
  }

  function ofItems(n: number, own: Random): () => Promise<string | null> {
    const asked = Array.from({ length: own.whole(...ITEMS) }, (_, i): BatchFile & Item => {
      const source = own.pick(partners.servers).endpoint;
      const destination = own.pick(partners.servers).endpoint;
      const file = own.chance(0.04) ? null : files.choose(own, LARGEST_ITEM);
      const sourcePath = file?.path ?? `outbox/missing-${n}-${i}.bin`;
      const path = `${deps.folder}batches/${n}/${i}.bin`;
      return {
        source: { endpoint: source.name, path: sourcePath },
        destination: { endpoint: destination.name, path },
        file: file && { size: file.size, sha256: file.sha256 },
        uris: { source_uri: uriOf(source, sourcePath), destination_uri: uriOf(destination, path) },
      };
    });
    const items = asked.map(({ uris }) => ({
      ...uris,
      ...(own.chance(0.2) && { priority: own.pick(['low', 'high']) }),
    }));
    const batchFiles = asked.map(({ uris: _, ...file }) => file);
    return () => create(n, batchFiles, false, { items, ...common(own, n) });
  }

  function ofFolder(n: number, own: Random): () => Promise<string | null> {
    const source = own.pick(partners.servers).endpoint;
    const destination = own.pick(partners.servers).endpoint;
    const folder = `${deps.folder}batches/${n}`;
    const batchFiles = [...tree].map(([path, { size, sha256 }]) => ({
      source: { endpoint: source.name, path: `${TREE.folder}/${path}` },
      destination: { endpoint: destination.name, path: `${folder}/${path}` },
      file: { size, sha256 },
    }));
    const body = {
      source_uri: `${uriOf(source, TREE.folder)}/`,
      destination_uri: `${uriOf(destination, folder)}/`,
      pattern: '*.dat',
      recursive: true,
      ...common(own, n),
    };
    return () => create(n, batchFiles, true, body);
  }

  async function create(n: number, asked: BatchFile[], ofFolder: boolean, body: object) {
    const idempotencyKey = `chaos-batch-${seed}-${n}`;
    const answer = await client.send(
      {
        kind: 'create_batch',
        idempotencyKey,
        files: asked,
        ofFolder,
        batchId: null,
        replayed: false,
      },
      { method: 'POST', path: '/batches', body, idempotencyKey },
    );
    return answer?.status === 201 ? textOf(answer, 'id') : null;
  }

  async function pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: stopping.signal }).catch(() => undefined);
  }

  return {
    async stop() {
      stopping.abort();
      await running;
      await Promise.all(clients);
    },
  };
}

interface Item {
  uris: { source_uri: string; destination_uri: string };
}

function common(own: Random, n: number): object {
  const after = { source: 'keep', destination_marker: '.done' };
  return { metadata: { batch: String(n) }, ...(own.chance(0.3) && { after }) };
}

export function uriOf({ scheme, name }: ChaosEndpoint, path: string): string {
  return `${scheme}://${name}/${path.split('/').map(encodeURIComponent).join('/')}`;
}
