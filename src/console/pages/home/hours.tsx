import type { TransferSeries } from '../../api/api-types.ts';
import { call, urlOf } from '../../api/client.ts';
import { ColumnChart } from '../../components/charts/column-chart.tsx';
import { LoadState } from '../../components/feedback/problem.tsx';
import { toTheMinute } from '../../components/values/instants.ts';
import { useZone } from '../../components/values/time-zone.tsx';
import { many } from '../../components/values/units.ts';
import { useOverview, usePart } from '../../overview.tsx';
import { labelOf, STATUSES, type TransferStatus, toneOf } from '../transfers/states.tsx';

type Hour = TransferSeries['data'][number];

const HOUR_MS = 3_600_000;
/** From the bottom of a column: failures stand on the axis, where they are easy to compare. */
const PLACES: Record<TransferStatus, number> = {
  failed: 1,
  cancelled: 2,
  completed: 3,
  in_progress: 4,
  queued: 5,
  pending: 6,
};
const ORDER = STATUSES.toSorted((a, b) => PLACES[a] - PLACES[b]);

/** Draws the transfers of the last 24 hours by the hour of their creation and by state. */
export function Hours() {
  const { recent } = useOverview();
  const zone = useZone();
  const series = usePart(
    'transfers:read',
    (signal) => call('GET /v1/transfers/series', { query: recent, signal }),
    [recent.from_date],
  );
  if (series === null) return null;
  if (series.data === null) return <LoadState of={series} />;
  const hours = series.data.data;
  const now = new Date();
  const from = Date.parse(recent.from_date);
  const time = (at: number) => toTheMinute(new Date(at), now, zone);
  return (
    <ColumnChart
      label="Transfers by the hour of their creation"
      columns={hours.map((hour) => ({
        ...spanOf(hour),
        parts: ORDER.map((status) => ({ tone: toneOf(status), size: hour.by_status[status] })),
        text: `${time(spanOf(hour).from)}: ${inWords(hour)}`,
      }))}
      from={from}
      to={now.getTime()}
      times={[time(from), time((from + now.getTime()) / 2), 'now']}
      least={2}
      format={(value) => value.toLocaleString('en', { maximumFractionDigits: 1 })}
    >
      <Peak hours={hours} time={time} />
    </ColumnChart>
  );
}

/** Leads to the transfers of the hour with the most failures, or with the most transfers. */
function Peak({ hours, time }: { hours: Hour[]; time: (at: number) => string }) {
  const failures = highest(hours, ({ by_status }) => by_status.failed);
  const hour = failures ?? highest(hours, created);
  if (hour === null) return 'None were created.';
  const { from, to } = spanOf(hour);
  const query = {
    status: failures ? ('failed' as const) : undefined,
    from_date: hour.at,
    to_date: new Date(to - 1).toISOString(),
  };
  const all = many(created(hour), 'transfer');
  return (
    <>
      {failures ? 'Most failures: ' : 'Most transfers: '}
      <a href={urlOf('/console/transfers', { query })}>
        {failures ? `${failures.by_status.failed.toLocaleString('en')} of ${all}` : all} created in
        the hour from {time(from)}
      </a>
    </>
  );
}

/** Returns the latest of the hours with the highest value; null if no value is above zero. */
function highest(hours: Hour[], value: (hour: Hour) => number): Hour | null {
  return hours.reduce<Hour | null>(
    (best, hour) => (value(hour) > 0 && value(hour) >= (best ? value(best) : 0) ? hour : best),
    null,
  );
}

function spanOf({ at }: Hour): { from: number; to: number } {
  const from = Date.parse(at);
  return { from, to: from + HOUR_MS };
}

function created({ by_status }: Hour): number {
  return STATUSES.reduce((sum, status) => sum + by_status[status], 0);
}

/** Such as `18 created: 4 failed, 14 completed`. */
function inWords(hour: Hour): string {
  const parts = ORDER.filter((status) => hour.by_status[status] > 0).map(
    (status) => `${hour.by_status[status].toLocaleString('en')} ${labelOf(status).toLowerCase()}`,
  );
  return `${created(hour).toLocaleString('en')} created: ${parts.join(', ')}`;
}
