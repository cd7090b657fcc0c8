import { setTimeout as sleep } from 'node:timers/promises';
import { findLeader, type Nodes, resign, runCommand } from '../support/event-store/nodes.ts';
import type { TcpProxy } from '../support/network/tcp-proxy.ts';
import type { Partners } from './partners.ts';
import type { FaultName, PlannedFault, ProcessName, ReceiverName } from './plan.ts';
import type { Supervisor } from './processes.ts';
import { randomFrom } from './random.ts';
import type { Receivers } from './receivers.ts';
import type { Stores } from './stores.ts';
import type { EvidenceWriter } from './writer.ts';

const LIFT_ATTEMPTS = 5;
const SLOW_ROUND_TRIP_MS = 300;
const SLOW_BYTES_PER_SECOND = 256 << 10;

/** Lifts a fault. */
type Lift = () => void | Promise<void>;
/** Injects a fault; a text says why it cannot be injected. */
type Inject = (target: string) => Promise<Lift | string>;

export interface Chaos {
  /** Faults that are active now. */
  current(): string[];
  /** Why planned faults were not injected, and how often. */
  skipped: Map<string, number>;
  /** Stops the injection and lifts all faults, then returns. */
  stop(): Promise<void>;
}

interface ChaosDeps {
  seed: number;
  stores: Stores;
  partners: Partners;
  receivers: Receivers;
  supervisor: Supervisor;
  evidence: EvidenceWriter;
  finding(subject: string, detail: string): void;
}

/** Injects the planned faults, each at its time. Skips a fault whose target has another fault. */
export function startChaos(plan: PlannedFault[], deps: ChaosDeps): Chaos {
  const { stores, partners, receivers, supervisor, evidence } = deps;
  const { postgres } = stores;
  const random = randomFrom(deps.seed, 'what faults hit');
  const stopping = new AbortController();
  const busy = new Set<string>();
  const current = new Set<string>();
  const skipped = new Map<string, number>();
  const injected: Promise<void>[] = [];

  const onProcess = (inject: (target: string) => Promise<Lift>) => async (target: string) =>
    supervisor.find(target).ready ? inject(target) : 'the process is not ready';
  const onPartner = (strike: (proxy: TcpProxy) => Promise<Lift>) => async (target: string) => {
    const partner = partners.servers.find(({ name }) => name === target);
    return partner ? strike(partner.proxy) : `there is no ${target}`;
  };
  const onPostgres = (strike: (proxy: TcpProxy) => Promise<Lift>) => (target: string) =>
    strike(stores.postgresProxies[target as ProcessName]);
  const onEventStore = (strike: (proxy: TcpProxy) => Promise<Lift>) => async (target: string) =>
    stores.eventStoreProxies
      ? strike(stores.eventStoreProxies[target as ProcessName])
      : 'there is no event store behind a proxy';

  const faults: Record<FaultName, Inject> = {
    'process.kill': onProcess(async (target) => {
      const killed = supervisor.find(target);
      await killed.kill();
      return () => killed.start();
    }),
    'process.freeze': onProcess(async (target) => {
      const frozen = supervisor.find(target);
      frozen.freeze();
      return () => frozen.thaw();
    }),
    'process.restart': onProcess(async (target) => {
      const restarted = supervisor.find(target);
      await restarted.stop();
      return () => restarted.start();
    }),
    async 'postgres.restart'() {
      await postgres.stop();
      return postgres.start;
    },
    async 'postgres.kill'() {
      postgres.kill();
      return postgres.start;
    },
    async 'postgres.freeze'() {
      postgres.freeze();
      return postgres.thaw;
    },
    async 'postgres.kill_backend'() {
      return (await postgres.killBackend((count) => random.whole(0, Math.max(0, count - 1))))
        ? nothing
        : 'there is no session';
    },
    async 'postgres.terminate_backends'() {
      const share = random.pick([0.1, 0.5, 1]);
      return (await postgres.terminateBackends(() => random.chance(share))) > 0
        ? nothing
        : 'no session was chosen';
    },
    'postgres_network.cut': onPostgres(cut),
    'postgres_network.slow': onPostgres(slow),
    'postgres_network.silent': onPostgres(silent),
    'postgres_network.refuse': onPostgres(refuse),
    'eventstore.restart': onLeader(stores, async (node) => commands(node, 'STOP', 'START')),
    'eventstore.freeze': onLeader(stores, async (node) => commands(node, 'FREEZE', 'THAW')),
    'eventstore.resign': onLeader(stores, async (node, nodes) => {
      if (nodes.hosts.length === 1) return 'the event store is no cluster';
      await resign(nodes, node);
      return nothing;
    }),
    'eventstore_network.cut': onEventStore(cut),
    'eventstore_network.slow': onEventStore(slow),
    'eventstore_network.silent': onEventStore(silent),
    'eventstore_network.refuse': onEventStore(refuse),
    'partner.cut': onPartner(cut),
    'partner.slow': onPartner(slow),
    'partner.silent': onPartner(silent),
    'partner.refuse': onPartner(refuse),
    async 'partner.restart'(target) {
      const restart = partners.servers.find(({ name }) => name === target)?.restart;
      if (!restart) return `${target} can't be restarted`;
      await restart.down();
      return restart.up;
    },
    async 'receiver.fail'(target) {
      receivers.behave(target as ReceiverName, 500);
      return () => receivers.behave(target as ReceiverName, null);
    },
    async 'receiver.hang'(target) {
      receivers.behave(target as ReceiverName, 'hang');
      return () => receivers.behave(target as ReceiverName, null);
    },
    async 'disk.full'() {
      partners.smallDisk?.fill();
      return partners.smallDisk?.empty ?? 'there is no small disk';
    },
  };

  const running = run();

  async function run(): Promise<void> {
    const begun = Date.now();
    for (const planned of plan) {
      await sleep(Math.max(0, begun + planned.atMs - Date.now()), undefined, {
        signal: stopping.signal,
      }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      injected.push(one(planned));
    }
  }

  async function one({ fault, target, lastsMs }: PlannedFault): Promise<void> {
    // A process and its connection to a store are separate targets.
    const place = fault.includes('_network.') ? `${fault.split('.')[0]} of ${target}` : target;
    if (busy.has(place)) return skip(`${fault}: its target is under another fault`);
    busy.add(place);
    const name = `${fault} ${target}`;
    current.add(name);
    const at = new Date().toISOString();
    try {
      const lift = await faults[fault](target).catch((error: Error) => error.message);
      if (typeof lift === 'string') return skip(`${fault}: ${lift}`);
      if (lastsMs > 0)
        await sleep(lastsMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      await lifted(name, lift);
      evidence.fault({
        at,
        until: lift === nothing ? null : new Date().toISOString(),
        fault,
        target,
      });
    } finally {
      busy.delete(place);
      current.delete(name);
    }
  }

  /** A fault that stays would look like one of the service. */
  async function lifted(name: string, lift: Lift): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await lift();
      } catch (error) {
        if (attempt === LIFT_ATTEMPTS)
          return deps.finding(
            name,
            `the run could not lift this fault: ${(error as Error).message}`,
          );
        await sleep(1_000);
      }
    }
  }

  function skip(reason: string): void {
    skipped.set(reason, (skipped.get(reason) ?? 0) + 1);
  }

  return {
    current: () => [...current],
    skipped,
    async stop() {
      stopping.abort();
      await running;
      await Promise.all(injected);
    },
  };
}

function nothing(): void {}

/** Strikes the leader of the event store, or its only node. */
function onLeader(
  { eventStore }: Stores,
  strike: (node: string, nodes: Nodes) => Promise<Lift | string>,
) {
  return async () => {
    if (!eventStore) return 'the log is in Postgres';
    const { nodes } = eventStore;
    const leader = await findLeader(nodes);
    return leader === null ? 'the event store has no leader' : strike(leader, nodes);
  };
}

/** Runs one of the operator's commands, and the other to lift the fault. */
async function commands(node: string, strike: string, lift: string): Promise<Lift | string> {
  const [struck, lifted] = [strike, lift].map((name) => process.env[`CHAOS_EVENTSTORE_${name}`]);
  if (!struck || !lifted)
    return `CHAOS_EVENTSTORE_${strike} and CHAOS_EVENTSTORE_${lift} are not set`;
  await runCommand(struck, node);
  return () => runCommand(lifted, node);
}

async function cut(proxy: TcpProxy): Promise<Lift> {
  proxy.cut();
  return nothing;
}

async function slow(proxy: TcpProxy): Promise<Lift> {
  proxy.delay(SLOW_ROUND_TRIP_MS);
  proxy.throttle(SLOW_BYTES_PER_SECOND);
  return () => {
    proxy.delay(0);
    proxy.throttle(Number.POSITIVE_INFINITY);
  };
}

async function silent(proxy: TcpProxy): Promise<Lift> {
  proxy.stall(true);
  return () => proxy.stall(false);
}

/** Acts like a host that is shut down: cuts open connections, and refuses new ones. */
async function refuse(proxy: TcpProxy): Promise<Lift> {
  await proxy.refuse(true);
  proxy.cut();
  return () => proxy.refuse(false);
}
