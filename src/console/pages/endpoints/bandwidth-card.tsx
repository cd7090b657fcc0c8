import type { Bandwidth, Endpoint } from '../../api/api-types.ts';
import { Facts } from '../../components/values/facts.tsx';
import { speed } from '../../components/values/units.ts';

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
          'Limit now': <span class="long">{rate(bandwidth_now)}</span>,
          ...Object.fromEntries(
            bandwidth.windows.map((window, index) => [
              `Window ${index + 1}`,
              <span key={index} class="long">
                {times(window)}: {rate(window.bytes_per_second)}
              </span>,
            ]),
          ),
          [bandwidth.windows.length > 0 ? 'At other times' : 'Limit']: (
            <span class="long">{rate(bandwidth.bytes_per_second)}</span>
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

/** Formats a limit as speeds are, with the number that the form takes. */
function rate(bytesPerSecond: number | null): string {
  if (bytesPerSecond === null) return 'No limit';
  return `${speed(bytesPerSecond * 8)} (${bytesPerSecond.toLocaleString('en')} bytes/s)`;
}
