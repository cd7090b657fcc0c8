import { setTimeout as sleep } from 'node:timers/promises';
import { uriOf } from './batch-load.ts';
import { type Call, type ChaosClient, textOf } from './client.ts';
import type { SourceFile, SourceFiles } from './files.ts';
import { type Partners, untilPut } from './partners.ts';
import { type Random, randomFrom } from './random.ts';

const MiB = 1 << 20;
/** The load waits while more client requests than this are in progress. */
const MAX_UNDERWAY = 60;
/** Files on the small disk. They fit if nothing else fills it. */
const SMALL_DISK_NAMES = 12;
const SMALL_DISK_FILE = MiB;
/** Names that many transfers write to, one after the other. */
const SHARED_NAMES = 10;
/** Larger files share these names, so a long run does not fill the machine. */
const LARGE = 2 * MiB;
const LARGE_NAMES = 20;
/** The first two of so many transfers use the largest file, so even a short run has some. */
const LARGEST_EVERY = 300;
const LARGEST_FIRST = 2;
/** The newest transfers, whose priority a bulk request changes. */
const BULK = 20;
const LISTS: Pick<Call, 'path' | 'accept' | 'forMs'>[] = [
  { path: '/transfers?limit=20' },
  { path: '/transfers?limit=50&offset=20' },
  { path: '/transfers?status=completed' },
  { path: '/transfers?q=bin' },
  { path: '/transfers', accept: 'text/csv' },
  { path: '/transfers/live', forMs: 2_000 },
  { path: '/batches?limit=20' },
  { path: '/flows?limit=20' },
  { path: '/webhooks' },
];
const FOREIGN: Pick<Call, 'method' | 'path' | 'body'>[] = [
  { method: 'GET', path: '' },
  { method: 'GET', path: '/events' },
  { method: 'GET', path: '/receipt' },
  { method: 'DELETE', path: '' },
  { method: 'PATCH', path: '', body: { priority: 'low' } },
  { method: 'POST', path: '/retry' },
];

export interface Load {
  /** Ids from a 201. */
  created: Set<string>;
  /** Sends nothing new; returns when every client has its last answer. */
  stop(): Promise<void>;
}

interface PlannedTransfer {
  create(): Promise<string | null>;
  /** Retries the transfer at this path of the API. */
  retry(path: string): Promise<string | null>;
}

interface LoadDeps {
  seed: number;
  rate: number;
  client: ChaosClient;
  /** Has the scope `admin` in the same account. Null: nothing is aborted. */
  admin: ChaosClient | null;
  /** Folder of the files that its transfers write; empty, or with a slash at its end. */
  folder: string;
  /** Transfers of another account. */
  strangers(): Set<string>;
  partners: Partners;
  files: SourceFiles;
  /** True while too many transfers are open. */
  isFull(): boolean;
}

/**
 * Creates transfers at the given rate. Changes, retries, repeats, aborts and reads some of them.
 */
export function startLoad(deps: LoadDeps): Load {
  const { seed, rate, client, admin, folder, strangers, partners, files, isFull } = deps;
  const random = randomFrom(seed, 'transfers');
  const created = new Set<string>();
  const clients = new Set<Promise<void>>();
  const stopping = new AbortController();
  const running = run();

  async function run(): Promise<void> {
    for (let n = 1; ; n++) {
      await sleep(random.gapMs(rate), undefined, { signal: stopping.signal }).catch(
        () => undefined,
      );
      while (!stopping.signal.aborted && (isFull() || clients.size > MAX_UNDERWAY))
        await sleep(100);
      if (stopping.signal.aborted) return;
      const one = oneClient(n, randomFrom(seed, `transfer ${n}`)).finally(() =>
        clients.delete(one),
      );
      clients.add(one);
    }
  }

  async function oneClient(n: number, own: Random): Promise<void> {
    const transfer = chooseTransfer(n, own);
    const id = await transfer.create();
    if (id === null) return;
    for (const step of chooseSteps(own, id, transfer)) {
      if (stopping.signal.aborted) return;
      await step();
    }
  }

  /** What a client does after the answer. */
  function chooseSteps(
    own: Random,
    id: string,
    { create, retry }: PlannedTransfer,
  ): (() => Promise<unknown>)[] {
    const path = `/transfers/${id}`;
    const [early, abortAfter, againAfter] = [
      own.chance(0.5) ? 0 : own.whole(1, 2_000),
      own.whole(200, 3_000),
      own.whole(500, 20_000),
    ];
    const priority = own.pick(['low', 'normal', 'high']);
    const other = (what: string, call: Call) => client.send({ kind: 'other', what }, call);
    const steps: [probability: number, step: () => Promise<unknown>][] = [
      [0.05, () => other('set priority', { method: 'PATCH', path, body: { priority } })],
      [
        0.02,
        () =>
          other('bulk', {
            method: 'POST',
            path: '/transfers/bulk',
            body: { action: 'set_priority', priority, ids: [...created].slice(-BULK) },
            idempotencyKey: `bulk-${id}`,
          }),
      ],
      [
        0.06,
        () =>
          pause(early).then(() =>
            client.send({ kind: 'cancel', transferId: id }, { method: 'DELETE', path }),
          ),
      ],
      // Rejected unless the transfer was cancelled or has failed.
      [0.1, () => retry(path)],
      [0.2, () => client.send({ kind: 'detail', transferId: id }, { method: 'GET', path })],
      [admin ? 0.02 : 0, () => pause(abortAfter).then(() => abort(path))],
      [0.1, () => other('list', { method: 'GET', ...own.pick(LISTS) })],
      [0.03, () => other('history', { method: 'GET', path: `${path}/events` })],
      [0.1, () => askForForeign(own)],
      // A client that crashed after the answer sends the same request again.
      [0.1, () => pause(againAfter).then(create)],
    ];
    return steps.filter(([probability]) => own.chance(probability)).map(([, step]) => step);
  }

  /** Another account must not see, change or repeat a transfer. */
  async function askForForeign(own: Random): Promise<void> {
    const transferId = own.pick([...strangers()].slice(-BULK).concat(''));
    if (transferId === '') return;
    const call = own.pick(FOREIGN);
    const path = `/transfers/${transferId}${call.path}`;
    const what = `${call.method} ${call.path}`;
    await client.send({ kind: 'foreign', transferId, what }, { ...call, path, once: true });
  }

  const abort = async (path: string) =>
    admin?.send(
      { kind: 'other', what: 'abort' },
      { method: 'POST', path: `${path}/abort`, once: true },
    );

  /** Plans a transfer and its requests: each call sends the same request. */
  function chooseTransfer(n: number, own: Random): PlannedTransfer {
    const server = own.pick(partners.servers);
    const source = server.endpoint;
    const destination = own.pick(partners.endpoints);
    const onSmallDisk = destination === partners.smallDisk?.endpoint;
    const file = chooseFile(n, own, onSmallDisk);
    const after = file && !onSmallDisk && file.size <= LARGE ? chooseAfter(own) : null;
    const sourcePath =
      file === null ? `outbox/missing-${n}.bin` : after ? `${folder}once/${n}.bin` : file.path;
    const path = onSmallDisk
      ? `small-${n % SMALL_DISK_NAMES}.bin`
      : `${folder}${nameFor(n, own, file)}`;
    // A repetition without a key is another transfer, which would not find a source that has gone.
    const hasKey = own.chance(0.9) || after !== null;
    const idempotencyKey = hasKey ? `chaos-${seed}-${n}` : null;
    const body = {
      source_uri: uriOf(source, sourcePath),
      destination_uri: uriOf(destination, path),
      priority: own.pick(['low', 'normal', 'normal', 'high']),
      metadata: { order: String(n) },
      ...(own.chance(0.1) ? { notify_on_complete: true } : {}),
      ...(after && { after }),
    };
    let isPut: Promise<void> | null = null;
    const put = async () => {
      if (!after || !file) return;
      isPut ??= untilPut(server, sourcePath, files.contentOf(file));
      await isPut;
    };
    const send = async (call: Pick<Call, 'path' | 'body'> & { idempotencyKey: string | null }) => {
      const answer = await client.send(
        {
          kind: 'create',
          idempotencyKey: call.idempotencyKey,
          source: { endpoint: source.name, path: sourcePath },
          destination: { endpoint: destination.name, path },
          file: file && { size: file.size, sha256: file.sha256 },
          transferId: null,
          replayed: false,
        },
        { ...call, method: 'POST' },
      );
      const id = answer?.status === 201 ? textOf(answer, 'id') : null;
      if (id !== null) created.add(id);
      return id;
    };
    return {
      create: () => put().then(() => send({ path: '/transfers', body, idempotencyKey })),
      retry: (of) => send({ path: `${of}/retry`, idempotencyKey: `retry-${seed}-${n}` }),
    };
  }

  function chooseFile(n: number, own: Random, onSmallDisk: boolean): SourceFile | null {
    if (own.chance(0.03)) return null;
    if (onSmallDisk) return files.choose(own, SMALL_DISK_FILE);
    return n % LARGEST_EVERY < LARGEST_FIRST ? files.largest : files.choose(own);
  }

  async function pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: stopping.signal }).catch(() => undefined);
  }

  return {
    created,
    async stop() {
      stopping.abort();
      await running;
      await Promise.all(clients);
    },
  };
}

/** What follows some transfers. The source is a file of their own, because it does not stay. */
function chooseAfter(own: Random): object | null {
  if (!own.chance(0.12)) return null;
  return {
    source: own.pick(['delete', { move_to: 'archive' }]),
    ...(own.chance(0.3) && { destination_marker: '.ready' }),
  };
}

function nameFor(n: number, own: Random, file: SourceFile | null): string {
  if (file && file.size > LARGE) return `inbox/large-${own.whole(1, LARGE_NAMES)}.bin`;
  if (own.chance(0.15)) return `inbox/shared-${own.whole(1, SHARED_NAMES)}.bin`;
  return `inbox/${n % 50}/${own.chance(0.05) ? `ü %${n}#` : n}.bin`;
}
