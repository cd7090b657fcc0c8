import { same } from '../canonical.ts';
import type { Fields } from './event.ts';
import type { TransferState } from './fold-transfer.ts';

/** Facts that a retry has from its original. */
const REPEATED = [
  'account_id',
  'file_name',
  'source',
  'destination',
  'source_uri',
  'destination_uri',
  'priority',
  'notify_on_complete',
  'metadata',
];

/** Returns what is wrong with a retry. `original` is the transfer that it repeats, at that time. */
export function retryProblem(created: Fields, original: TransferState | null): string | null {
  if (original === null) return `it repeats ${created.retry_of}, and the log does not hold that`;
  const { status, facts } = original;
  if (status !== 'failed' && status !== 'cancelled')
    return `it repeats ${created.retry_of}, which is ${status}`;
  const other = REPEATED.filter((fact) => !same(created[fact], facts[fact]));
  return other.length > 0
    ? `it repeats ${created.retry_of} with another ${other.join(', ')}`
    : null;
}
