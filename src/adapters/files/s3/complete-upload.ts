import { CompleteMultipartUploadCommand } from '@aws-sdk/client-s3';
import { assertCommitted, isReplaced } from '../http/destination-file.ts';
import { pageInPlace } from '../http/other-service.ts';
import { type CommitProof, FileError } from '../port.ts';
import type { Checksum, Described } from './checksums.ts';
import { isUploadGone, serverAnswer, wasRepeated } from './errors.ts';
import type { ObjectAnswer } from './first-try.ts';
import { foundObject, refuseExisting, unclearCommit } from './new-object.ts';
import type { Store } from './store.ts';
import { stateOf } from './uploads.ts';

export interface Part {
  etag: string;
  digest: Buffer;
}

/** A multipart upload whose parts were all sent. */
export interface WholeUpload {
  id: string;
  key: string;
  size: number;
  /** In their order. */
  parts: Part[];
  checksum: Checksum;
  /** False if a part could not be verified. */
  compared: boolean;
  overwrite: boolean;
  signal: AbortSignal;
}

/**
 * Joins the parts to the object, and compares it with them. Throws FileError `destination_exists` if
 * the key is taken and `overwrite` is false, `checksum_mismatch` or `size_mismatch` for an object
 * that differs, `connection_failed` if the answer was lost and the object must be read back, or the
 * server's error.
 */
export async function completeUpload(store: Store, upload: WholeUpload): Promise<CommitProof> {
  const { id, key, size, parts, checksum, overwrite, signal } = upload;
  const checksumOfParts = checksum.ofParts(parts.map(({ digest }) => digest));
  const headObject = (): Promise<ObjectAnswer> => store.head(key, signal, checksum.question);

  /**
   * Returns whether the object is the one sent; null if its checksum can't be compared. Some servers
   * have one of the whole object, which does not end in the number of parts.
   */
  function isOurs(object: Described): boolean | null {
    const found = checksum.in(object);
    return found?.includes('-') ? found === checksumOfParts : null;
  }

  /** Returns false if the upload is still open: an object with its content is then an older one. */
  async function mayBeDone(error: unknown): Promise<boolean> {
    if (isUploadGone(error)) return true;
    return (await stateOf(store, key, id, signal).catch(() => 'open')) !== 'open';
  }

  if (!overwrite) await refuseExisting(store, key, 'commit', signal);
  const condition = overwrite ? {} : ({ IfNoneMatch: '*' } as const);
  const completed = await join(store, upload, condition).catch(async (error) => {
    const answer = serverAnswer(error);
    if (!overwrite && answer === 'NotImplemented') return join(store, upload, {});
    // An earlier try may have completed the upload and lost its answer. Ceph then answers with an
    // internal error.
    const done =
      isUploadGone(error) ||
      answer === 'InternalError' ||
      answer === 'UnknownError' ||
      wasRepeated(error);
    const ours = done && (await headObject().then(isOurs, () => null));
    if (ours === null && (isUploadGone(error) || answer === 'PreconditionFailed'))
      throw unclearCommit(key, error);
    if (!ours || !(await mayBeDone(error))) throw error;
    return null;
  });
  const proof: CommitProof = {
    size,
    destinationChecksum: upload.compared ? checksum.name : 'none',
    atomicReplace: true,
  };
  // A checksum over all parts proves the size too.
  const isJoined = completed && isOurs(completed);
  if (isJoined) return { ...proof, version: completed.ETag };
  if (isJoined === false)
    throw new FileError(
      'checksum_mismatch',
      'commit',
      `${key}: the server's checksum differs from that of the data sent`,
    );
  const object = await foundObject(headObject());
  const committed = { size, version: completed?.ETag };
  // The ETag of the whole object may derive from the checksum.
  const derived = { ...proof, version: committed.version || checksum.etag(checksumOfParts) };
  if (object === null) return derived;
  const found = { size: object.ContentLength ?? 0, version: object.ETag };
  // Another writer may have replaced the object since. If the answer named no version, the checksum
  // shows it: it derives from those of the parts, which were compared.
  const isAnother = committed.version
    ? isReplaced(committed, found)
    : ![null, checksumOfParts].includes(checksum.in(object));
  if (isAnother) return derived;
  assertCommitted(key, committed, found);
  return { ...proof, version: object.ETag };
}

async function join(
  { s3, settings }: Store,
  { id, key, parts, checksum, signal }: WholeUpload,
  condition: { IfNoneMatch?: '*' },
): Promise<Described> {
  const listed = parts.map(({ etag, digest }, index) => ({
    PartNumber: index + 1,
    ETag: etag,
    ...checksum.listed(digest),
  }));
  const command = new CompleteMultipartUploadCommand({
    ...{ Bucket: settings.bucket, Key: key, UploadId: id },
    MultipartUpload: { Parts: listed },
    ...condition,
  });
  const answer = await s3.send(command, { abortSignal: signal });
  // Ceph names the object, and no ETag.
  if (!answer.ETag && !answer.Key && !answer.Location) throw pageInPlace(key, 'commit');
  return answer;
}
