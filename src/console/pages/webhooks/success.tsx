import type { Delivery } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { FAILED_KEPT_DAYS, LONGEST_PAGE } from '../../api/limits.ts';
import { useLoad } from '../../api/use-load.ts';
import { Facts } from '../../components/values/facts.tsx';
import { Status } from '../../components/values/status.tsx';
import { Time } from '../../components/values/time.tsx';
import { many } from '../../components/values/units.ts';
import { DeliveryStrip, lastResponse } from './delivery-columns.tsx';

const LOOK_MS = 3_000;

/**
 * Shows how many of a webhook's latest deliveries succeeded, how many of their attempts failed, what
 * waits for a retry, and the last one that failed.
 */
export function Success({ webhookId }: { webhookId: string }) {
  const { data } = useLoad(
    async (signal) => {
      const page = (query: { limit: number; status?: 'failed' }) =>
        call('GET /v1/webhooks/{webhook_id}/deliveries', {
          path: { webhook_id: webhookId },
          query,
          signal,
        });
      const [latest, failed] = await Promise.all([
        page({ limit: LONGEST_PAGE }),
        page({ limit: 1, status: 'failed' }),
      ]);
      return { latest: latest.data, failed: failed.data[0] };
    },
    [webhookId],
    LOOK_MS,
  );
  if (!data) return null;
  const { latest, failed } = data;
  return (
    <section class="card" aria-label="Success">
      <h2>Success</h2>
      <Facts
        of={{
          'Success rate': rateOf(latest),
          'Failed attempts': failedAttempts(latest),
          'Waiting for a retry': <Retries of={latest.filter(waitsForRetry)} />,
          'Latest deliveries': <DeliveryStrip deliveries={latest} />,
          'Last failed delivery': failed ? (
            <a href={`/console/webhooks/${webhookId}/deliveries/${failed.id}`}>
              {failed.event_type}
            </a>
          ) : (
            `None in ${FAILED_KEPT_DAYS} days`
          ),
          'Failed at': failed && <Time at={failed.created_at} />,
          Reason: failed && <span class="long">{lastResponse(failed)}</span>,
        }}
      />
    </section>
  );
}

/** Returns the share of the ended deliveries that succeeded, with the counts behind it. */
function rateOf(deliveries: Delivery[]): string | null {
  if (deliveries.length === 0) return null;
  const ended = deliveries.filter(({ status }) => status !== 'pending').length;
  if (ended === 0) return `None of the last ${deliveries.length} has ended`;
  const delivered = deliveredOf(deliveries);
  // Rounded down: 99.9 % with a failure is not 100 %.
  const percent = Math.floor((delivered * 100) / ended);
  return `${percent} % (${delivered} of the last ${ended} that ended)`;
}

/** Counts the attempts that failed, also those of deliveries that succeeded later or may do so. */
function failedAttempts(deliveries: Delivery[]): string | null {
  const attempts = deliveries.reduce((sum, delivery) => sum + delivery.attempts, 0);
  if (attempts === 0) return null;
  const latest = many(deliveries.length, 'delivery', 'deliveries');
  return `${attempts - deliveredOf(deliveries)} of ${attempts} for the last ${latest}`;
}

/** Each delivery that succeeded has one attempt that did not fail: its last. */
function deliveredOf(deliveries: Delivery[]): number {
  return deliveries.filter(({ status }) => status === 'delivered').length;
}

function waitsForRetry({ status, attempts }: Delivery): boolean {
  return status === 'pending' && attempts > 0;
}

/** Counts the deliveries whose attempts have failed so far, and says when the next attempt is. */
function Retries({ of: waiting }: { of: Delivery[] }) {
  const [next] = waiting.flatMap(({ next_attempt_at }) => next_attempt_at ?? []).sort();
  if (waiting.length === 0) return <>None</>;
  return (
    <span class="long">
      <Status tone="warning">{many(waiting.length, 'delivery', 'deliveries')}</Status>
      {next && (
        <>
          {' '}
          Next attempt <Time at={next} brief />
        </>
      )}
    </span>
  );
}
