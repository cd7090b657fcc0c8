import type { Delivery } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useLoad } from '../../api/use-load.ts';
import { Facts } from '../../components/values/facts.tsx';
import { Time } from '../../components/values/time.tsx';
import { DeliveryStrip, lastResponse } from './delivery-columns.tsx';

/** The largest page of the API. */
const LATEST = 100;
const LOOK_MS = 3_000;

/** Shows how many of a webhook's latest deliveries succeeded, and the last one that failed. */
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
        page({ limit: LATEST }),
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
          'Latest deliveries': <DeliveryStrip deliveries={latest} />,
          'Last failed delivery': failed ? (
            <a href={`/console/webhooks/${webhookId}/deliveries/${failed.id}`}>
              {failed.event_type}
            </a>
          ) : (
            'None in 30 days'
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
  const ended = deliveries.filter(({ status }) => status !== 'pending');
  if (ended.length === 0) return null;
  const delivered = ended.filter(({ status }) => status === 'delivered').length;
  // Rounded down: 99.9 % with a failure is not 100 %.
  return `${Math.floor((delivered * 100) / ended.length)} % (${delivered} of the last ${ended.length})`;
}
