import { createWakeUp } from '../../concurrency/wake-up.ts';
import { isEnded } from '../../domain/transfers/transfer.ts';
import type { WaitingFor } from '../../domain/transfers/waiting-for.ts';
import type { FoundTransfer } from './queries.ts';

/** Ended transfers that wait for a slow reader, at most. The older ones are only counted. */
const ENDED_KEPT = 500;

export interface FollowedTransfer extends FoundTransfer {
  /** Why it does not move. Null if it moves or has ended. */
  waiting: WaitingFor | null;
}

export interface Changes {
  transfers: FollowedTransfer[];
  /** Further transfers that have ended. */
  moreEnded: number;
}

/** Collects for one reader what has changed since it last read. */
export interface Listener {
  /** The only transfer that it follows; undefined for all. */
  readonly transferId: string | undefined;
  add(id: string, transfer: FollowedTransfer): void;
  /** Adds transfers that have ended and are not announced one by one. */
  addEnded(count: number): void;
  /** Waits until something has changed, or `ms` have passed, or `wake` is called. */
  wait(ms: number): Promise<unknown>;
  wake(): void;
  /** Returns the changes, and forgets them. Null if there are none. */
  take(): Changes | null;
}

export function createListener(transferId: string | undefined): Listener {
  const open = new Map<string, FollowedTransfer>();
  const ended = new Map<string, FollowedTransfer>();
  const { wait, wake } = createWakeUp();
  let moreEnded = 0;

  function keepNewest(): void {
    for (const id of ended.keys()) {
      if (ended.size <= ENDED_KEPT) return;
      ended.delete(id);
      moreEnded++;
    }
  }

  return {
    transferId,
    wait,
    wake,
    add(id, transfer) {
      open.delete(id);
      (isEnded(transfer.transfer) ? ended : open).set(id, transfer);
      keepNewest();
      wake();
    },
    addEnded(count) {
      if (transferId !== undefined || count === 0) return;
      moreEnded += count;
      wake();
    },
    take() {
      const transfers = [...open.values(), ...ended.values()];
      const changes = { transfers, moreEnded };
      open.clear();
      ended.clear();
      moreEnded = 0;
      return transfers.length + changes.moreEnded > 0 ? changes : null;
    },
  };
}
