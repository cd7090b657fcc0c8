import { useEffect, useState } from 'preact/hooks';
import type { LiveTransfer, TransferDetail } from '../../../api/api-types.ts';
import { LineChart, type Point } from '../../../components/charts/line-chart.tsx';
import { Progress } from '../../../components/charts/progress.tsx';
import { toTheMinute, type Zone } from '../../../components/values/instants.ts';
import { useZone } from '../../../components/values/time-zone.tsx';
import { bytes, duration, speed } from '../../../components/values/units.ts';

/** Points of the chart: the last ten minutes of a long transfer. */
const KEPT = 600;

/** The end of a longer wait is also shown as a time, to come back then. */
const LONG_SECONDS = 300;

function leftInWords(seconds: number, zone: Zone): string {
  const now = new Date();
  const end = new Date(now.getTime() + seconds * 1_000);
  const until = seconds < LONG_SECONDS ? '' : `, until about ${toTheMinute(end, now, zone)}`;
  return `${duration(seconds)} left${until}`;
}

/** Shows the progress and the speed of a transfer, live. */
export function Moving({
  transfer,
}: {
  transfer: TransferDetail & Partial<Pick<LiveTransfer, 'seconds_left'>>;
}) {
  const { progress_pct, transferred_bytes, size_bytes, speed_bps, seconds_left } = transfer;
  const zone = useZone();
  const speeds = useSpeeds(transferred_bytes, speed_bps);
  return (
    <section class="card" aria-label="Progress">
      <Progress percent={progress_pct} label="Progress" />
      <p class="number">
        {bytes(transferred_bytes)}
        {size_bytes !== null && ` of ${bytes(size_bytes)}`}
        {speed_bps !== null && `, ${speed(speed_bps)} on average`}
        {seconds_left != null && `, ${leftInWords(seconds_left, zone)}`}
      </p>
      <LineChart
        label="Speed since this page was opened"
        points={speeds}
        least={1_000}
        format={speed}
      />
    </section>
  );
}

/** Returns the bits per second between byte counts, starting with the average so far. */
function useSpeeds(transferred: number, average: number | null): Point[] {
  const [{ speeds }, setSeen] = useState<{ last: Point; speeds: Point[] }>(() => {
    const at = performance.now();
    return { last: { at, value: transferred }, speeds: [{ at, value: average ?? 0 }] };
  });
  useEffect(() => {
    setSeen(({ last, speeds }) => {
      const at = performance.now();
      const next = { at, value: transferred };
      // A new attempt that starts from zero has fewer bytes than the one before.
      if (transferred <= last.value)
        return { last: transferred < last.value ? next : last, speeds };
      const value = ((transferred - last.value) * 8_000) / Math.max(1, at - last.at);
      return { last: next, speeds: [...speeds, { at, value }].slice(-KEPT) };
    });
  }, [transferred]);
  return speeds;
}
