import type { DeliveryRecord } from '../../evidence.ts';
import type { Context } from '../context.ts';
import { toldAs } from '../log/told.ts';

/** The requests that a webhook's receiver got for one event. */
export interface Arrived {
  /** Index of the first arrival among all arrivals, and its time. */
  first: number;
  firstAt: string;
  arrivals: number;
  /** True if one of them was answered with 2xx. */
  acknowledged: boolean;
  bodies: Set<string>;
}

/** By webhook and event id. */
export type Arrivals = Map<string, Map<string, Arrived>>;

export const PING = 'ping';

/**
 * Checks each arrival by itself: it is signed, its event is in the log, and its webhook must get
 * the event.
 */
export function checkArrivals({ evidence, log, report }: Context, pings: Set<string>): Arrivals {
  const arrivals: Arrivals = new Map();
  const replayed = evidence.requests.some(
    (request) => request.kind === 'other' && /replay/i.test(request.what),
  );

  for (const [place, record] of evidence.deliveries.entries()) {
    report.count('arrivals');
    const problem = problemOf(record);
    if (problem !== null)
      report.finding('webhooks.arrivals', `${record.webhookId} ${record.eventId}`, problem);
    remember(record, place);
  }
  return arrivals;

  function problemOf({
    webhookId,
    eventId,
    bodyId,
    type,
    transferId,
    signatureValid,
  }: DeliveryRecord): string | null {
    if (!signatureValid) return 'the signature is not valid';
    if (bodyId !== eventId) return `the header says ${eventId}, and the body ${bodyId}`;
    if (type === PING)
      return pings.has(`${webhookId} ${eventId}`) ? null : 'no ping was asked for under this id';
    const event = log.events.get(eventId);
    if (!event) return `the log does not hold this ${type}`;
    if (toldAs(event.type) !== type)
      return `the log holds a ${event.type} under this id, and ${type} arrived`;
    if (event.transferId !== transferId)
      return `the event is of ${event.transferId}, and the body names ${transferId}`;
    if (log.owed.get(webhookId)?.has(eventId)) return null;
    if (replayed && log.replayable.get(webhookId)?.has(eventId)) return null;
    return `the webhook was not to get this ${type}`;
  }

  function remember(
    { webhookId, eventId, receivedAt, status, bodySha256 }: DeliveryRecord,
    place: number,
  ): void {
    const ofWebhook = arrivals.get(webhookId) ?? new Map<string, Arrived>();
    arrivals.set(webhookId, ofWebhook);
    const known = ofWebhook.get(eventId) ?? {
      first: place,
      firstAt: receivedAt,
      arrivals: 0,
      acknowledged: false,
      bodies: new Set(),
    };
    known.arrivals += 1;
    known.acknowledged ||= status !== null && status >= 200 && status < 300;
    if (bodySha256 !== undefined) known.bodies.add(bodySha256);
    ofWebhook.set(eventId, known);
  }
}
