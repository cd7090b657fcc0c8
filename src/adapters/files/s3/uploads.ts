import { AbortMultipartUploadCommand } from '@aws-sdk/client-s3';
import { abortError } from '../abort.ts';
import type { Leftovers } from '../port.ts';
import { fileError, isUploadGone } from './errors.ts';
import type { Store } from './store.ts';

/** The state in a resume point of a multipart upload. */
export interface UploadState {
  upload_id: string;
  part_size: number;
  checksum: 'crc32' | 'md5';
  /** Digests of the parts from the first on, concatenated, in base64. */
  digests: string;
}

/**
 * The unfinished uploads that this process started, by transfer. A server's list of uploads does
 * not name their transfers. So if a process dies before it saves a first resume point, the bucket's
 * lifecycle rule removes its upload.
 */
export interface Uploads {
  add(transferId: string, uploadId: string): void;
  forget(transferId: string): void;
  idsOf(transferId: string): readonly string[];
}

/** Bounds the memory: a transfer that continued in another process is never forgotten otherwise. */
const MAX_TRANSFERS = 1_000;

export function createUploads(): Uploads {
  const byTransfer = new Map<string, string[]>();
  return {
    add(transferId, uploadId) {
      const known = byTransfer.get(transferId) ?? [];
      if (!known.includes(uploadId)) byTransfer.set(transferId, [...known, uploadId]);
      const [oldest] = byTransfer.keys();
      if (byTransfer.size > MAX_TRANSFERS) byTransfer.delete(oldest as string);
    },
    forget: (transferId) => void byTransfer.delete(transferId),
    idsOf: (transferId) => byTransfer.get(transferId) ?? [],
  };
}

/** Aborts the upload in the resume point and those that this process started for the transfer. */
export async function removeLeftovers(
  store: Store,
  uploads: Uploads,
  key: string,
  { transferId, resume, signal }: Leftovers,
): Promise<void> {
  const saved = resume?.state as UploadState | null | undefined;
  const ids = new Set([...uploads.idsOf(transferId), ...(saved ? [saved.upload_id] : [])]);
  try {
    for (const id of ids) await abortUpload(store, key, id, signal);
    uploads.forget(transferId);
  } catch (error) {
    throw signal.aborted
      ? abortError(signal, 'commit')
      : fileError(error, 'commit', key, 'destination');
  }
}

async function abortUpload(
  { s3, settings }: Store,
  key: string,
  uploadId: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await s3.send(
      new AbortMultipartUploadCommand({ Bucket: settings.bucket, Key: key, UploadId: uploadId }),
      { abortSignal: signal },
    );
  } catch (error) {
    if (!isUploadGone(error)) throw error;
  }
}
