import { sha256 } from '../canonical.ts';
import type { Context } from '../context.ts';
import { digestOf, toldAs } from '../log/told.ts';
import { PING } from './arrivals.ts';

const BATCH = 1_000;

/** What `work.deliveries` and `work.delivery_attempts` hold for one event of one webhook. */
export interface DeliveryRow {
  id: string;
  status: 'pending' | 'delivered' | 'failed';
  attempts: number;
  claimed: boolean;
  lastError: string | null;
  bodySha256: string;
  /** The first attempt; null if none was recorded. */
  first: { at: string; delivered: boolean } | null;
}

/** By webhook and event id, without pings. `pings` has those as `WEBHOOK EVENT`. */
export interface DeliveryRows {
  rows: Map<string, Map<string, DeliveryRow>>;
  pings: Set<string>;
}

interface Row {
  id: string;
  webhook_id: string;
  account_id: string;
  event_id: string;
  event_type: string;
  transfer_id: string | null;
  body: string;
  status: DeliveryRow['status'];
  attempts: number;
  claimed: boolean;
  last_error: string | null;
  recorded: number;
  first_at: string | null;
  first_error: string | null;
}

/** Reads every delivery, and checks that its row and its body follow from the log. */
export async function readRows({ sql, log, report }: Context): Promise<DeliveryRows> {
  const rows: DeliveryRows['rows'] = new Map();
  const pings = new Set<string>();
  const found = sql<Row[]>`
    select d.id, d.webhook_id, d.account_id, d.event_id, d.event_type, d.transfer_id, d.body,
           d.status, d.attempts, p.claim_id is not null as claimed, d.last_error, a.recorded,
           f.at as first_at, f.error as first_error
      from work.deliveries d
      left join work.pending_deliveries p on p.delivery_id = d.id
      left join (
        select delivery_id, count(*)::integer as recorded from work.delivery_attempts group by 1
      ) a on a.delivery_id = d.id
      left join work.delivery_attempts f on f.delivery_id = d.id and f.number = 1`;
  for await (const batch of found.cursor(BATCH)) for (const row of batch) keep(row);
  return { rows, pings };

  function keep(row: Row): void {
    const {
      webhook_id,
      event_id,
      id,
      status,
      attempts,
      claimed,
      last_error: lastError,
      first_at: at,
    } = row;
    report.count('deliveries');
    const problem = problemOf(row);
    if (problem !== null)
      report.finding('webhooks.rows', `${id} (${webhook_id} ${event_id})`, problem);
    if (row.event_type === PING) pings.add(`${webhook_id} ${event_id}`);
    if (row.event_type === PING) return;
    const first = at === null ? null : { at, delivered: row.first_error === null };
    const ofWebhook = rows.get(webhook_id) ?? new Map<string, DeliveryRow>();
    rows.set(
      webhook_id,
      ofWebhook.set(event_id, {
        id,
        status,
        attempts,
        claimed,
        lastError,
        bodySha256: sha256(row.body),
        first,
      }),
    );
  }

  function problemOf({
    webhook_id,
    account_id,
    event_id,
    event_type,
    transfer_id,
    body,
    attempts,
    recorded,
  }: Row): string | null {
    const webhook = log.webhooks.get(webhook_id)?.state;
    if (!webhook) return 'the log does not hold its webhook';
    if (webhook.account_id !== account_id)
      return `it is of account ${account_id}, and its webhook of ${webhook.account_id}`;
    if ((recorded ?? 0) !== attempts)
      return `it counts ${attempts} attempts, and ${recorded ?? 0} are recorded`;
    if (event_type === PING) return null;
    const event = log.events.get(event_id);
    if (!event) return `the log does not hold this ${event_type}`;
    if (toldAs(event.type) !== event_type || event.transferId !== transfer_id)
      return `the log holds ${event.type} of ${event.transferId}`;
    if (digestOf(JSON.parse(body)) !== event.payload)
      return `its body is not what the event gives: ${body.slice(0, 300)}`;
    return null;
  }
}
