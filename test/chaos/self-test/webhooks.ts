import { sha256 } from '../checker/canonical.ts';
import type { Evidence } from '../checker/evidence-files.ts';
import type { DeliveryRecord } from '../evidence.ts';
import { type Damage, drop, sql } from './damage.ts';

const UNKNOWN = 'evt_01M80YCGCNVRRAZ3GW9X96KGKT';
const UNKNOWN_EVENT: Partial<DeliveryRecord> = { eventId: UNKNOWN, bodyId: UNKNOWN };

function arrivals({ deliveries }: Evidence, webhookId: string): DeliveryRecord[] {
  return deliveries.filter((record) => record.webhookId === webhookId);
}

export const WEBHOOK_DAMAGES: Damage[] = [
  {
    what: 'an event never reached a webhook that answers',
    finds: 'webhooks.owed',
    names: (run) => run.webhooks.all,
    evidence: (evidence, run) => {
      const lost = arrivals(evidence, run.webhooks.all).findLast(
        ({ transferId }) => transferId !== null,
      );
      drop(evidence.deliveries, (record) => record === lost);
    },
  },
  {
    what: 'an event is listed as delivered but was only rejected',
    finds: 'webhooks.owed',
    names: (run) => run.webhooks.ends,
    evidence: ({ deliveries }, run) =>
      drop(
        deliveries,
        ({ webhookId, status }) => webhookId === run.webhooks.ends && status === 200,
      ),
  },
  {
    what: 'an event has no delivery',
    finds: 'webhooks.owed',
    names: (run) => run.webhooks.dead,
    tables: (run) => sql(run)`delete from work.deliveries where webhook_id = ${run.webhooks.dead}`,
  },
  {
    what: 'a delivery is still pending',
    finds: 'webhooks.owed',
    names: (run) => run.webhooks.dead,
    tables: (run) =>
      sql(run)`
        update work.deliveries set status = 'pending', ended_at = null
         where webhook_id = ${run.webhooks.dead}`,
  },
  {
    what: 'a delivery has another body',
    finds: 'webhooks.rows',
    names: (run) => run.webhooks.all,
    tables: (run) =>
      sql(run)`
        update work.deliveries set body = replace(body, '1000', '1001')
         where webhook_id = ${run.webhooks.all}`,
  },
  {
    what: 'an attempt is not recorded',
    finds: 'webhooks.rows',
    names: (run) => run.webhooks.dead,
    tables: (run) => sql(run)`delete from work.delivery_attempts where number = 2`,
  },
  {
    what: 'the arrived bytes differ from the kept bytes',
    finds: 'webhooks.owed',
    names: (run) => run.webhooks.all,
    evidence: (evidence, run) =>
      Object.assign(arrivals(evidence, run.webhooks.all).at(-1) as DeliveryRecord, {
        bodySha256: sha256('other bytes'),
      }),
  },
  {
    what: 'events of a transfer arrived out of order',
    finds: 'webhooks.order',
    names: (run) => run.webhooks.all,
    evidence({ deliveries }, run) {
      const [first, ...younger] = deliveries.filter(
        (record) => record.webhookId === run.webhooks.all && record.transferId === run.ids.plain,
      );
      drop(deliveries, (record) => record === first);
      deliveries.splice(
        deliveries.indexOf(younger[0] as DeliveryRecord) + 1,
        0,
        first as DeliveryRecord,
      );
    },
  },
  {
    what: 'a signature is invalid',
    finds: 'webhooks.arrivals',
    names: (run) => run.webhooks.all,
    evidence: (evidence, run) =>
      Object.assign(arrivals(evidence, run.webhooks.all)[3] ?? {}, { signatureValid: false }),
  },
  {
    what: 'an event arrived under two ids',
    finds: 'webhooks.arrivals',
    names: (run) => run.webhooks.all,
    evidence: (evidence, run) =>
      Object.assign(arrivals(evidence, run.webhooks.all)[3] ?? {}, { bodyId: UNKNOWN }),
  },
  {
    what: 'an event arrived that is not in the log',
    finds: 'webhooks.arrivals',
    names: () => UNKNOWN,
    evidence: ({ deliveries }) =>
      deliveries.push({ ...(deliveries.at(-1) as DeliveryRecord), ...UNKNOWN_EVENT }),
  },
  {
    what: 'an event arrived that was not subscribed to',
    finds: 'webhooks.arrivals',
    names: (run) => run.webhooks.ends,
    evidence({ deliveries }, run) {
      const created = deliveries.find(({ type }) => type === 'transfer.created') as DeliveryRecord;
      deliveries.push({ ...created, webhookId: run.webhooks.ends });
    },
  },
  {
    what: 'the outbox has another state of a webhook',
    finds: 'webhooks.outbox',
    names: (run) => run.webhooks.all,
    tables: (run) =>
      sql(run)`update work.outbox_webhooks set live = false where webhook_id = ${run.webhooks.all}`,
  },
  {
    what: 'no delivery was recorded at all',
    finds: 'webhooks.arrivals',
    names: () => 'arrivals',
    evidence: ({ deliveries }) => deliveries.splice(0),
  },
];
