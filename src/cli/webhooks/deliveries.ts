import { type Command, Option } from 'commander';
import { COUNTED_TO } from '../../contract/pages.ts';
import {
  DELIVERY_STATUSES,
  type Delivery,
  replayRequest,
  webhookDeliveriesQuery,
} from '../../contract/webhooks/deliveries.ts';
import { DomainError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import type { Installation } from '../../installation.ts';
import { ping, redeliver, retryFailedDeliveries } from '../../processes/webhooks/deliveries.ts';
import { getDelivery, listDeliveries } from '../../processes/webhooks/delivery-table/read.ts';
import { replay } from '../../processes/webhooks/replays.ts';
import { type Columns, print, printJson, printTable } from '../program/output.ts';
import { noteMore, type PageOptions, withPage } from '../program/page.ts';
import { parseRequest } from '../program/parse.ts';
import { withInstallation } from '../program/session.ts';
import type { Common } from '../transfers/flags.ts';
import { findOrThrow } from './find-webhook.ts';
import { ACCOUNT_OPTION, JSON_OPTION } from './flags.ts';

const COLUMNS: Columns<Delivery> = {
  ID: ({ id }) => id,
  EVENT: ({ event_id }) => event_id,
  TYPE: ({ event_type }) => event_type,
  STATUS: ({ status }) => status,
  ATTEMPTS: ({ attempts }) => attempts,
  'NEXT OR DELIVERED': ({ next_attempt_at, delivered_at }) => next_attempt_at ?? delivered_at,
  'LAST ANSWER': ({ last_error, last_status_code }) => last_error ?? last_status_code,
};

interface ListOptions extends Common, PageOptions {
  status?: string;
}

/** Adds the commands that show deliveries, and that send some or send them again. */
export function addDeliveryCommands(webhooks: Command): void {
  webhooks
    .command('ping')
    .description('deliver an event of type `ping`, signed and retried like any other')
    .argument('<webhook-id>')
    .option(...ACCOUNT_OPTION)
    .option(...JSON_OPTION)
    .action(sendPing);

  withPage(
    webhooks
      .command('deliveries')
      .description(
        'list the deliveries of a webhook, or of all webhooks of the account, newest first',
      ),
  )
    .argument('[webhook-id]')
    .addOption(new Option('--status <status>').choices(DELIVERY_STATUSES))
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action((id: string | undefined, options: ListOptions) =>
      withInstallation((installation) => list(installation, id, options)),
    );

  webhooks
    .command('retry')
    .description('deliver again: one delivery in any status, or all failed deliveries of a webhook')
    .argument('<id>', 'the id of a delivery or a webhook')
    .option(...ACCOUNT_OPTION)
    .option(...JSON_OPTION)
    .action(retry);

  webhooks
    .command('replay')
    .description('deliver all subscribed events again, from a time or an event, in the background')
    .argument('<webhook-id>')
    .requiredOption('--from <time or event>', 'such as 2026-01-31T09:30:00Z, or evt_...; inclusive')
    .option(...ACCOUNT_OPTION)
    .option(...JSON_OPTION)
    .action(startReplay);
}

async function sendPing(id: string, { account, json }: Common): Promise<void> {
  const delivery = await withInstallation(async (installation) => {
    const { enabled } = await findOrThrow(installation, account, id);
    return ping(installation.sql, { webhookId: id, accountId: account, enabled });
  });
  if (json) await printJson({ id: delivery });
  else
    await print(`${delivery} is pending: \`waybill webhooks deliveries ${id}\` shows its outcome`);
}

async function list(
  installation: Installation,
  id: string | undefined,
  { account, json, ...options }: ListOptions,
): Promise<void> {
  const query = parseRequest(webhookDeliveriesQuery, options, 'The filter');
  const { status = null, limit, offset } = query;
  const webhookId =
    id === undefined ? null : (await findOrThrow(installation, account, id)).webhook_id;
  const filter = { accountId: account, webhookId, status, limit, offset };
  const { deliveries, total, hasMore } = await listDeliveries(installation.sql, filter);
  if (json)
    return printJson({ data: deliveries, pagination: { total, limit, offset, has_more: hasMore } });
  await printTable(COLUMNS, deliveries, 'No deliveries match');
  if (hasMore) noteMore(query, deliveries.length, { total, isExact: total !== COUNTED_TO });
}

async function retry(id: string, { account, json }: Common): Promise<void> {
  const retried = await withInstallation((installation) =>
    isId('dlv', id) ? retryOne(installation, account, id) : retryFailed(installation, account, id),
  );
  if (json) await printJson({ id, retried });
  else await print(`${retried} ${retried === 1 ? 'delivery is' : 'deliveries are'} pending again`);
}

/** Returns the number of deliveries that are pending again. Throws `not_found`. */
async function retryFailed(
  installation: Installation,
  account: string,
  webhookId: string,
): Promise<number> {
  const webhook = await findOrThrow(installation, account, webhookId);
  return retryFailedDeliveries(installation.sql, webhook);
}

/** Retries one delivery, and returns 1. Throws `not_found`, also if the webhook was removed. */
async function retryOne(installation: Installation, account: string, id: string): Promise<number> {
  const { sql } = installation;
  const delivery = await getDelivery(sql, id, { accountId: account });
  if (!delivery)
    throw new DomainError(
      'not_found',
      `There is no delivery ${id} in ${account}: \`waybill webhooks deliveries\` shows the ids`,
    );
  const { enabled } = await findOrThrow(installation, account, delivery.webhook_id);
  await redeliver(sql, { deliveryId: id, enabled });
  return 1;
}

async function startReplay(
  id: string,
  { from, account, json }: { from: string } & Common,
): Promise<void> {
  const body = parseRequest(replayRequest, { from }, 'The replay');
  await withInstallation(async (installation) => {
    await findOrThrow(installation, account, id);
    await replay(installation, id, body.from);
  });
  if (json) await printJson({ id, accepted: true });
  else
    await print(
      `${id} receives the events from ${from} on again: \`waybill webhooks deliveries ` +
        `${id}\` shows them`,
    );
}
