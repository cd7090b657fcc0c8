/*
 * By how much the counts of transfers change with a batch of events.
 */
import type { Transfer, TransferState } from '../../domain/transfers/transfer.ts';

/** What the counts follow: a transfer before, and after. Undefined before its first event. */
export interface StateChange {
  before: TransferState | undefined;
  /** Null if the transfer left the log. */
  after: Transfer | null;
}

export interface CountChange {
  account: string;
  status: string;
  /** Start of the hour, ISO 8601. */
  hour: string;
  by: number;
}

/** Returns by how much the counts of transfers change. */
export function countChanges(transfers: StateChange[]): CountChange[] {
  const changes = new Map<string, CountChange>();
  const add = (state: Transfer, by: number) => {
    const { account_id, created_at } = state.facts;
    const hour = `${created_at.slice(0, 13)}:00:00.000Z`;
    const key = JSON.stringify([account_id, state.status, hour]);
    const change = changes.get(key) ?? { account: account_id, status: state.status, hour, by: 0 };
    changes.set(key, { ...change, by: change.by + by });
  };
  for (const { before, after } of transfers) {
    if (before && before.status !== 'none') add(before, -1);
    if (after) add(after, 1);
  }
  return [...changes.values()].filter(({ by }) => by !== 0);
}

export interface BatchChange {
  batch: string;
  status: string;
  by: number;
  bytes: number;
}

/** Returns by how much the counts of batches change. */
export function batchChanges(transfers: StateChange[]): BatchChange[] {
  const changes = new Map<string, BatchChange>();
  const add = ({ status, facts }: Transfer, by: number) => {
    if (facts.batch_id === undefined) return;
    const key = `${facts.batch_id} ${status}`;
    const change = changes.get(key) ?? { batch: facts.batch_id, status, by: 0, bytes: 0 };
    const bytes = change.bytes + by * (facts.size_bytes ?? 0);
    changes.set(key, { ...change, by: change.by + by, bytes });
  };
  for (const { before, after } of transfers) {
    if (before && before.status !== 'none') add(before, -1);
    if (after) add(after, 1);
  }
  return [...changes.values()].filter(({ by, bytes }) => by !== 0 || bytes !== 0);
}
