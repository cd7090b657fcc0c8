/*
 * The bandwidth limits of the endpoints that a mover process uses.
 *
 * A limit is for all transfers of its endpoint, in all processes. Each process learns once a second
 * how many transfers the other processes move there (`bandwidthInUse`), and counts its own. It
 * divides the limit by all of them, and takes the shares of its own transfers: one rate for those
 * that read from the endpoint, one for those that write to it. The thread of that side paces the
 * files (src/adapters/files/threads): its files take turns, so what one does not use is for the
 * others.
 *
 * What can go wrong:
 * - Postgres does not answer. The last known limit stays, with its windows, and so do the shares.
 * - A process freezes. The others leave its share unused until its leases expire.
 * - A thread fails and forgets its rates. They are set again within a second.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Side } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { pause } from '../../concurrency/pause.ts';
import { limitAt } from '../../domain/endpoints/bandwidth.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog/queries.ts';
import { bandwidthInUse } from './bandwidth-in-use.ts';

const REFRESH_MS = 1_000;

const SIDES: Side[] = ['source', 'destination'];

type LimitedEndpoint = Pick<ConfiguredEndpoint, 'endpoint_id' | 'name' | 'bandwidth'>;

export interface BandwidthDeps {
  sql: Sql;
  processId: string;
  logger: Pick<Logger, 'warn'>;
  /** Sets the rate of one side of an endpoint in this process. Null for no limit. */
  setRate(side: Side, endpointId: string, bytesPerSecond: number | null): void;
}

/** A transfer that uses two endpoints. */
export interface BandwidthUse {
  /** True while the limit of one of them holds. */
  limited(): boolean;
  end(): void;
}

export interface BandwidthLimits {
  /** Counts a transfer until its `end`. Calls `onLimit` when a limit begins to hold. */
  use(endpoints: Record<Side, LimitedEndpoint>, onLimit: () => void): BandwidthUse;
  /** Learns the limits and the transfers of other processes. Never rejects. */
  refresh(): Promise<void>;
  /** Returns the limits that hold now, for metrics. */
  rates(): { endpoint: string; side: Side; rate: number }[];
}

interface Entry {
  endpoint: LimitedEndpoint;
  /** Transfers of this process. */
  own: Record<Side, number>;
  /** Transfers of other processes; one that uses both sides counts twice. */
  others: number;
  limit: number | null;
  /** Called when a limit begins to hold. */
  listeners: Set<() => void>;
}

export function createBandwidthLimits(deps: BandwidthDeps): BandwidthLimits {
  const entries = new Map<string, Entry>();
  /** The rates that were set, without those of no limit. */
  const rates: Record<Side, Map<string, number>> = { source: new Map(), destination: new Map() };
  let refreshing: Promise<void> | null = null;

  function entryOf(endpoint: LimitedEndpoint): Entry {
    const known = entries.get(endpoint.endpoint_id);
    if (known) return known;
    const own = { source: 0, destination: 0 };
    const entry = { endpoint, own, others: 0, limit: null, listeners: new Set<() => void>() };
    entries.set(endpoint.endpoint_id, entry);
    return entry;
  }

  /** Sets the rates that follow from the limit of now and the transfers that are known. */
  function apply(entry: Entry): void {
    const { endpoint, own, others, listeners } = entry;
    const begins = entry.limit === null;
    entry.limit = limitAt(endpoint.bandwidth, new Date());
    const shares = own.source + own.destination + others;
    for (const side of SIDES) {
      if (own[side] === 0) continue;
      const rate = entry.limit === null ? null : (entry.limit * own[side]) / shares;
      setRate(side, endpoint.endpoint_id, rate);
    }
    if (begins && entry.limit !== null) for (const listener of [...listeners]) listener();
  }

  function setRate(side: Side, endpointId: string, rate: number | null): void {
    // A rate is set again and again, because a thread that failed has forgotten it.
    if (rate === null && !rates[side].delete(endpointId)) return;
    if (rate !== null) rates[side].set(endpointId, rate);
    deps.setRate(side, endpointId, rate);
  }

  async function learn(): Promise<void> {
    const found = await bandwidthInUse(deps.sql, deps.processId, [...entries.keys()]);
    for (const { endpoint_id, bandwidth, others } of found) {
      const entry = entries.get(endpoint_id);
      if (!entry) continue;
      entry.endpoint = { ...entry.endpoint, bandwidth };
      entry.others = others;
      apply(entry);
    }
  }

  async function refresh(): Promise<void> {
    // A window may begin while Postgres does not answer.
    for (const entry of entries.values()) apply(entry);
    if (entries.size === 0) return;
    refreshing ??= learn()
      .catch((error: unknown) =>
        deps.logger.warn({ err: error }, 'the bandwidth limits could not be read'),
      )
      .finally(() => {
        refreshing = null;
      });
    await refreshing;
  }

  return {
    use({ source, destination }, onLimit) {
      const used = [
        { side: 'source' as const, entry: entryOf(source) },
        { side: 'destination' as const, entry: entryOf(destination) },
      ];
      for (const { side, entry } of used) {
        const isNew = entry.own.source + entry.own.destination === 0;
        entry.own[side]++;
        apply(entry);
        entry.listeners.add(onLimit);
        // The other processes may have taken up the whole limit.
        if (isNew && entry.limit !== null) void refresh();
      }
      return {
        limited: () => used.some(({ entry }) => entry.limit !== null),
        end() {
          for (const { side, entry } of used) {
            entry.own[side]--;
            entry.listeners.delete(onLimit);
            if (entry.own.source + entry.own.destination > 0) apply(entry);
            else entries.delete(entry.endpoint.endpoint_id);
          }
        },
      };
    },
    refresh,
    rates: () =>
      [...entries.values()].flatMap(({ endpoint: { endpoint_id, name }, own }) =>
        SIDES.filter((side) => own[side] > 0).flatMap((side) => {
          const rate = rates[side].get(endpoint_id);
          return rate === undefined ? [] : [{ endpoint: name, side, rate }];
        }),
      ),
  };
}

/**
 * Refreshes the limits until the signal aborts and no transfer moves. A change holds within two
 * seconds.
 */
export async function keepLimits(
  { refresh }: Pick<BandwidthLimits, 'refresh'>,
  signal: AbortSignal,
  moving: () => boolean,
): Promise<void> {
  while (!signal.aborted || moving()) {
    await Promise.race([refresh(), sleep(REFRESH_MS, undefined, { ref: false })]);
    await pause(REFRESH_MS, signal.aborted ? undefined : signal);
  }
}
