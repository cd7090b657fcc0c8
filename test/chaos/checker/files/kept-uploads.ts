import type { FaultRecord } from '../../evidence.ts';
import type { UnfinishedUpload } from './storage.ts';
import type { Completion } from './winners.ts';

/**
 * Returns whether a crash of the server explains an upload that is unfinished. A gateway of Ceph
 * that crashes while it completes an upload may keep the upload, although the object is complete.
 * The service leaves it alone, because its abort would delete the data of the object. Such an upload
 * has every byte of a transfer to its key, and the crash was during the attempt that completed.
 */
export function isKeptByCrash(
  { bytes }: UnfinishedUpload,
  completions: Completion[],
  crashes: FaultRecord[],
): boolean {
  return completions.some(
    ({ size, startedAt, completedAt }) =>
      size > 0 && size === bytes && crashes.some(({ at }) => at >= startedAt && at <= completedAt),
  );
}
