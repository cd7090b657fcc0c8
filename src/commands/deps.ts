import type { EventStore } from '../adapters/event-store/port.ts';
import type { Vault } from '../adapters/vault.ts';
import type { Endpoint } from '../domain/endpoints/endpoint.ts';
import type { Route } from '../domain/endpoints/route.ts';
import type { Flow, ShownFlow } from '../domain/flows/flow.ts';
import type { ProjectionName } from '../domain/projection-name.ts';
import type { AttemptFigures, Priority } from '../domain/transfers/transfer.ts';

/** The queue that a new transfer would join. */
export interface QueueEstimate {
  /** All endpoints that are currently configured. */
  endpoints: readonly Endpoint[];
  /** Number of the account's transfers that have not ended. */
  openTransfers: number;
  /**
   * Returns the milliseconds until a mover is likely to start it, on the slowest of these routes. 0
   * if a mover and a place at the endpoints are free.
   */
  startsInMs(routes: readonly Route[]): number;
}

/** The dependencies of the commands. The composition root creates them. */
export interface CommandDeps {
  store: EventStore;
  vault: Vault;
  /** Returns all endpoints that are currently configured. */
  endpoints(): Promise<Endpoint[]>;
  /** Returns ids of open transfers that use an endpoint, oldest first, at most ten. */
  openTransfersOf(endpointId: string): Promise<string[]>;
  /** Returns the last figures that the mover noted; null if no mover works on the transfer. */
  progressOf(transferId: string): Promise<AttemptFigures | null>;
  queueEstimate(accountId: string, priority: Priority): Promise<QueueEstimate>;
  countWebhooks(accountId: string): Promise<number>;
  countFlows(accountId: string): Promise<number>;
  /** Returns the active flows of all accounts. */
  activeFlows(): Promise<Flow[]>;
  /** Returns the ids of batches that use an endpoint and do not have all of their transfers yet. */
  batchesUsing(endpointId: string): Promise<string[]>;
  /**
   * Returns a flow as its read model shows it, at a revision of its stream. Null if it has none.
   */
  shownFlow(flowId: string): Promise<ShownFlow | null>;
  /**
   * Returns why webhooks must not be delivered to a URL, as text that follows the field name; null
   * if they may. Does not resolve the name.
   */
  objectionToWebhookUrl(url: string): string | null;
  /**
   * Resolves with true once a projection shows the event at `position`; with false after 5 s. A
   * caller that goes on meanwhile says that the wait is not urgent.
   */
  waitFor(
    projection: ProjectionName,
    position: bigint | null,
    isUrgent?: boolean,
  ): Promise<boolean>;
  /** Waits as `waitFor` for a reader, who does not wait while the projections are known to lag. */
  waitToRead(projection: ProjectionName, position: bigint | null): Promise<boolean>;
  /**
   * Resolves with true once a projection shows every event that the log holds now; with false
   * after 5 s.
   */
  catchUp(projection: ProjectionName): Promise<boolean>;
  /**
   * Runs `work` under an advisory lock. The lock can be lost meanwhile, so it only saves work and
   * decides nothing. `assertHeld` throws `unavailable` after the loss; call it before each append.
   */
  exclusively<T>(name: string, work: (assertHeld: () => void) => Promise<T>): Promise<T>;
  maxOpenTransfers: number;
}
