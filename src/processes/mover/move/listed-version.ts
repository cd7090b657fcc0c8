import type { SourceFile } from '../../../adapters/files/port.ts';
import { type Endpoint, hasFolders } from '../../../domain/endpoints/endpoint.ts';
import type { TransferCreated } from '../../../domain/transfers/transfer.ts';
import { AttemptError } from '../failure.ts';
import type { Move } from './move-state.ts';

/** Time zones differ by multiples of this. Some servers tell local times in one of two places. */
const ZONE_STEP_SECONDS = 900;

/**
 * Returns the version that a move must find. Null if any will do: an object is never seen half
 * written, because a store shows it whole or not at all.
 */
export function listedVersion(
  { listed_version }: Pick<TransferCreated, 'listed_version'>,
  { settings }: Pick<Endpoint, 'settings'>,
): string | null {
  return hasFolders(settings) ? (listed_version ?? null) : null;
}

/**
 * Throws if the source is not the file that was listed. The flow waited until that one was ready,
 * and a writer may have begun to write the next one.
 */
export function assertListed(
  { listed }: Move,
  { identity: { size }, modifiedAt }: Pick<SourceFile, 'identity' | 'modifiedAt'>,
): void {
  if (listed === null) return;
  const [listedSize, listedAt] = listed.split(' ') as [string, string];
  const seconds = Math.floor(Date.parse(listedAt) / 1_000);
  const apart = modifiedAt === null ? 0 : seconds - Math.floor(Number(modifiedAt));
  // A server that lists no time leaves only the size to compare.
  const isSameTime = Number.isNaN(apart) || apart % ZONE_STEP_SECONDS === 0;
  if ((listedSize === '-' || Number(listedSize) === size) && isSameTime) return;
  const message = `The source has ${size} bytes now, and is not the version that was listed (${listed})`;
  throw new AttemptError({ code: 'source_replaced', message, phase: 'source_open' });
}
