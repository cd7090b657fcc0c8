import { MTIME_KEY } from '../modification-time.ts';
import type { OpenDestination } from '../port.ts';

/** The metadata key that names the transfer that made an object. */
export const TRANSFER_KEY = 'waybill-transfer';

type Metadata = Record<string, string>;

/** Returns the metadata of a new object: its modification time, in rclone's form, and its mark. */
export function metadataOf({ modifiedAt, marked, transferId }: OpenDestination): Metadata {
  return {
    ...(modifiedAt !== undefined && { [MTIME_KEY]: modifiedAt }),
    ...(marked && { [TRANSFER_KEY]: transferId }),
  };
}

/** Returns the same of an object whose answer has these headers. */
export function metadataIn(headers: Record<string, string | undefined>): Metadata {
  const metadata: Metadata = {};
  for (const key of [MTIME_KEY, TRANSFER_KEY]) {
    const value = headers[`x-amz-meta-${key}`];
    if (value !== undefined) metadata[key] = value;
  }
  return metadata;
}
