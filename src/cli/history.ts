import type { Command } from 'commander';
import type { StoredEvent } from '../domain/event.ts';
import type { Transfer } from '../domain/transfer.ts';
import { readHistory, stateAsOf } from '../http/transfers/history.ts';
import { detailQuery } from '../http/transfers/schemas.ts';
import { toDetail, toHistoryItem } from '../http/transfers/views.ts';
import { print, printJson, printTable } from './output.ts';
import { parseRequest } from './parse.ts';
import { withInstallation } from './session.ts';
import { ACCOUNT_OPTION, printTransfer } from './transfers.ts';

interface HistoryOptions {
  account: string;
  asOf?: string;
  json?: boolean;
}

export function addHistoryCommand(program: Command): void {
  program
    .command('history')
    .description('every event of a transfer, and the state that follows from them')
    .argument('<transfer-id>')
    .option(...ACCOUNT_OPTION)
    .option('--as-of <time or revision>', 'as it was then')
    .option('--json', 'one JSON document: the events and the state')
    .action(async (id: string, { account, asOf, json }: HistoryOptions) => {
      const { as_of } = parseRequest(detailQuery, { as_of: asOf }, '--as-of');
      const all = await withInstallation(({ store }) => readHistory(store, account, id));
      const latest = { revision: all.length };
      const state = stateAsOf(all, as_of ?? latest);
      const events = as_of === undefined ? all : all.slice(0, eventsIn(all, as_of));
      if (json) return printJson({ as_of: asOf ?? null, state: toDetail(state, null), events: events.map(toHistoryItem) });
      await printHistory(events, state);
    });
}

function eventsIn(events: StoredEvent[], asOf: { time: string } | { revision: number }): number {
  return events.filter((event) => ('revision' in asOf ? event.revision <= asOf.revision : event.metadata.occurred_at <= asOf.time)).length;
}

async function printHistory(events: StoredEvent[], state: Transfer): Promise<void> {
  const rows = events.map(({ revision, metadata, type, data }) => [revision, metadata.occurred_at, type, metadata.actor, remark(data)]);
  await printTable(['REVISION', 'TIME', 'EVENT', 'ACTOR', ''], rows, '');
  await print('');
  await printTransfer(state, null);
}

/** Why, where an event tells. */
function remark(data: unknown): string {
  const { reason, error } = data as { reason?: string; error?: { code: string; message: string } };
  return [reason, error && `${error.code}: ${error.message}`].filter(Boolean).join('  ');
}
