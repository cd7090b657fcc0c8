import { createAccessLog, type Recorded } from '../../commands/access-log.ts';
import type { AccessEvent } from '../../domain/access.ts';
import type { Installation } from '../../installation.ts';
import { operator } from './session.ts';

/** Records what the user reads, before it is printed. `accountId` is null for all accounts. */
export async function recordAccess(
  installation: Installation,
  event: AccessEvent,
  accountId: string | null,
): Promise<Recorded> {
  return createAccessLog(installation).record({ event, cause: operator(), accountId });
}

/** Returns the options that were given, as the record of an export has them. */
export function given(options: object): Record<string, string> {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]));
}
