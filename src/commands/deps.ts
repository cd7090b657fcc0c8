import type { EventStore } from '../adapters/event-store/port.ts';
import type { Vault } from '../adapters/vault.ts';
import type { Endpoint } from '../domain/endpoint.ts';
import type { Priority } from '../domain/transfer.ts';

export type ProjectionName = 'transfers' | 'catalog';

/** What lies before a new transfer. */
export interface Outlook {
  /** Every endpoint that is configured now. */
  endpoints: readonly Endpoint[];
  /** Transfers of the account that have not ended. */
  openTransfers: number;
  /** Milliseconds until a mover is likely to take it up; 0 where one is free. */
  startsInMs: number;
}

/** What commands need of the world. The composition root puts it together. */
export interface CommandDeps {
  store: EventStore;
  vault: Vault;
  /** Every endpoint that is configured now. */
  endpoints(): Promise<Endpoint[]>;
  /** Ids of the open transfers that read from or write to an endpoint, oldest first, ten at most. */
  openTransfersOf(endpointId: string): Promise<string[]>;
  outlook(accountId: string, priority: Priority): Promise<Outlook>;
  countWebhooks(accountId: string): Promise<number>;
  /** What speaks against delivering webhooks to a URL, in words that follow its name; null where nothing does. Asks no name server. */
  objectionToWebhookUrl(url: string): string | null;
  /** True when a projection shows the event at `position`; false when it did not within five seconds. */
  waitFor(projection: ProjectionName, position: bigint | null): Promise<boolean>;
  /** Runs `work` while nobody else, in any process, runs work of that name. */
  exclusively<T>(name: string, work: () => Promise<T>): Promise<T>;
  maxOpenTransfers: number;
}
