/*
 * The multipart uploads of transfers that have not been completed, and their removal.
 *
 * A server's list of uploads does not name their transfers. So two things say which transfer began
 * an upload: the resume point that the mover saves before it sends the first part, and the memory
 * of the process. Neither knows an upload if its mover dies, or loses its lease, before it has
 * saved the id, or if the answer that has the id is lost: the SDK then begins another one. Such a
 * forgotten upload has no part. The clean-up after the end of the transfer looks for it.
 */
import {
  AbortMultipartUploadCommand,
  type MultipartUpload as ListedUpload,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListPartsCommand,
  paginateListParts,
} from '@aws-sdk/client-s3';
import { abortError } from '../abort.ts';
import { FileError, type Leftovers } from '../port.ts';
import { CHECKSUMS, type ChecksumName } from './checksums.ts';
import { fileError, isMissing, isRefused, isUploadGone, serverAnswer } from './errors.ts';
import type { Store } from './store.ts';

/** The state in a resume point of a multipart upload. */
export interface UploadState {
  upload_id: string;
  part_size: number;
  checksum: ChecksumName;
  /** Digests of the parts from the first on, concatenated, in base64. */
  digests: string;
}

/** The unfinished uploads that this process started, by transfer. */
export interface Uploads {
  add(transferId: string, uploadId: string): void;
  /** Notes that the server may have begun an upload whose id it could not tell. */
  addForgotten(transferId: string): void;
  hasForgotten(transferId: string): boolean;
  forget(transferId: string): void;
  idsOf(transferId: string): readonly string[];
}

/** Bounds the memory: a transfer that continued in another process is never forgotten otherwise. */
const MAX_TRANSFERS = 1_000;
/**
 * An upload that still has no part after this time is no longer in use. Another program may write
 * to the same key, and its upload has no part until the server has the whole of one.
 */
const FORGOTTEN_AFTER_MS = 5 * 60_000;
/** A server rejects signatures whose time differs by more. So its clock differs by less. */
const CLOCK_SKEW_MS = 15 * 60_000;

export function createUploads(): Uploads {
  const byTransfer = new Map<string, { ids: string[]; forgotten: boolean }>();

  function of(transferId: string): { ids: string[]; forgotten: boolean } {
    const known = byTransfer.get(transferId) ?? { ids: [], forgotten: false };
    byTransfer.set(transferId, known);
    const [oldest] = byTransfer.keys();
    if (byTransfer.size > MAX_TRANSFERS) byTransfer.delete(oldest as string);
    return known;
  }

  return {
    add(transferId, uploadId) {
      const { ids } = of(transferId);
      if (!ids.includes(uploadId)) ids.push(uploadId);
    },
    addForgotten(transferId) {
      of(transferId).forgotten = true;
    },
    hasForgotten: (transferId) => byTransfer.get(transferId)?.forgotten ?? false,
    forget: (transferId) => void byTransfer.delete(transferId),
    idsOf: (transferId) => byTransfer.get(transferId)?.ids ?? [],
  };
}

/**
 * Aborts the upload in the resume point and those that this process started for the transfer. With
 * `since`, also those of the key that were forgotten. Throws FileError if an upload is too young to
 * tell.
 */
export async function removeLeftovers(
  store: Store,
  uploads: Uploads,
  key: string,
  { transferId, resume, since, signal }: Leftovers,
): Promise<void> {
  const saved = resume?.state as UploadState | null | undefined;
  const ids = new Set([...uploads.idsOf(transferId), ...(saved ? [saved.upload_id] : [])]);
  try {
    for (const id of ids)
      if ((await stateOf(store, key, id, signal)) === 'open')
        await abortUpload(store, key, id, signal);
    uploads.forget(transferId);
    if (since) await abortForgotten(store, key, since, signal);
  } catch (error) {
    // The uploads went with the bucket.
    if (serverAnswer(error) === 'NoSuchBucket') return uploads.forget(transferId);
    throw signal.aborted
      ? abortError(signal, 'commit')
      : fileError(error, 'commit', key, 'destination');
  }
}

export async function abortUpload(
  { s3, settings }: Store,
  key: string,
  uploadId: string,
  signal?: AbortSignal,
): Promise<void> {
  try {
    await s3.send(
      new AbortMultipartUploadCommand({ Bucket: settings.bucket, Key: key, UploadId: uploadId }),
      signal && { abortSignal: signal },
    );
  } catch (error) {
    if (!isUploadGone(error)) throw error;
  }
}

async function abortForgotten(
  store: Store,
  key: string,
  since: Date,
  signal: AbortSignal,
): Promise<void> {
  const from = since.getTime() - CLOCK_SKEW_MS;
  let isYoung = false;
  for (const { UploadId = '', Initiated } of await uploadsOf(store, key, signal)) {
    const begun = Initiated?.getTime() ?? 0;
    if (begun < from || (await hasParts(store, key, UploadId, signal))) continue;
    if (begun > Date.now() - FORGOTTEN_AFTER_MS) isYoung = true;
    else await abortUpload(store, key, UploadId, signal);
  }
  if (!isYoung) return;
  const found = `an upload without parts began less than ${FORGOTTEN_AFTER_MS / 60_000} minutes ago`;
  throw new FileError('internal_error', 'commit', `${key}: ${found}; looking again later`);
}

/** Lists the uploads of a key; none if the server refuses that. */
async function uploadsOf(
  { s3, settings: { bucket: Bucket } }: Store,
  key: string,
  abortSignal: AbortSignal,
): Promise<ListedUpload[]> {
  const found: ListedUpload[] = [];
  let [KeyMarker, UploadIdMarker]: (string | undefined)[] = [];
  let isRepeated = false;
  try {
    do {
      const page: ListMultipartUploadsCommandOutput = await s3.send(
        new ListMultipartUploadsCommand({ Bucket, Prefix: key, KeyMarker, UploadIdMarker }),
        { abortSignal },
      );
      found.push(...(page.Uploads ?? []).filter(({ Key }) => Key === key));
      const next = page.IsTruncated ? [page.NextKeyMarker, page.NextUploadIdMarker] : [];
      // Some servers repeat a page, without an end.
      isRepeated = next[0] === KeyMarker && next[1] === UploadIdMarker;
      [KeyMarker, UploadIdMarker] = next;
    } while (KeyMarker !== undefined && !isRepeated);
  } catch (error) {
    if (!isRefused(error)) throw error;
  }
  return found;
}

/**
 * Returns `gone` if the server no longer knows the upload, `object` if the object under the key has
 * its data. A gateway of Ceph that crashes while it completes an upload may keep both. To abort the
 * upload, or to complete it later, would then delete the data of the object. An object with the
 * same content that is older than the last part is another one.
 */
export async function stateOf(
  { s3, settings, head }: Store,
  Key: string,
  UploadId: string,
  signal: AbortSignal,
): Promise<'gone' | 'object' | 'open'> {
  const digests: Buffer[] = [];
  let sentAt = 0;
  let last = 0;
  const upload = { Bucket: settings.bucket, Key, UploadId };
  try {
    for await (const { Parts = [], IsTruncated } of paginateListParts({ client: s3 }, upload, {
      abortSignal: signal,
    })) {
      for (const { PartNumber = 0, ETag = '', LastModified } of Parts) {
        // Such a server repeats a page, without an end.
        if (PartNumber <= last) return 'open';
        last = PartNumber;
        digests.push(Buffer.from(ETag.replaceAll('"', ''), 'hex'));
        sentAt = Math.max(sentAt, LastModified?.getTime() ?? 0);
      }
      if (!IsTruncated) break;
    }
  } catch (error) {
    if (isUploadGone(error)) return 'gone';
    if (isRefused(error)) return 'open';
    throw error;
  }
  if (digests.length === 0) return 'open';
  try {
    const { ETag, LastModified } = await head(Key, signal);
    const isSame = ETag === `"${CHECKSUMS.md5.ofParts(digests)}"`;
    // A HEAD has whole seconds.
    const isNewer = (LastModified?.getTime() ?? 0) >= Math.floor(sentAt / 1_000) * 1_000;
    return isSame && isNewer ? 'object' : 'open';
  } catch (error) {
    if (isMissing(error) || isRefused(error)) return 'open';
    throw error;
  }
}

/** Returns true also if the upload is gone, or if the server refuses to list its parts. */
async function hasParts(
  { s3, settings: { bucket: Bucket } }: Store,
  Key: string,
  UploadId: string,
  abortSignal: AbortSignal,
): Promise<boolean> {
  try {
    const listing = new ListPartsCommand({ Bucket, Key, UploadId, MaxParts: 1 });
    const { Parts = [] } = await s3.send(listing, { abortSignal });
    return Parts.length > 0;
  } catch (error) {
    if (isUploadGone(error) || isRefused(error)) return true;
    throw error;
  }
}
