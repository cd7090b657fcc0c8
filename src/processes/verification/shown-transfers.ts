import { isDeepStrictEqual } from 'node:util';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { toDetail } from '../../contract/transfers/views.ts';
import { parseStream } from '../../domain/events/streams.ts';
import type { Transfer } from '../../domain/transfers/transfer.ts';
import { endOfLog } from '../../projections/newest-of-log.ts';
import { type ShownTransfer, shownTransfers } from '../../projections/transfers/shown.ts';
import type { CheckedStream } from './chain.ts';
import { type Fault, nowhere } from './fault.ts';

/**
 * Compares transfers, folded from the log, with what the API answers of them: the same view of the
 * state in the read model. `position` is the place up to which the log was read, `ends` has the
 * positions of last events, of transfers that have ended. Returns the problem of each stream that
 * differs. What the read model has not reached is no fault: `unreached` has the ended ones of these.
 */
export async function compareShown(
  sql: Sql,
  folded: ReadonlyMap<string, CheckedStream>,
  position: bigint,
  ends: ReadonlyMap<string, bigint> = new Map(),
): Promise<{ problems: Map<string, string>; unreached: string[] }> {
  const problems = new Map<string, string>();
  const known = [...folded].filter(([, { state }]) => state !== null);
  if (known.length === 0) return { problems, unreached: [] };
  const ids = known.map(([stream]) => parseStream(stream).id);
  const { reached, transfers } = await shownTransfers(sql, ids);
  for (const [stream, { state, revision }] of known) {
    const shown = transfers.get(parseStream(stream).id) ?? null;
    // Changed since this part of the log was read. No event follows an end, and none is beyond what
    // the read model has reached.
    const later = shown !== null && shown.position > position && shown.position <= reached;
    if (later && !ends.has(stream)) continue;
    const isBehind =
      reached < (ends.get(stream) ?? position) && (shown === null || shown.revision < revision);
    const problem = isBehind ? null : differenceOf(state as Transfer, revision, shown);
    if (problem !== null) problems.set(stream, problem);
  }
  const unreached = known.flatMap(([stream]) =>
    reached < (ends.get(stream) ?? 0n) && !problems.has(stream) ? [stream] : [],
  );
  return { problems, unreached };
}

function differenceOf(
  folded: Transfer,
  revision: number,
  shown: ShownTransfer | null,
): string | null {
  if (shown === null) return 'the API does not show this transfer';
  if (shown.revision !== revision)
    return `the API shows revision ${shown.revision}, and the log has ${revision}`;
  const { account_id, destination } = folded.facts;
  const columns = { account_id, status: folded.status, destination };
  if (!isDeepStrictEqual(shown.columns, columns))
    return (
      `the API finds it as ${JSON.stringify(shown.columns)}, ` +
      `the log gives ${JSON.stringify(columns)}`
    );
  const [ours, theirs] = [detailOf(folded), detailOf(shown.state)];
  if (ours === null) return 'its events make no transfer that the API could show';
  const fields = Object.keys({ ...ours, ...theirs }).filter(
    (field) => !isDeepStrictEqual(ours[field], theirs?.[field]),
  );
  const named = fields.map(
    (field) =>
      `${field} as ${JSON.stringify(theirs?.[field])}, the log gives ${JSON.stringify(ours[field])}`,
  );
  return named.length === 0 ? null : `the API shows ${named.join('; ')}`;
}

/** Returns null for a state that no event of Waybill makes, so that the view fails. */
function detailOf(state: Transfer): Record<string, unknown> | null {
  try {
    return { ...toDetail(state) };
  } catch {
    return null;
  }
}

/**
 * Yields what the API shows and the log does not have. `reached` is the position up to which the API
 * shows the log, `unknown` counts transfers that the log does not have.
 */
export async function* faultsBeyondLog(
  store: EventStore,
  reached: bigint,
  unknown: number,
): AsyncGenerator<Fault> {
  const end = await endOfLog(store, reached);
  if (reached > end)
    yield nowhere(
      'api',
      `the API has shown events up to position ${reached}; the log ends at ${end}`,
    );
  if (unknown > 0)
    yield nowhere(
      'api',
      `the API shows ${unknown} transfers that the log does not have: ` +
        '`waybill projections verify transfers` names them',
    );
}
