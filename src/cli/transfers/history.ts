import type { Command } from 'commander';
import { toHistoryItem } from '../../contract/events.ts';
import { detailQuery } from '../../contract/transfers/requests.ts';
import { toDetail } from '../../contract/transfers/views.ts';
import { DomainError } from '../../domain/errors.ts';
import type { StoredEvent } from '../../domain/events/event.ts';
import { eventsUntil, stateAsOf, stateOf } from '../../domain/transfers/history.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import { readAnyHistory } from '../../projections/transfers/history.ts';
import { recordAccess } from '../program/access.ts';
import { type Columns, print, printJson, printTable } from '../program/output.ts';
import { parseRequest } from '../program/parse.ts';
import { withInstallation } from '../program/session.ts';
import { printTransfer } from './show.ts';

interface HistoryOptions {
  account?: string;
  asOf?: string;
  json?: boolean;
}

export function addHistoryCommand(program: Command): void {
  program
    .command('history')
    .description('show every event of a transfer, and the state that follows; finds any account')
    .argument('<transfer-id>')
    .option('--account <account>', 'reject a transfer of another account')
    .option('--as-of <time or revision>', 'stop after the event of this revision or time')
    .option('--json', 'one JSON document: the events and the state')
    .action(async (id: string, { account, asOf, json }: HistoryOptions) => {
      const { as_of } = parseRequest(detailQuery, { as_of: asOf }, '--as-of');
      const { all, state } = await withInstallation(async (installation) => {
        const all = await readAnyHistory(installation, id);
        const state = as_of === undefined ? stateOf(all) : stateAsOf(all, as_of);
        const owner = state.facts.account_id;
        if (account !== undefined && account !== owner)
          throw new DomainError('not_found', `The transfer belongs to ${owner}, not to ${account}`);
        const read = { type: 'access.history_read', data: { transfer_id: id } } as const;
        await recordAccess(installation, read, owner);
        return { all, state };
      });
      const events = as_of === undefined ? all : eventsUntil(all, as_of);
      if (json)
        return printJson({
          as_of: asOf ?? null,
          state: toDetail(state),
          events: events.map(toHistoryItem),
        });
      await printHistory(events, state);
    });
}

const COLUMNS: Columns<StoredEvent> = {
  REVISION: ({ revision }) => revision,
  TIME: ({ metadata }) => metadata.occurred_at,
  EVENT: ({ type }) => type,
  ACTOR: ({ metadata }) => metadata.actor,
  '': ({ data }) => remark(data),
};

async function printHistory(events: StoredEvent[], state: Transfer): Promise<void> {
  await printTable(COLUMNS, events, '');
  await print('');
  await printTransfer(state);
}

/** Returns the reason that an event gives, or the priority, if any. */
function remark(data: unknown): string {
  const { reason, given_back, priority, error } = data as {
    reason?: string;
    given_back?: string;
    priority?: string;
    error?: { code: string; message: string };
  };
  const failure = error && `${error.code}: ${error.message}`;
  return [reason, given_back, priority, failure].filter(Boolean).join('  ');
}
