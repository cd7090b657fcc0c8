import { type Command, Option } from 'commander';
import { carryOutBulk, reserveBulk } from '../../commands/bulk.ts';
import type { Handled } from '../../commands/handle.ts';
import { retryTransfer } from '../../commands/retry.ts';
import {
  abortTransfer,
  cancelTransfer,
  loadTransfer,
  setPriority,
} from '../../commands/transfers.ts';
import { BULK_LIMIT, bulkRequest } from '../../contract/transfers/bulk.ts';
import { toFilter, transferChange } from '../../contract/transfers/requests.ts';
import { toCreated, toDetail } from '../../contract/transfers/views.ts';
import { CHANGES } from '../../domain/transfers/decider.ts';
import { PRIORITIES, type Transfer } from '../../domain/transfers/transfer.ts';
import type { Installation } from '../../installation.ts';
import { orSayWhenItLeft } from '../../projections/retention/removed-transfers.ts';
import { findChangeable, retriesOf } from '../../projections/transfers/changeable.ts';
import { readHistory } from '../../projections/transfers/history.ts';
import { EXIT } from '../program/exit-codes.ts';
import { note, print, printJson, printTable } from '../program/output.ts';
import { commaSeparated, parseRequest } from '../program/parse.ts';
import { fromReadModels } from '../program/read-model.ts';
import { operator, withInstallation } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';
import {
  ACCOUNT_OPTION,
  type Common,
  type FilterOptions,
  filtersOf,
  readModelsOf,
  withFilters,
} from './flags.ts';
import { REFUSAL_COLUMNS } from './refusals.ts';
import { watch } from './watch.ts';

interface RetryOptions extends Common {
  watch?: boolean;
}

interface BulkOptions extends Common, FilterOptions {
  ids?: string[];
  priority?: string;
  continueFrom?: string;
}

/** Adds the commands that end, retry or change transfers, one or many at once. */
export function addTransferChanges(transfers: Command): void {
  addEnd(transfers, 'cancel', 'cancel a pending or queued transfer', cancelTransfer);
  addEnd(transfers, 'abort', 'end a transfer in progress as failed', abortTransfer);

  transfers
    .command('retry')
    .description('copy the file of a failed or cancelled transfer again, as a new transfer')
    .argument('<transfer-id>')
    .option('--watch', 'follow the new transfer to its end, as `transfers watch` does')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document; JSON lines with --watch')
    .action((id: string, options: RetryOptions) =>
      withInstallation(
        async (installation) => {
          const { commands, sql } = installation;
          const { account } = options;
          const created = await orSayWhenItLeft(sql, account, id, () =>
            retryTransfer(commands, account, id, operator()),
          );
          const answer = (state: Transfer) => ({ ...toCreated(state), retry_of: id });
          await printCreated(installation, created, answer, options);
        },
        { runsLong: options.watch },
      ),
    );

  transfers
    .command('set-priority')
    .description('change the priority of a pending or queued transfer')
    .argument('<transfer-id>')
    .argument('<priority>', PRIORITIES.join(', '))
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document')
    .action(async (id: string, value: string, { account, json }: Common) => {
      const { priority } = parseRequest(transferChange, { priority: value }, 'The change');
      const state = await withInstallation(async ({ commands, sql }) => {
        await orSayWhenItLeft(sql, account, id, () => loadTransfer(commands, account, id));
        const changed = await setPriority(commands, id, priority, operator());
        await commands.waitFor('transfers', changed.position);
        return changed.state;
      });
      if (json) await printJson(toDetail(state));
      else await print(`${id} has the priority ${priority}`);
    });

  withFilters(
    transfers
      .command('bulk')
      .description(`change up to ${BULK_LIMIT} transfers; exit code 4 if one was refused`)
      .argument('<action>', Object.keys(CHANGES).map(toOption).join(', '))
      .option('--ids <ids>', 'the transfers: a,b', commaSeparated),
  )
    .addOption(
      new Option('--priority <priority>', 'the new priority, for set-priority').choices(PRIORITIES),
    )
    .option(
      '--continue-from <transfer-id>',
      'what the previous call printed, with the same filters',
    )
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document, as the API answers')
    .action((action: string, options: BulkOptions, command: Command) => {
      const filters = Object.values(filtersOf(options)).filter((value) => value !== undefined);
      if ((options.ids === undefined) === (filters.length === 0))
        command.error(
          "error: choose the transfers by '--ids', or by filters such as '--status failed'",
        );
      if (options.ids !== undefined && options.continueFrom !== undefined)
        command.error("error: option '--continue-from' cannot be used with option '--ids'");
      return withInstallation((installation) => bulk(installation, action, options));
    });
}

function addEnd(
  transfers: Command,
  verb: 'cancel' | 'abort',
  description: string,
  end: typeof abortTransfer,
): void {
  transfers
    .command(verb)
    .description(description)
    .argument('<transfer-id>')
    .option(...ACCOUNT_OPTION)
    .option('--json', 'one JSON document')
    .action(async (id: string, { account, json }: Common) => {
      const ended = await withInstallation(async (installation) => {
        const { commands } = installation;
        await readHistory(installation, account, id);
        const { state, position } = await end(commands, id, operator());
        await commands.waitFor('transfers', position);
        return state;
      });
      if (json) await printJson(toDetail(ended));
      else await print(`${id} is ${ended.status}`);
    });
}

function toOption(action: string): string {
  return action.replace('_', '-');
}

/** Prints a transfer that was created. Follows it with `watch`. */
export async function printCreated(
  installation: Installation,
  { state, position }: Handled<Transfer>,
  answer: (state: Transfer) => object,
  { account, json, watch: follow }: Common & { watch?: boolean | undefined },
): Promise<void> {
  const id = state.facts.transfer_id;
  await installation.commands.waitFor('transfers', position);
  if (follow) failUntilVerdict();
  if (json) await printJson(answer(state));
  else await print(id);
  if (follow) return watch(installation, account, id, json);
  if (!json) note(`Follow it with \`waybill transfers watch ${id}\``);
}

async function bulk(
  installation: Installation,
  action: string,
  { account, json, ids, priority, continueFrom, ...options }: BulkOptions,
): Promise<void> {
  const filters = Object.entries(filtersOf(options)).filter(([, value]) => value !== undefined);
  const body = {
    action: action.replace('-', '_'),
    ids,
    filter: filters.length > 0 ? Object.fromEntries(filters) : undefined,
    continue_from: continueFrom,
    priority,
  };
  const request = parseRequest(bulkRequest, body, 'The change');
  const { sql, commands } = installation;
  const reserved = await reserveBulk(request, (filter) =>
    fromReadModels(
      installation,
      readModelsOf(filter),
      () => findChangeable(sql, account, toFilter(filter), request, BULK_LIMIT),
      ({ transferIds }) => transferIds.length,
    ),
  );
  const call = { accountId: account, request, reserved, repeated: false, cause: operator() };
  const { answer, position } = await carryOutBulk(commands, call, (transferIds) =>
    retriesOf(sql, transferIds),
  );
  await commands.waitFor('transfers', position);
  if (answer.refused > 0) terminal().exitCode = EXIT.refused;
  if (json) await printJson(answer);
  else {
    await print(`${answer.done} done, ${answer.refused} refused`);
    if (answer.refused > 0) await printTable(REFUSAL_COLUMNS, answer.refusals, '');
  }
  if (answer.continue_from !== null)
    note(`More transfers match: repeat the command with --continue-from ${answer.continue_from}`);
}
