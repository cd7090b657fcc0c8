import type { Bandwidth, Endpoint } from '../../api/api-types.ts';
import { Facts } from '../../components/values/facts.tsx';
import { bytes } from '../../components/values/units.ts';

const DAYS_IN_WEEK = 7;

/** Shows the limit of the bandwidth that holds now, and its windows. Nothing without a limit. */
export function BandwidthCard({ endpoint: { bandwidth, bandwidth_now } }: { endpoint: Endpoint }) {
  if (!bandwidth) return null;
  return (
    <section class="card" aria-label="Bandwidth">
      <h2>Bandwidth</h2>
      <p>All transfers from or to this endpoint share the limit.</p>
      <Facts
        of={{
          'Limit now': rate(bandwidth_now),
          ...Object.fromEntries(
            bandwidth.windows.map((window, index) => [
              `Window ${index + 1}`,
              `${times(window)}: ${rate(window.bytes_per_second)}`,
            ]),
          ),
          [bandwidth.windows.length > 0 ? 'At other times' : 'Limit']: rate(
            bandwidth.bytes_per_second,
          ),
        }}
      />
    </section>
  );
}

function times({ days, from, to, time_zone }: Bandwidth['windows'][number]): string {
  const on = days.length === DAYS_IN_WEEK ? 'every day' : days.join(', ');
  return `${on} ${from}–${to} (${time_zone})`;
}

function rate(bytesPerSecond: number | null): string {
  return bytesPerSecond === null ? 'No limit' : `${bytes(bytesPerSecond)}/s`;
}
