import type { Movers as MoversNow } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Empty } from '../../components/feedback/empty.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { type Column, Table } from '../../components/tables/table.tsx';
import { Facts } from '../../components/values/facts.tsx';
import { Time } from '../../components/values/time.tsx';
import { duration, many, speed } from '../../components/values/units.ts';

const LOOK_MS = 2_000;

type Mover = MoversNow['data'][number];
type Queue = MoversNow['queue'][number];

const MOVERS: Column<Mover>[] = [
  { heading: 'Process', kind: 'row', headed: true, cell: ({ id }) => <code>{id}</code> },
  { heading: 'Moving', kind: 'number', cell: ({ active, slots }) => `${active} of ${slots}` },
  {
    heading: 'Mean duration',
    kind: 'number',
    cell: ({ mean_duration_ms: ms }) =>
      ms === null ? '–' : ms < 1_000 ? `${Math.round(ms)} ms` : duration(ms / 1_000),
  },
  { heading: 'Started', cell: ({ started_at }) => <Time at={started_at} /> },
  { heading: 'Last seen', cell: ({ seen_at }) => <Time at={seen_at} /> },
];

const QUEUES: Column<Queue>[] = [
  { heading: 'Priority', kind: 'row', headed: true, cell: ({ priority }) => priority },
  { heading: 'Moving', kind: 'number', cell: ({ moving }) => moving.toLocaleString('en') },
  { heading: 'Waiting', kind: 'number', cell: ({ due }) => due.toLocaleString('en') },
  {
    heading: 'Waiting for a retry',
    kind: 'number',
    cell: ({ later }) => later.toLocaleString('en'),
  },
  { heading: 'Speed', kind: 'number', cell: ({ speed_bps }) => speed(speed_bps) },
];

/** Shows the movers and the queue, now. */
export function Movers() {
  const { data, error, reload } = useLoad(
    (signal) => call('GET /v1/movers', { signal }),
    [],
    LOOK_MS,
  );
  const total = (count: (queue: Queue) => number) =>
    data?.queue.reduce((sum, queue) => sum + count(queue), 0) ?? 0;
  const slots = data?.data.reduce((sum, mover) => sum + mover.slots, 0) ?? 0;
  return (
    <>
      <LoadState of={{ data, error, reload }} />
      {data && (
        <section class="card">
          <h2>Now</h2>
          <Facts
            of={{
              Moving: `${total(({ moving }) => moving)} of ${many(slots, 'slot')}`,
              Waiting: total(({ due }) => due).toLocaleString('en'),
              'Waiting for a retry': total(({ later }) => later).toLocaleString('en'),
              Speed: speed(total(({ speed_bps }) => speed_bps)),
            }}
          />
          <h3>Queue</h3>
          <Table
            caption="Queue by priority"
            columns={QUEUES}
            rows={data.queue.toReversed()}
            id={({ priority }) => priority}
          />
          <h3>Movers</h3>
          {data.data.length > 0 ? (
            <Table
              caption="Movers, oldest first"
              columns={MOVERS}
              rows={data.data}
              id={({ id }) => id}
            />
          ) : (
            <Empty title="No mover is running">
              <p>Transfers wait for one. Start it on any machine that reaches the same database:</p>
              <pre>
                <code>waybill serve --roles mover</code>
              </pre>
            </Empty>
          )}
        </section>
      )}
    </>
  );
}
