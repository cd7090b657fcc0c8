import { createSemaphore } from '../concurrency/semaphore.ts';
import { PROBLEMS } from '../contract/problems.ts';
import type { BulkAnswer, BulkRequest } from '../contract/transfers/bulk.ts';
import { DomainError } from '../domain/errors.ts';
import type { Priority, Transfer } from '../domain/transfers/transfer.ts';
import { createOnce, type ReservedTransfer, reserveTransfer } from './create-transfer.ts';
import type { CommandDeps } from './deps.ts';
import type { Cause } from './handle.ts';
import { withAppend } from './remembered-streams.ts';
import { retryTransfer } from './retry.ts';
import { cancelTransfer, type KnownTransfer, loadTransfer, setPriority } from './transfers.ts';

/** Transfers that are changed at once. Their appends share the writes of the log. */
const AT_ONCE = 16;

/** What a bulk call fixes before it appends. A repeat after a crash changes the same transfers. */
export interface ReservedBulk {
  transferIds: string[];
  hasMore: boolean;
  /** For each transfer, the one that repeats it. Empty unless the action is `retry`. */
  retries: ReservedTransfer[];
}

/** A bulk call of an account. */
export interface BulkCall {
  accountId: string;
  request: BulkRequest;
  reserved: ReservedBulk;
  /** True if an earlier attempt may have carried out a part of it. */
  repeated: boolean;
  cause: Cause;
}

/** A transfer that repeats another one. */
export interface Retry {
  id: string;
  retry_of: string;
}

/** Chooses the ids of a bulk call. `find` returns the transfers that match a filter. */
export async function reserveBulk(
  { action, ids, filter = {} }: BulkRequest,
  find: (
    filter: NonNullable<BulkRequest['filter']>,
  ) => Promise<Pick<ReservedBulk, 'transferIds' | 'hasMore'>>,
): Promise<ReservedBulk> {
  const { transferIds, hasMore } = ids
    ? { transferIds: [...new Set(ids)], hasMore: false }
    : await find(filter);
  const retries = action === 'retry' ? transferIds.map(reserveTransfer) : [];
  return { transferIds, hasMore, retries };
}

/**
 * Changes many transfers of an account. Each is decided by itself: a refusal of one does not hold
 * up the others. Throws if a store is unavailable. A repeat with the same `reserved` then completes
 * the call and does nothing twice.
 *
 * Calls of an account that retry what a filter finds take turns, and leave out what another request
 * has retried since they found it: two at the same moment find the same transfers. `retriesOf`
 * reads the retries of transfers. Throws `unavailable` while the read model does not show all of
 * them.
 */
export async function carryOutBulk(
  deps: CommandDeps,
  call: BulkCall,
  retriesOf: (transferIds: string[]) => Promise<Retry[]>,
): Promise<BulkChanged> {
  const { accountId, request, reserved } = call;
  if (request.action !== 'retry' || request.ids !== undefined) return changeTransfers(deps, call);
  return deps.exclusively(`bulk-retry:${accountId}`, async (assertHeld) => {
    if (!(await deps.catchUp('transfers')))
      throw new DomainError(
        'unavailable',
        'The transfers projection is behind the log and does not show yet which transfers were ' +
          'retried; try again in a moment',
      );
    const leftOut = retriedByOthers(reserved, await retriesOf(reserved.transferIds));
    const store = withAppend(deps.store, async (...append) => {
      assertHeld();
      return deps.store.append(...append);
    });
    return changeTransfers({ ...deps, store }, call, leftOut);
  });
}

/** Cancels many transfers of an account, as `carryOutBulk`. */
export function cancelTransfers(
  deps: CommandDeps,
  accountId: string,
  found: Pick<ReservedBulk, 'transferIds' | 'hasMore'>,
  cause: Cause,
): Promise<BulkChanged> {
  const reserved = { ...found, retries: [] };
  const request = { action: 'cancel' } as const;
  return changeTransfers(deps, { accountId, request, reserved, repeated: false, cause });
}

/** Returns the transfers that have a retry, and not the one that the call has reserved. */
function retriedByOthers({ retries }: ReservedBulk, existing: Retry[]): Set<string> {
  const reserved = new Set(retries.map(({ transferId }) => transferId));
  const retried = new Set(existing.map(({ retry_of }) => retry_of));
  for (const { id, retry_of } of existing) if (reserved.has(id)) retried.delete(retry_of);
  return retried;
}

/** The answer to a bulk call, and the last position that it wrote. */
interface BulkChanged {
  answer: BulkAnswer;
  position: bigint | null;
}

async function changeTransfers(
  deps: CommandDeps,
  { accountId, request, reserved, repeated, cause }: BulkCall,
  leftOut: ReadonlySet<string> = new Set(),
): Promise<BulkChanged> {
  const { transferIds, hasMore, retries } = reserved;
  const { action } = request;
  const outcomes: Outcome[] = [];
  const taken = [...transferIds.entries()].filter(([, transferId]) => !leftOut.has(transferId));
  await createSemaphore(AT_ONCE).forEach(taken, async ([i, transferId]) => {
    const created = retries[i];
    outcomes[i] = await refusedOr(transferId, () =>
      created ? retry(transferId, created) : change(transferId),
    );
  });
  const done = outcomes.filter((outcome) => 'position' in outcome);
  const refusals = outcomes.filter((outcome) => 'code' in outcome);
  const answer = {
    action,
    matched: taken.length,
    done: done.length,
    refused: refusals.length,
    has_more: hasMore,
    continue_from: hasMore ? (transferIds.at(-1) ?? null) : null,
    retries: done.flatMap((one) => one.retry ?? []),
    refusals,
  };
  const positions = done.map(({ position }) => position).filter((position) => position !== null);
  return { answer, position: positions.length > 0 ? positions.reduce(later) : null };

  async function retry(transferId: string, created: ReservedTransfer): Promise<Done> {
    const { position } = await createOnce(deps, created, repeated, () =>
      retryTransfer(deps, accountId, transferId, cause, created),
    );
    return { position, retry: { id: created.transferId, retry_of: transferId } };
  }

  async function change(transferId: string): Promise<Done> {
    const known = await loadTransfer(deps, accountId, transferId);
    if (isAlready(request, known.state)) return { position: known.position };
    if (action === 'cancel') return cancel(transferId, known);
    const priority = request.priority as Priority;
    return { position: (await setPriority(deps, transferId, priority, cause)).position };
  }

  async function cancel(transferId: string, known: KnownTransfer): Promise<Done> {
    try {
      return { position: (await cancelTransfer(deps, transferId, cause, known)).position };
    } catch (error) {
      // Another request was first, or the process manager of a cancelled batch.
      if (!(error instanceof DomainError) || error.details.current_status !== 'cancelled')
        throw error;
      return { position: (await loadTransfer(deps, accountId, transferId)).position };
    }
  }
}

interface Done {
  position: bigint | null;
  retry?: Retry;
}

type Outcome = Done | BulkAnswer['refusals'][number];

/** Returns what `work` returns, or why the transfer was refused. Throws if a store is away. */
async function refusedOr(transferId: string, work: () => Promise<Done>): Promise<Outcome> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof DomainError) || PROBLEMS[error.code].status >= 500) throw error;
    return { id: transferId, code: error.code, detail: error.message };
  }
}

/** Returns true if a transfer is as the client wants it, whatever its status. */
function isAlready({ action, priority }: BulkRequest, { status, facts }: Transfer): boolean {
  return action === 'cancel' ? status === 'cancelled' : facts.priority === priority;
}

function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
