import { useEffect, useRef, useState } from 'preact/hooks';
import type { LiveTransfer, TransferList } from '../../../api/api-types.ts';
import type { Liveness } from '../../../api/use-events.ts';
import type { Loaded } from '../../../api/use-load.ts';
import type { Row } from '../columns.tsx';
import { matches, type View } from '../filter.ts';
import { hasEnded } from '../states.tsx';
import { useLiveTransfers } from '../use-live-transfers.ts';

/** Minimum time between loads for new rows. */
const RELOAD_MS = 1_500;
/** Rows keep their places until the pointer has rested this long, or has left them. */
const REST_MS = 2_000;
/** Loads in which a search may miss a new transfer: it finds one a moment after its creation. */
const SEARCHES = 20;

interface MovingRows {
  rows: Row[];
  liveness: Liveness;
  /** Other rows belong on the page than those that it shows. */
  outdated: boolean;
  /** Call it when the pointer moves over the rows, and when it leaves them. */
  onPointer: (leaves: boolean) => void;
}

/**
 * Returns the rows of a page with their live changes. Reloads if other rows belong there, unless
 * the rows are `held` in their places.
 */
export function useMovingRows(
  { data: list, loading, reload }: Loaded<TransferList>,
  { filter, order, offset }: View,
  held: boolean,
): MovingRows {
  const [moves, setMoves] = useState<ReadonlyMap<string, LiveTransfer>>(new Map());
  const [outdated, setOutdated] = useState(false);
  const missed = useRef(new Map<string, number>());
  const retries = useRef(new Set<string>());
  const loadedAt = useRef(0);
  const pointerAt = useRef(Number.NEGATIVE_INFINITY);
  const rows: Row[] = (list?.data ?? []).map((row) => ({ ...row, ...moves.get(row.id) }));

  // A loaded row wins over a live change with another state. Live figures stay: they are newer.
  useEffect(() => {
    const states = new Map(list?.data.map(({ id, status }) => [id, status]));
    setMoves(
      (before) => new Map([...before].filter(([id, { status }]) => states.get(id) === status)),
    );
    for (const [id, loads] of missed.current) {
      if (states.has(id) || loads === SEARCHES) missed.current.delete(id);
      else missed.current.set(id, loads + 1);
    }
    if (missed.current.size > 0) setOutdated(true);
  }, [list]);
  useEffect(() => missed.current.clear(), [JSON.stringify(filter)]);
  useEffect(() => {
    if (loading) setOutdated(false);
    else loadedAt.current = performance.now();
  }, [loading]);
  useEffect(() => {
    if (!outdated || loading || held) return;
    let timer: ReturnType<typeof setTimeout>;
    const reloadWhenDue = () => {
      const due = Math.max(loadedAt.current + RELOAD_MS, pointerAt.current + REST_MS);
      const wait = due - performance.now();
      if (wait > 0) timer = setTimeout(reloadWhenDue, wait);
      else reload();
    };
    reloadWhenDue();
    return () => clearTimeout(timer);
  }, [outdated, loading, held, reload]);

  const liveness = useLiveTransfers((transfers, isSnapshot, incomplete) => {
    const changes = new Map(transfers.map((transfer) => [transfer.id, transfer]));
    const here = rows.filter(({ id }) => changes.has(id));
    const ids = new Set(rows.map(({ id }) => id));
    setMoves((before) => new Map([...before, ...[...changes].filter(([id]) => ids.has(id))]));

    // New transfers appear on the page at the end where the newest are.
    const last = list?.data.at(-1);
    const belongs = (transfer: LiveTransfer) =>
      matches(transfer, filter) &&
      (order === '-created_at'
        ? offset === 0 &&
          (!list?.pagination.has_more || !last || transfer.created_at > last.created_at)
        : !list?.pagination.has_more && (!last || transfer.created_at > last.created_at));
    const others = transfers.filter((transfer) => !ids.has(transfer.id) && belongs(transfer));
    if (filter.q !== undefined) for (const { id } of others) missed.current.set(id, 0);
    const hasOthers =
      filter.status !== undefined &&
      here.some(({ id }) => changes.get(id)?.status !== filter.status);
    // A new retry moves the row of its transfer from one of the two lists to the other.
    const newRetries = transfers.filter(
      ({ id, retry_of }) => retry_of !== null && !retries.current.has(id),
    );
    for (const { id } of newRetries) retries.current.add(id);
    const hasRetried =
      filter.retried !== undefined &&
      newRetries.some(({ retry_of }) => ids.has(retry_of as string) !== filter.retried);
    const hasMissed =
      isSnapshot && rows.some(({ id, status }) => !hasEnded(status) && !changes.has(id));
    if (others.length > 0 || hasOthers || hasRetried || hasMissed || incomplete) setOutdated(true);
  });

  return {
    rows,
    liveness,
    outdated,
    onPointer(leaves) {
      pointerAt.current = leaves ? Number.NEGATIVE_INFINITY : performance.now();
    },
  };
}
