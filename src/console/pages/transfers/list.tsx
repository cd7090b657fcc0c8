import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, urlOf } from '../../api/client.ts';
import type { LiveTransfer, TransferList, TransferListItem } from '../../api/operations.ts';
import { type Loaded, useLoad } from '../../api/use-load.ts';
import { Empty } from '../../components/empty.tsx';
import { Icon } from '../../components/icon.tsx';
import { Page } from '../../components/page.tsx';
import { Pager } from '../../components/pager.tsx';
import { ProblemNotice } from '../../components/problem.tsx';
import { Progress } from '../../components/progress.tsx';
import { Status } from '../../components/status.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { bytes, duration, speed } from '../../components/units.ts';
import { May } from '../../session.tsx';
import { type Filter, Filters, matches, readFilter } from './filters.tsx';
import { FirstSteps } from './first-steps.tsx';
import { hasEnded, TransferState } from './states.tsx';
import { useLiveTransfers } from './use-live-transfers.ts';
import { Wait } from './wait.tsx';

const PAGE = 50;
/** Minimum time between loads for new rows. */
const RELOAD_MS = 1_500;

type Row = TransferListItem &
  Partial<Pick<LiveTransfer, 'progress_pct' | 'speed_bps' | 'seconds_left'>>;

const COLUMNS: Column<Row>[] = [
  {
    heading: 'File',
    kind: 'row',
    cell: ({ id, file_name, source, destination }) => (
      <>
        <a class="file" href={`/console/transfers/${id}`}>
          {file_name}
        </a>
        <span class="route mono">
          <span>{source}</span> <span aria-hidden="true">→</span> <span>{destination}</span>
        </span>
      </>
    ),
  },
  { heading: 'State', cell: ({ status }) => <TransferState status={status} /> },
  {
    heading: 'Progress',
    cell: ({ status, progress_pct, file_name, waiting_for }) => {
      if (waiting_for) return <Wait for={waiting_for} />;
      return status === 'in_progress' ? (
        <Progress percent={progress_pct ?? 0} label={`Progress of ${file_name}`} />
      ) : null;
    },
  },
  {
    heading: 'Speed',
    kind: 'number',
    cell: ({ status, speed_bps }) => (status === 'in_progress' ? speed(speed_bps ?? null) : null),
  },
  {
    heading: 'Time left',
    kind: 'number',
    cell: ({ status, seconds_left }) =>
      status === 'in_progress' && seconds_left != null ? duration(seconds_left) : null,
  },
  { heading: 'Size', kind: 'number', cell: ({ size_bytes }) => bytes(size_bytes) },
  { heading: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
];

/** The transfers of the account, live. The address holds filter and page. */
export function TransferListPage() {
  const { query } = useLocation();
  const filter = readFilter(query);
  const offset = Math.max(0, Math.trunc(Number(query.offset) || 0));
  const list = useLoad(
    (signal) => call('GET /v1/transfers', { query: { ...filter, limit: PAGE, offset }, signal }),
    [JSON.stringify(filter), offset],
  );
  const { rows, live } = useMovingRows(list, filter, offset);
  const filtered = Object.values(filter).some(Boolean);
  const total = list.data?.pagination.total ?? 0;

  return (
    <Page
      title="Transfers"
      subtitle={<Status tone={live ? 'good' : 'neutral'}>{live ? 'Live' : 'Connecting'}</Status>}
      actions={
        <May scope="transfers:write">
          <a class="button primary" href="/console/transfers/new">
            <Icon name="plus" /> New transfer
          </a>
        </May>
      }
    >
      {list.data && total === 0 && !filtered ? (
        <FirstSteps />
      ) : (
        <>
          <Filters filter={filter} />
          <FilteredTime filter={filter} />
          {list.error && <ProblemNotice error={list.error} retry={list.reload} />}
          {list.data && total === 0 && (
            <Empty title="No transfers match">
              <p>
                <a href="/console/transfers">Show all</a>
              </p>
            </Empty>
          )}
          {rows.length > 0 && (
            <Table
              caption="Transfers, newest first"
              columns={COLUMNS}
              rows={rows}
              id={({ id }) => id}
            />
          )}
          {list.data && total > 0 && (
            <Pager pagination={list.data.pagination} shown={list.data.data.length} />
          )}
        </>
      )}
    </Page>
  );
}

/** Shows a filter by times of a day, which the fields for dates cannot show. */
function FilteredTime({ filter }: { filter: Filter }) {
  const { from_date = '', to_date = '' } = filter;
  if (!`${from_date}${to_date}`.includes(':')) return null;
  const shown = (at: string) => at && new Date(at).toLocaleString();
  return (
    <p class="muted">
      Created {from_date && `from ${shown(from_date)}`} {to_date && `to ${shown(to_date)}`}.{' '}
      <a href={urlOf('/console/transfers', { query: { ...filter, from_date: '', to_date: '' } })}>
        Show all times
      </a>
    </p>
  );
}

/** Returns the rows of the page with their live changes. Reloads if other rows belong there. */
function useMovingRows(
  { data: list, loading, reload }: Loaded<TransferList>,
  filter: Filter,
  offset: number,
): { rows: Row[]; live: boolean } {
  const [moves, setMoves] = useState<ReadonlyMap<string, LiveTransfer>>(new Map());
  const [outdated, setOutdated] = useState(false);
  const loadedAt = useRef(0);
  const rows: Row[] = (list?.data ?? []).map((row) => ({ ...row, ...moves.get(row.id) }));

  // A loaded row wins over a live change with another state. Live figures stay: they are newer.
  useEffect(() => {
    const states = new Map(list?.data.map(({ id, status }) => [id, status]));
    setMoves(
      (before) => new Map([...before].filter(([id, { status }]) => states.get(id) === status)),
    );
  }, [list]);
  useEffect(() => {
    if (!loading) loadedAt.current = performance.now();
  }, [loading]);
  useEffect(() => {
    if (!outdated || loading) return;
    const wait = loadedAt.current + RELOAD_MS - performance.now();
    const timer = setTimeout(() => {
      setOutdated(false);
      reload();
    }, wait);
    return () => clearTimeout(timer);
  }, [outdated, loading, reload]);

  const live = useLiveTransfers((transfers, isSnapshot, incomplete) => {
    const changes = new Map(transfers.map((transfer) => [transfer.id, transfer]));
    const here = rows.filter(({ id }) => changes.has(id));
    const ids = new Set(rows.map(({ id }) => id));
    setMoves((before) => new Map([...before, ...[...changes].filter(([id]) => ids.has(id))]));

    // New transfers appear on the first page only.
    const last = list?.pagination.has_more ? list.data.at(-1) : undefined;
    const belongs = (transfer: LiveTransfer) =>
      matches(transfer, filter) && (!last || transfer.created_at > last.created_at);
    const hasNew =
      offset === 0 && transfers.some((transfer) => !ids.has(transfer.id) && belongs(transfer));
    const hasOthers =
      filter.status !== undefined &&
      here.some(({ id }) => changes.get(id)?.status !== filter.status);
    const hasMissed =
      isSnapshot && rows.some(({ id, status }) => !hasEnded(status) && !changes.has(id));
    if (hasNew || hasOthers || hasMissed || incomplete) setOutdated(true);
  });

  return { rows, live };
}
