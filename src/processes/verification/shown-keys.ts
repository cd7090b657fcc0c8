import { isDeepStrictEqual } from 'node:util';
import type { EventStore } from '../../adapters/event-store/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import { SIGNING_KEYS } from '../../domain/events/streams.ts';
import { loadCheckpoint } from '../../projections/checkpoint.ts';
import { listSigningKeys, signingKeysOfLog } from '../../projections/proof/queries.ts';
import { type Fault, nowhere } from './fault.ts';

/**
 * Returns a fault if the API shows other public keys of the log than the log has. A reader who takes
 * the keys from there would trust a forged checkpoint or receipt.
 */
export async function faultsOfShownKeys(
  { store, sql }: { store: EventStore; sql: Sql },
  logId: string,
): Promise<Fault[]> {
  // First of all, because the table only grows: it has all that was processed by now.
  const reached = (await loadCheckpoint(sql, 'read.checkpoints', 'proof'))?.position ?? 0n;
  const shown = await listSigningKeys(sql, logId);
  const logged = await signingKeysOfLog(store, logId);
  const differing = shown.filter((key, i) => {
    const inLog = logged[i];
    return !isDeepStrictEqual(key, inLog && { ...inLog, until: untilOf(shown, i) });
  });
  const [next] = await store.read(SIGNING_KEYS, shown.length, 1);
  if (next !== undefined && next.position <= reached) differing.push(...logged.slice(shown.length));
  if (differing.length === 0) return [];
  const ids = differing.map(({ key_id }) => key_id).join(', ');
  return [
    nowhere(
      'api',
      `the API does not show the keys of the log as the log has them (${ids}): use no key of ` +
        '`GET /v1/log/keys`. `waybill projections verify proof` says which rows differ',
    ),
  ];
}

/** The last key that the API shows signs until the log has another one. */
function untilOf(shown: { since: string }[], i: number): string | null {
  return shown[i + 1]?.since ?? null;
}
