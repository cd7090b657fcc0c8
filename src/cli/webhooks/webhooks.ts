import type { Command } from 'commander';
import { registerWebhook, removeWebhook } from '../../commands/webhooks.ts';
import { webhookRequest } from '../../contract/webhooks/requests.ts';
import { toWebhook, toWebhookWithSecret } from '../../contract/webhooks/views.ts';
import { WEBHOOK_EVENT_TYPES, type Webhook } from '../../domain/webhook.ts';
import { listWebhooks } from '../../projections/catalog/queries.ts';
import { requireAccount } from '../program/account.ts';
import { type Columns, print, printFacts, printJson, printTable } from '../program/output.ts';
import { commaSeparated, parseRequest } from '../program/parse.ts';
import { fromCatalog } from '../program/read-model.ts';
import { readSecret, type SecretOptions, withSecret } from '../program/secret.ts';
import { operator, withInstallation } from '../program/session.ts';
import type { Common } from '../transfers/flags.ts';
import { addDeliveryCommands } from './deliveries.ts';
import { findOrThrow } from './find-webhook.ts';
import { ACCOUNT_OPTION, JSON_OPTION } from './flags.ts';
import { addReceiverCommands } from './receiver.ts';

const COLUMNS: Columns<Webhook> = {
  ID: ({ webhook_id }) => webhook_id,
  URL: ({ url }) => url,
  EVENTS: ({ events }) => events.join(','),
  STATE: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
};

interface AddOptions extends Common, SecretOptions {
  url: string;
  events: string[];
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
    .option(...ACCOUNT_OPTION)
    .option(...JSON_OPTION)
    .action(add);

  webhooks
    .command('list')
    .description('list the webhooks of an account, newest first')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON line a webhook')
    .action(list);

  webhooks
    .command('remove')
    .description('remove a webhook; its pending deliveries fail')
    .argument('<webhook-id>', 'as `webhooks list` shows it')
    .option(...ACCOUNT_OPTION)
    .option(...JSON_OPTION)
    .action(remove);

  addDeliveryCommands(webhooks);
  addReceiverCommands(webhooks);
}

async function add({ url, events, account, json, ...given }: AddOptions): Promise<void> {
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
}

async function list({ account, json }: Common): Promise<void> {
  const all = await withInstallation((installation) =>
    fromCatalog(installation, (sql) => listWebhooks(sql, account)),
  );
  if (json) for (const webhook of all) await printJson(toWebhook(webhook));
  else
    await printTable(
      COLUMNS,
      all,
      'There are no webhooks: register one with `waybill webhooks add`',
    );
}

async function remove(id: string, { account, json }: Common): Promise<void> {
  await withInstallation(async (installation) => {
    await findOrThrow(installation, account, id);
    await removeWebhook(installation.commands, id, operator());
  });
  if (json) await printJson({ id, status: 'removed' });
  else await print(`${id} is removed`);
}
