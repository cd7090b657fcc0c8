import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, type ChaosClient, textOf } from './client.ts';
import type { Partners } from './partners.ts';
import { RECEIVERS } from './plan.ts';
import { randomFrom } from './random.ts';
import type { WebhookLoad } from './webhook-load.ts';

/** Average time between two actions. */
const ACTIONS_PER_SECOND = 0.5;
/** Longer than any request with the old key takes. */
const KEY_OVERLAP_MS = 20_000;
const NEW_KEY_TRIES = 30;
const NEW_KEY_PAUSE_MS = 2_000;
const CLIENT_SCOPES = ['transfers:write', 'webhooks:write', 'flows:read', 'audit:read', 'observe'];

export interface Administration {
  /** Stops it. */
  stop(): Promise<void>;
  /**
   * Resumes endpoints that are still paused, and looks up the results of requests without an
   * answer. Call it after all faults are lifted.
   */
  finish(): Promise<void>;
}

interface OperatorRoutesDeps {
  seed: number;
  /** Has the scope `admin`. */
  client: ChaosClient;
  /** Sends one request with this key and returns its status; null without an answer. */
  tryKey(key: string): Promise<number | null>;
  useKey(key: string): void;
  partners: Partners;
  endpointIds: Map<string, string>;
  webhooks: WebhookLoad;
  finding(subject: string, detail: string): void;
}

/** Creates a key of the load. Returns null if the service does not answer. */
export async function createClientKey(
  client: ChaosClient,
  n: number,
  account = 'acc_default',
): Promise<{ id: string; key: string } | null> {
  const body = { name: `load ${n}`, scopes: CLIENT_SCOPES, account };
  const about = { kind: 'other' as const, what: 'create key' };
  const answer = await client.send(about, {
    method: 'POST',
    path: '/keys',
    body,
    idempotencyKey: `chaos-key-${account}-${n}`,
  });
  const [id, key] = [textOf(answer, 'id'), textOf(answer, 'key')];
  // A replayed answer does not contain the key, so the next rotation creates another one.
  return answer?.status === 201 && id !== null && key !== null ? { id, key } : null;
}

/** Acts as operators and webhook owners do while transfers move. */
export function startAdministration(
  deps: OperatorRoutesDeps,
  first: { id: string; key: string },
): Administration {
  const { seed, client, partners, endpointIds, webhooks } = deps;
  const random = randomFrom(seed, 'administration');
  const stopping = new AbortController();
  const paused = new Set<string>();
  const working = new Set<Promise<void>>();
  let current = first;
  let keys = 1;

  const actions = {
    pause: pauseForAWhile,
    change: changeEndpoint,
    rotateKey,
    rebuildTransfers: () => rebuild('transfers'),
    rebuildCatalog: () => rebuild('catalog'),
    rebuildSearch: () => rebuild('transfer_search'),
    rebuildAudit: () => rebuild('audit'),
    rebuildBatches: () => rebuild('batches'),
    rebuildFlows: () => rebuild('flows'),
    rebuildDispatch: () => rebuild('dispatch'),
    replay: () => webhooks.replay(random),
    replayAgain: () => webhooks.replay(random),
    move: () => webhooks.move(random),
    rotateSecret: () => webhooks.rotateSecret(random),
    retryFailed: () => webhooks.retryFailed(random),
    register: async () => void (await webhooks.register(random.pick(RECEIVERS))),
    remove: () => webhooks.removeLast(),
  };
  const nextAction = random.bag(Object.values(actions));
  const running = run();

  async function run(): Promise<void> {
    for (;;) {
      await pause(random.gapMs(ACTIONS_PER_SECOND));
      if (stopping.signal.aborted) return;
      const work = nextAction()().finally(() => working.delete(work));
      working.add(work);
    }
  }

  async function pauseForAWhile(): Promise<void> {
    const { name } = random.pick(partners.endpoints);
    if (paused.has(name)) return;
    paused.add(name);
    const answer = await switchEndpoint('pause', name);
    await pause(random.whole(1_000, 8_000));
    // A request without its answer may be carried out after the next one: `finish` resumes again.
    if (answer?.status === 200) await resume(name);
    else await switchEndpoint('resume', name);
  }

  async function resume(name: string): Promise<void> {
    const answer = await switchEndpoint('resume', name);
    if (answer?.status === 200) paused.delete(name);
  }

  let switches = 0;
  function switchEndpoint(verb: 'pause' | 'resume', name: string): Promise<Answer | null> {
    const path = `/endpoints/${endpointIds.get(name)}/${verb}`;
    const idempotencyKey = `chaos-${verb}-${++switches}`;
    return client.send(
      { kind: 'other', what: `${verb} endpoint` },
      { method: 'POST', path, idempotencyKey },
    );
  }

  async function changeEndpoint(): Promise<void> {
    const { name, request } = random.pick(partners.endpoints);
    const body = { ...request, max_connections: random.whole(4, 16) };
    await client.send(
      { kind: 'other', what: 'change endpoint' },
      { method: 'PUT', path: `/endpoints/${endpointIds.get(name)}`, body },
    );
  }

  async function rebuild(name: string): Promise<void> {
    const idempotencyKey = `chaos-rebuild-${++switches}`;
    await client.send(
      { kind: 'other', what: 'rebuild' },
      { method: 'POST', path: `/projections/${name}/rebuild`, idempotencyKey },
    );
  }

  async function rotateKey(): Promise<void> {
    const next = await createClientKey(client, ++keys);
    if (!next) return;
    // The 201 may come before the read models show the key: a careful operator tries a key before
    // use.
    for (let tries = 0; (await deps.tryKey(next.key)) !== 200; tries++) {
      if (tries === NEW_KEY_TRIES) return;
      await sleep(NEW_KEY_PAUSE_MS);
    }
    const old = current;
    current = next;
    deps.useKey(next.key);
    await sleep(KEY_OVERLAP_MS);
    const about = { kind: 'other' as const, what: 'revoke key' };
    const path = `/keys/${old.id}/revoke`;
    const answer = await client.send(about, {
      method: 'POST',
      path,
      idempotencyKey: `chaos-revoke-${old.id}`,
    });
    if (answer?.status !== 200) return;
    const status = await deps.tryKey(old.key);
    if (status !== null && status < 400)
      deps.finding(old.id, `the service has answered ${status} to a key that was revoked before`);
  }

  async function pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: stopping.signal }).catch(() => undefined);
  }

  return {
    async stop() {
      stopping.abort();
      await running;
      await Promise.all(working);
    },
    async finish() {
      await Promise.all([...paused].map(resume));
      if (paused.size > 0)
        deps.finding(
          [...paused].join(', '),
          'the endpoint could not be resumed after all faults were lifted',
        );
      await webhooks.finish();
    },
  };
}
