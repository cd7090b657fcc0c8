import { type Command, Option } from 'commander';
import { registerWebhook, removeWebhook } from '../../commands/webhooks.ts';
import { COUNTED_TO } from '../../contract/pages.ts';
import {
  DELIVERY_STATUSES,
  replayRequest,
  webhookDeliveriesQuery,
} from '../../contract/webhooks/deliveries.ts';
import { webhookRequest } from '../../contract/webhooks/requests.ts';
import { toWebhook, toWebhookWithSecret } from '../../contract/webhooks/views.ts';
import { DomainError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { WEBHOOK_EVENT_TYPES, type Webhook } from '../../domain/webhook.ts';
import type { Installation } from '../../installation.ts';
import { ping, redeliver, retryFailedDeliveries } from '../../processes/webhooks/deliveries.ts';
import { getDelivery, listDeliveries } from '../../processes/webhooks/delivery-table/read.ts';
import { replay } from '../../processes/webhooks/replays.ts';
import { findWebhook, listWebhooks } from '../../projections/catalog/queries.ts';
import { requireAccount } from '../program/account.ts';
import { print, printFacts, printJson, printTable } from '../program/output.ts';
import { noteMore, withPage } from '../program/page.ts';
import { accountOption, commaSeparated, parseRequest } from '../program/parse.ts';
import { fromCatalog } from '../program/read-model.ts';
import { readSecret, type SecretOptions, withSecret } from '../program/secret.ts';
import { operator, withInstallation } from '../program/session.ts';
import { addReceiverCommands } from './receiver.ts';

const ACCOUNT = accountOption('webhooks');
const JSON_DOCUMENT = ['--json', 'one JSON document'] as const;

interface Common {
  account: string;
  json?: boolean;
}

interface DeliveriesOptions extends Common {
  status?: string;
  limit?: string;
  offset?: string;
}

export function addWebhookCommands(program: Command): void {
  const webhooks = program
    .command('webhooks')
    .description('register webhooks, show and retry their deliveries, and test receivers');

  withSecret(
    webhooks
      .command('add')
      .description('register a webhook')
      .requiredOption(
        '--url <url>',
        'target of the deliveries: https, or http if WAYBILL_WEBHOOK_ALLOW_CIDRS allows it',
      )
      .requiredOption(
        '--events <a,b>',
        `event types: ${WEBHOOK_EVENT_TYPES.join(', ')}`,
        commaSeparated,
      ),
    'the secret that signs the deliveries; without one, a secret is generated and shown once',
  )
    .option(...ACCOUNT)
    .option(...JSON_DOCUMENT)
    .action(
      async ({
        url,
        events,
        account,
        json,
        ...given
      }: { url: string; events: string[] } & SecretOptions & Common) => {
        const secret = await readSecret(given);
        const request = parseRequest(webhookRequest, { url, events, secret }, 'The webhook');
        const added = await withInstallation(async (installation) => {
          await requireAccount(installation, account);
          return registerWebhook(installation.commands, account, request, operator());
        });
        const shown = toWebhookWithSecret(added.webhook, added.secret);
        if (json) return printJson(shown);
        await printFacts({
          id: shown.id,
          url,
          events: events.join(', '),
          ...(shown.secret ? { secret: shown.secret } : {}),
        });
        if (shown.secret) await print('Store the secret now: it is not shown again.');
      },
    );

  webhooks
    .command('list')
    .description('list the webhooks of an account, newest first')
    .option(...ACCOUNT)
    .option('--json', 'one JSON line a webhook')
    .action(async ({ account, json }: Common) => {
      const all = await withInstallation((installation) =>
        fromCatalog(installation, (sql) => listWebhooks(sql, account)),
      );
      if (json) for (const webhook of all) await printJson(toWebhook(webhook));
      else await printWebhooks(all);
    });

  webhooks
    .command('remove')
    .description('remove a webhook; its pending deliveries fail')
    .argument('<webhook-id>', 'as `webhooks list` shows it')
    .option(...ACCOUNT)
    .option(...JSON_DOCUMENT)
    .action(async (id: string, { account, json }: Common) => {
      await withInstallation(async (installation) => {
        await find(installation, account, id);
        await removeWebhook(installation.commands, id, operator());
      });
      if (json) await printJson({ id, status: 'removed' });
      else await print(`${id} is removed`);
    });

  webhooks
    .command('ping')
    .description('deliver an event of type `ping`, signed and retried like any other')
    .argument('<webhook-id>')
    .option(...ACCOUNT)
    .option(...JSON_DOCUMENT)
    .action(async (id: string, { account, json }: Common) => {
      const delivery = await withInstallation(async (installation) => {
        const { enabled } = await find(installation, account, id);
        return ping(installation.sql, { webhookId: id, accountId: account, enabled });
      });
      if (json) await printJson({ id: delivery });
      else
        await print(
          `${delivery} is pending: \`waybill webhooks deliveries ${id}\` shows its outcome`,
        );
    });

  withPage(
    webhooks
      .command('deliveries')
      .description(
        'list the deliveries of a webhook, or of all webhooks of the account, newest first',
      ),
  )
    .argument('[webhook-id]')
    .addOption(new Option('--status <status>').choices(DELIVERY_STATUSES))
    .option(...ACCOUNT)
    .option('--json', 'one JSON document, as the API answers')
    .action((id: string | undefined, options: DeliveriesOptions) =>
      withInstallation((installation) => deliveries(installation, id, options)),
    );

  webhooks
    .command('retry')
    .description('deliver again: one delivery in any status, or all failed deliveries of a webhook')
    .argument('<id>', 'the id of a delivery or a webhook')
    .option(...ACCOUNT)
    .option(...JSON_DOCUMENT)
    .action(async (id: string, { account, json }: Common) => {
      const retried = await withInstallation((installation) => retry(installation, account, id));
      if (json) await printJson({ id, retried });
      else
        await print(`${retried} ${retried === 1 ? 'delivery is' : 'deliveries are'} pending again`);
    });

  webhooks
    .command('replay')
    .description('deliver all subscribed events again, from a time or an event, in the background')
    .argument('<webhook-id>')
    .requiredOption('--from <time or event>', 'such as 2026-01-31T09:30:00Z, or evt_...; inclusive')
    .option(...ACCOUNT)
    .option(...JSON_DOCUMENT)
    .action(async (id: string, { from, account, json }: { from: string } & Common) => {
      const body = parseRequest(replayRequest, { from }, 'The replay');
      await withInstallation(async (installation) => {
        await find(installation, account, id);
        await replay(installation, id, body.from);
      });
      if (json) await printJson({ id, accepted: true });
      else
        await print(
          `${id} receives the events from ${from} on again: \`waybill webhooks deliveries ` +
            `${id}\` shows them`,
        );
    });

  addReceiverCommands(webhooks);
}

async function find(stores: Installation, account: string, id: string): Promise<Webhook> {
  const found = await findWebhook(stores, account, id);
  if (!found)
    throw new DomainError(
      'not_found',
      `There is no webhook ${id} in ${account}: \`waybill webhooks list\` shows the ids`,
    );
  return found;
}

async function deliveries(
  installation: Installation,
  id: string | undefined,
  { account, json, ...options }: DeliveriesOptions,
): Promise<void> {
  const {
    status = null,
    limit,
    offset,
  } = parseRequest(webhookDeliveriesQuery, options, 'The filter');
  const webhookId = id === undefined ? null : (await find(installation, account, id)).webhook_id;
  const filter = { accountId: account, webhookId, status };
  const {
    deliveries: shown,
    total,
    hasMore,
  } = await listDeliveries(installation.sql, { ...filter, limit, offset });
  if (json)
    return printJson({ data: shown, pagination: { total, limit, offset, has_more: hasMore } });
  const rows = shown.map((delivery) => [
    delivery.id,
    delivery.event_id,
    delivery.event_type,
    delivery.status,
    delivery.attempts,
    delivery.next_attempt_at ?? delivery.delivered_at,
    delivery.last_error ?? delivery.last_status_code,
  ]);
  await printTable(
    ['ID', 'EVENT', 'TYPE', 'STATUS', 'ATTEMPTS', 'NEXT OR DELIVERED', 'LAST ANSWER'],
    rows,
    'No deliveries match',
  );
  if (hasMore) noteMore({ limit, offset }, shown.length, { total, isExact: total !== COUNTED_TO });
}

async function retry(installation: Installation, account: string, id: string): Promise<number> {
  const { sql } = installation;
  if (!isId('dlv', id)) return retryFailedDeliveries(sql, await find(installation, account, id));
  const delivery = await getDelivery(sql, id, { accountId: account });
  if (!delivery)
    throw new DomainError(
      'not_found',
      `There is no delivery ${id} in ${account}: \`waybill webhooks deliveries\` shows the ids`,
    );
  // Throws if the webhook was removed.
  const { enabled } = await find(installation, account, delivery.webhook_id);
  await redeliver(sql, { deliveryId: id, enabled });
  return 1;
}

function printWebhooks(webhooks: Webhook[]): Promise<void> {
  const rows = webhooks.map(({ webhook_id, url, events, enabled }) => [
    webhook_id,
    url,
    events.join(','),
    enabled ? 'enabled' : 'disabled',
  ]);
  return printTable(
    ['ID', 'URL', 'EVENTS', 'STATE'],
    rows,
    'There are no webhooks: register one with `waybill webhooks add`',
  );
}
