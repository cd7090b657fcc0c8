/*
 * Compares the transfers of the log with what the API shows of them, while the log is read: those
 * that have ended with each batch, so that memory does not hold them, and the others at the end.
 * An ended one that the read model had not reached yet is compared at the end, too.
 */
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { parseStream } from '../../domain/events/streams.ts';
import { isRecorded } from '../../projections/retention/removed-transfers.ts';
import { countShown, shownTransfers } from '../../projections/transfers/shown.ts';
import type { CheckedEvent, CheckedStream } from './chain.ts';
import type { Fault } from './fault.ts';
import { faultOfFollowed } from './followed-log.ts';
import { returned } from './retention-faults.ts';
import { compareShown, faultsBeyondLog } from './shown-transfers.ts';

/** Open transfers that are compared with the read model in one query. */
const COMPARED = 1_000;
/** Ended transfers that wait for the read model. If there are more, not all are compared. */
const MOST_WAITING = 10_000;

export interface ComparedApiDeps {
  store: EventStore;
  sql: Sql;
  logId: string;
  /** False if the tables of the transfers are of another version: nothing is then compared. */
  comparesApi: boolean;
}

/** What a later run needs to continue. */
export interface ComparedApiState {
  endedTransfers: number;
  /** Position of the last event of a transfer. */
  lastOfTransfers: bigint;
  /** True if an ended transfer was not compared, because the read model had not reached it. */
  skipped: boolean;
}

export interface ComparedApi {
  /** Takes the next event of the log. */
  add(event: StoredEvent, checked: CheckedEvent): void;
  /** Takes a transfer whose events are in the log, and which is about to leave it. */
  addLeaving(transferId: string): void;
  /** Yields what differs in the events since the last call. `position` is the place in the log. */
  faultsOfBatch(position: bigint): AsyncGenerator<Fault>;
  /** Yields what differs in the transfers that have not ended, and in all together. */
  faultsAtEnd(
    open: ReadonlyMap<string, CheckedStream>,
    position: bigint,
  ): AsyncGenerator<Fault, void>;
  /** Returns true if all transfers were compared: the read model had reached them. */
  isComplete(): boolean;
  state(): ComparedApiState;
}

export function createComparedApi(
  deps: ComparedApiDeps,
  { endedTransfers, lastOfTransfers, skipped }: ComparedApiState,
): ComparedApi {
  const { store, sql, logId, comparesApi } = deps;
  /** Of the batch: transfers that have ended, the positions of last events, and first events. */
  let ended = new Map<string, CheckedStream>();
  let ends = new Map<string, bigint>();
  let begun: StoredEvent[] = [];
  let leaving: string[] = [];
  /** Ended transfers that the read model had not reached. */
  const waiting = new Map<string, CheckedStream>();
  let hadAll = false;

  async function* differing(
    folded: ReadonlyMap<string, CheckedStream>,
    position: bigint,
    endsOfFolded?: ReadonlyMap<string, bigint>,
  ): AsyncGenerator<Fault> {
    const { problems, unreached } = await compareShown(sql, folded, position, endsOfFolded);
    for (const stream of unreached) {
      if (waiting.size < MOST_WAITING) waiting.set(stream, folded.get(stream) as CheckedStream);
      else skipped = true;
    }
    for (const [stream, problem] of problems) {
      // It may have left the log since it was read.
      const { revision, id } = folded.get(stream) as CheckedStream;
      if (await isRecorded(deps, parseStream(stream).id, id)) continue;
      yield { check: 'api', stream, revision, event_id: id, position: null, problem };
    }
  }

  return {
    add(event, checked) {
      if (!isTransfer(event.stream)) return;
      lastOfTransfers = event.position;
      if (event.revision === 0) begun.push(event);
      if (checked.ended) ended.set(event.stream, checked.stream);
      ends.set(event.stream, event.position);
    },
    addLeaving: (transferId) => void leaving.push(transferId),
    async *faultsOfBatch(position) {
      const batch = { ended, ends, begun, leaving };
      [ended, ends, begun, leaving] = [new Map(), new Map(), [], []];
      endedTransfers += batch.ended.size;
      // The API may not know yet.
      if (batch.leaving.length > 0)
        endedTransfers += (await shownTransfers(sql, batch.leaving)).transfers.size;
      if (!comparesApi) return;
      yield* await returned(sql, batch.begun);
      yield* differing(batch.ended, position, batch.ends);
    },
    async *faultsAtEnd(streams, position) {
      if (!comparesApi) return;
      const { reached } = await shownTransfers(sql, []);
      hadAll = reached >= lastOfTransfers;
      const open = [...streams].filter(([name]) => isTransfer(name));
      const left = [...waiting, ...open];
      for (let i = 0; i < left.length; i += COMPARED)
        yield* differing(new Map(left.slice(i, i + COMPARED)), position);
      const unfollowed = await faultOfFollowed(deps, logId);
      if (unfollowed !== null) yield unfollowed;
      const ids = open.map(([name]) => parseStream(name).id);
      const unknown = (await countShown(sql, position, ids)) - endedTransfers;
      yield* faultsBeyondLog(store, reached, unknown);
    },
    isComplete: () => hadAll && !skipped,
    state: () => ({ endedTransfers, lastOfTransfers, skipped: skipped || waiting.size > 0 }),
  };
}

function isTransfer(stream: string): boolean {
  return parseStream(stream).kind === 'transfer';
}
