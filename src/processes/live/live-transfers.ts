import { aborted } from '../../concurrency/aborted.ts';
import { createSemaphore } from '../../concurrency/semaphore.ts';
import { isEnded } from '../../domain/transfers/transfer.ts';
import { createListener, type FollowedTransfer } from './listener.ts';
import { createLiveView, type LiveView, type LiveViewDeps } from './live-view.ts';

/** Views that query at a time: many accounts must not take the whole pool of connections. */
const VIEWS_AT_ONCE = 4;

export interface LiveUpdate {
  type: 'snapshot' | 'changes';
  transfers: FollowedTransfer[];
  /** Transfers that have ended and are in no update: of the followed account, or of all. */
  moreEnded: number;
}

export interface LiveTransfers {
  /**
   * Yields a snapshot of the open transfers, then their changes, including ends, until the signal
   * aborts. The first changes repeat the ends of the last seconds. Yields null after `quietMs`
   * without a change. Follows only `transferId` and `account`, if they are given. A slow reader
   * gets the latest state of each transfer, not every state. At high rates, further ended transfers
   * are counted instead of sent.
   */
  follow(options: {
    transferId?: string | undefined;
    account: string | null;
    quietMs: number;
    signal: AbortSignal;
  }): AsyncGenerator<LiveUpdate | null>;
}

/**
 * Creates a live view of transfers. The listeners of an account, and those of all accounts, share
 * three queries a second. So transfers of others do not fill the limits of an account.
 */
export function createLiveTransfers(deps: Omit<LiveViewDeps, 'queries'>): LiveTransfers {
  const views = new Map<string | null, LiveView>();
  const queries = createSemaphore(VIEWS_AT_ONCE);

  function viewOf(account: string | null): LiveView {
    const view =
      views.get(account) ??
      createLiveView({ ...deps, queries }, account, () => views.delete(account));
    views.set(account, view);
    return view;
  }

  return {
    async *follow({ transferId, account, quietMs, signal }) {
      const listener = createListener(transferId);
      signal.addEventListener('abort', listener.wake);
      const view = viewOf(account);
      try {
        const transfers = await Promise.race([view.join(listener), aborted(signal)]);
        if (!transfers) return;
        listener.take();
        // A list that the reader loaded just before may lack them.
        if (transferId === undefined)
          for (const live of transfers)
            if (isEnded(live.transfer)) listener.add(live.transfer.facts.transfer_id, live);
        yield {
          type: 'snapshot',
          transfers: transfers.filter(({ transfer }) =>
            transferId === undefined
              ? !isEnded(transfer)
              : transfer.facts.transfer_id === transferId,
          ),
          moreEnded: 0,
        };
        while (!signal.aborted) {
          await listener.wait(quietMs);
          if (signal.aborted) return;
          const changes = listener.take();
          yield changes && { type: 'changes', ...changes };
        }
      } finally {
        view.leave(listener);
      }
    },
  };
}
