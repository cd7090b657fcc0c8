import type {
  RejectedItem,
  TransferErrorCode,
  TransferList,
  TransferListItem,
} from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { reasonOf } from '../../api/error-reasons.ts';
import { LONGEST_PAGE } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { LoadState } from '../../components/feedback/problem.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { FileName } from '../../components/values/file-name.tsx';
import { MarkedText } from '../../components/values/marked-text.tsx';
import { Path } from '../../components/values/names.tsx';
import { addressOf, type Filter, type Order } from '../transfers/filter.ts';
import { Reason } from '../transfers/reason.tsx';

const SHOWN = 25;
/** Fewer files if there are more than that: then the reasons say more. */
const NEWEST = 10;
const COUNT_MS = 10_000;
const NEWEST_FIRST = { order: '-created_at', limit: undefined } as const;

const FAILED: Column<TransferListItem>[] = [
  {
    heading: 'File',
    kind: 'row',
    cell: ({ id, file_name, destination }) => (
      <>
        <a class="file" href={`/console/transfers/${id}`}>
          <FileName of={file_name} />
        </a>
        <span class="route">
          <Path of={destination} />
        </span>
      </>
    ),
  },
  { heading: 'Reason', cell: ({ error }) => error && <Reason of={error} /> },
];

/** Failed transfers of a batch with the same reason. */
interface Group {
  /** Null for those whose reason the console has not seen. */
  code: TransferErrorCode | null;
  transfers: number;
}

interface FailuresProps {
  batchId: string;
  failed: number;
  ended: boolean;
}

/** Counts the failed transfers of a batch by reason, and lists the newest ones. */
export function Failures({ batchId, failed, ended }: FailuresProps) {
  const filter = { batch_id: batchId, status: 'failed' } as const;
  // Many need several requests. While files still fail, these are sent now and then only.
  const seldom = !ended && failed > LONGEST_PAGE;
  const { data, error, reload } = useLoad(
    async (signal) => {
      const query = { ...filter, limit: LONGEST_PAGE };
      const latest = await call('GET /v1/transfers', { query, signal });
      return { latest: latest.data, groups: await groupsOf(filter, latest, signal) };
    },
    [batchId, seldom ? null : failed],
    seldom ? COUNT_MS : undefined,
  );
  const shown = failed > SHOWN ? NEWEST : SHOWN;
  return (
    <section class="card">
      <h2>Failed</h2>
      <LoadState of={{ data, error, reload }} />
      {data && (
        <>
          <Table
            caption="Reasons of these failures, the most frequent first"
            columns={reasonColumns(filter)}
            rows={data.groups}
            id={({ code }) => code ?? ''}
          />
          <Table
            caption={failed > shown ? 'Newest failed transfers' : 'Failed transfers'}
            columns={FAILED}
            rows={data.latest.slice(0, shown)}
            id={({ id }) => id}
          />
        </>
      )}
      {failed > shown && (
        <p>
          <a href={addressOf({ filter, ...NEWEST_FIRST })}>
            Show all {failed.toLocaleString('en')} failed transfers
          </a>
        </p>
      )}
    </section>
  );
}

/**
 * Counts the failed transfers by reason, the most frequent first. Of more than a page, it asks for
 * the count of each reason that the newest and the oldest ones have. The others are one group.
 */
async function groupsOf(
  filter: Filter,
  { data: latest, pagination: { total, has_more } }: TransferList,
  signal: AbortSignal,
): Promise<Group[]> {
  if (!has_more) return byCount(countOf(latest));
  const ask = (query: Filter & { limit: number; sort?: Order }) =>
    call('GET /v1/transfers', { query: { ...filter, ...query }, signal });
  const oldest = await ask({ limit: LONGEST_PAGE, sort: 'created_at' });
  const codes = [...countOf([...latest, ...oldest.data]).keys()];
  const counted = await Promise.all(
    codes.map(async (code) => {
      const { pagination } = await ask({ error_code: code, limit: 1 });
      return [code, pagination.total] as const;
    }),
  );
  const groups = byCount(new Map(counted));
  const others = total - groups.reduce((sum, { transfers }) => sum + transfers, 0);
  return others > 0 ? [...groups, { code: null, transfers: others }] : groups;
}

function countOf(transfers: TransferListItem[]): Map<TransferErrorCode, number> {
  const counts = new Map<TransferErrorCode, number>();
  for (const { error } of transfers)
    if (error) counts.set(error.code, (counts.get(error.code) ?? 0) + 1);
  return counts;
}

function byCount(counts: Map<TransferErrorCode, number>): Group[] {
  return [...counts]
    .map(([code, transfers]) => ({ code, transfers }))
    .sort((a, b) => b.transfers - a.transfers);
}

/** The reason leads to the list of its transfers, where all of them can be retried. */
function reasonColumns(filter: Filter): Column<Group>[] {
  return [
    {
      heading: 'Reason',
      kind: 'row',
      cell: ({ code }) =>
        code === null ? (
          'Other reasons'
        ) : (
          <a
            class="file"
            href={addressOf({ filter: { ...filter, error_code: code }, ...NEWEST_FIRST })}
          >
            {reasonOf(code).label}
          </a>
        ),
    },
    {
      heading: 'Files',
      kind: 'number',
      cell: ({ transfers }) => transfers.toLocaleString('en'),
    },
    {
      heading: 'Advice',
      cell: ({ code }) =>
        code !== null && (
          <span class="advice">
            <MarkedText>{reasonOf(code).advice}</MarkedText>
          </span>
        ),
    },
  ];
}

const REJECTED: Column<RejectedItem>[] = [
  {
    heading: 'Item',
    kind: 'row',
    cell: ({ source_uri }) => (
      <span class="mono">
        <Path of={source_uri} />
      </span>
    ),
  },
  {
    heading: 'Reason',
    cell: ({ error: { code, message } }) => (
      <span>
        {message} <code>{code}</code>
      </span>
    ),
  },
];

/** Lists the items that cannot become transfers. */
export function Rejected({ batchId, rejected }: { batchId: string; rejected: number }) {
  const { data, error, reload } = useLoad(
    (signal) =>
      call('GET /v1/batches/{batch_id}/rejected', {
        path: { batch_id: batchId },
        query: { limit: SHOWN },
        signal,
      }),
    [batchId, rejected],
  );
  return (
    <section class="card">
      <h2>Rejected</h2>
      <LoadState of={{ data, error, reload }} />
      {data && (
        <Table
          caption="Rejected items"
          columns={REJECTED}
          rows={data.data}
          id={({ item }) => item}
        />
      )}
      {rejected > SHOWN && (
        <p class="muted">
          The first {SHOWN} of {rejected.toLocaleString('en')}
        </p>
      )}
    </section>
  );
}
