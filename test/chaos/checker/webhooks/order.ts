import type { FaultRecord } from '../../evidence.ts';
import type { Context } from '../context.ts';
import { faultsBetween } from '../evidence-files.ts';
import type { Arrivals, Arrived } from './arrivals.ts';
import type { DeliveryRows } from './rows.ts';

/**
 * Checks the order that docs/clients.md promises: a receiver that answers gets the events of a
 * transfer in the order of their ids. An event may arrive after a younger one only as a retry, if
 * its first attempt failed before the younger one arrived.
 */
export function checkOrder(
  { evidence, log, report }: Context,
  { rows }: DeliveryRows,
  arrivals: Arrivals,
): void {
  for (const [webhookId, arrived] of arrivals) {
    const owed = log.owed.get(webhookId);
    const ids = [...arrived.keys()].filter((id) => owed?.has(id) && log.events.get(id)?.transferId);
    for (const ofTransfer of Map.groupBy(ids, (id) => log.events.get(id)?.transferId).values()) {
      checkTransfer(webhookId, ofTransfer.toSorted(), arrived);
    }
  }

  function checkTransfer(webhookId: string, ids: string[], arrived: Map<string, Arrived>): void {
    for (const [i, id] of ids.entries()) {
      const younger = ids.slice(i + 1);
      const own = arrived.get(id) as Arrived;
      report.count('order_pairs', younger.length);
      const before = younger.find((other) => (arrived.get(other) as Arrived).first < own.first);
      if (
        before === undefined ||
        wasTriedBefore(webhookId, id, arrived.get(before) as Arrived, own)
      )
        continue;
      const detail =
        `it first arrived at ${own.firstAt}, after the younger ${before} ` +
        `(${arrived.get(before)?.firstAt})`;
      report.finding('webhooks.order', `${webhookId} ${id} (${log.events.get(id)?.type})`, detail);
    }
  }

  function wasTriedBefore(webhookId: string, id: string, younger: Arrived, own: Arrived): boolean {
    const first = rows.get(webhookId)?.get(id)?.first;
    if (first && !first.delivered && first.at <= younger.firstAt) return true;
    // A Postgres crash may lose the record of a failed attempt, because deliverers do not wait for
    // their commits.
    const occurredAt = log.events.get(id)?.occurredAt ?? own.firstAt;
    return faultsBetween(evidence.faults, occurredAt, own.firstAt).some(isOfPostgres);
  }
}

function isOfPostgres({ fault, target }: FaultRecord): boolean {
  return /postgres/i.test(`${fault} ${target}`);
}
