import { notRetried, RECENT_HOURS } from '../../../domain/attention.ts';
import {
  behind,
  expiring,
  failing,
  notTrusted,
  rejecting,
  toneOf,
  unreachable,
} from '../../attention.ts';
import { useOverview } from '../../overview.tsx';
import { MARKS, type Tone } from '../values/status.tsx';

/** A number that calls for attention, such as `2 failed in 24 hours`. */
export interface Count {
  tone: Tone;
  number: number;
  label: string;
}

const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 0 });

/** Returns the counts of each place in the navigation, by its address. Zeros are left out. */
export function useCounts(): Partial<Record<string, Count[]>> {
  const { summary, endpoints, flows, failedDeliveries, keys, consumers } = useOverview();
  const { in_progress = 0 } = summary?.data?.by_status ?? {};
  const failed = summary?.data ? notRetried(summary.data) : 0;
  const down = endpoints?.data ? unreachable(endpoints.data).length : 0;
  const locked = endpoints?.data ? rejecting(endpoints.data).length : 0;
  const distrusted = endpoints?.data ? notTrusted(endpoints.data).length : 0;
  const unlisted = flows?.data ? failing(flows.data).length : 0;
  const undelivered = failedDeliveries?.data?.pagination.total ?? 0;
  const ending = keys?.data ? expiring(keys.data).length : 0;
  const lagging = consumers?.data ? behind(consumers.data).length : 0;
  const all: Record<string, Count[]> = {
    '/console/transfers': [
      { tone: 'active', number: in_progress, label: 'moving' },
      {
        tone: toneOf('transfers_failed'),
        number: failed,
        label: `failed in ${RECENT_HOURS} hours`,
      },
    ],
    '/console/flows': [{ tone: toneOf('flow_failing'), number: unlisted, label: 'failing' }],
    '/console/webhooks/failed-deliveries': [
      { tone: toneOf('deliveries_failed'), number: undelivered, label: 'failed' },
    ],
    '/console/operations': [
      {
        tone: toneOf('consumer_behind'),
        number: lagging,
        label: lagging === 1 ? 'consumer behind' : 'consumers behind',
      },
    ],
    '/console/settings/endpoints': [
      { tone: toneOf('endpoint_unreachable'), number: down, label: 'unreachable' },
      {
        tone: toneOf('endpoint_rejects_sign_in'),
        number: locked,
        label: locked === 1 ? 'rejects the sign-in' : 'reject the sign-in',
      },
      { tone: toneOf('endpoint_not_trusted'), number: distrusted, label: 'not trusted' },
    ],
    '/console/settings/api-keys': [
      {
        tone: toneOf('key_expires_soon'),
        number: ending,
        label: ending === 1 ? 'expires soon' : 'expire soon',
      },
    ],
  };
  const positive = Object.entries(all).map(
    ([href, counts]) => [href, counts.filter(({ number }) => number > 0)] as const,
  );
  return Object.fromEntries(positive.filter(([, counts]) => counts.length > 0));
}

export const countsId = (href: string): string => `counts-${href.replaceAll('/', '-')}`;

/**
 * Shows counts beside a link, which names them as its description. Those of one tone are shown as
 * their sum: two numbers of the same colour do not say what each counts.
 */
export function Counts({ of, counts }: { of: string; counts: Count[] | undefined }) {
  if (!counts) return null;
  const tones = [...new Set(counts.map(({ tone }) => tone))];
  return (
    <span class="counts" id={countsId(of)}>
      {tones.map((tone, index) => {
        const some = counts.filter((count) => count.tone === tone);
        const words = some.map(({ number, label }) => `${number.toLocaleString('en')} ${label}`);
        const sum = some.reduce((total, { number }) => total + number, 0);
        return (
          <span key={tone} class={`status ${tone}`} title={words.join(', ')}>
            <span aria-hidden="true">
              {MARKS[tone]} {COMPACT.format(sum)}
            </span>
            <span class="visually-hidden">
              {index > 0 && ', '}
              {words.join(', ')}
            </span>
          </span>
        );
      })}
    </span>
  );
}
