import { PutObjectCommand } from '@aws-sdk/client-s3';
import { assertCommitted, singleRequest, type UploadedFile } from '../http/destination-file.ts';
import type { SendOptions } from '../http/http.ts';
import { pageInPlace } from '../http/other-service.ts';
import { beginReplace, type Replaceable } from '../http/replace.ts';
import { sentBytes } from '../http/sent-bytes.ts';
import type { CommitProof, OpenDestination } from '../port.ts';
import { md5OfETag } from './checksums.ts';
import { isMissing, isRefused, isUnknownHeader, serverAnswer, wasRepeated } from './errors.ts';
import { CHUNK_SIZE } from './limits.ts';
import { attributesOf, foundObject, refuseExisting, unclearCommit } from './new-object.ts';
import type { Store } from './store.ts';

/** A request that stores an object. Its answer has the ETag. */
type Put = (condition: Condition) => Promise<string | undefined>;
type Condition = { IfNoneMatch?: '*'; IfMatch?: string };

/** Opens an object that the commit stores in one request. */
export function openSingleObject(
  store: Store,
  key: string,
  options: OpenDestination,
  signal: AbortSignal,
): UploadedFile {
  const { size, overwrite } = options;
  const sent = sentBytes(options, size);

  function putOf(content: Buffer, md5: Buffer): Put {
    const input = {
      Bucket: store.settings.bucket,
      Key: key,
      Body: content,
      ContentMD5: md5.toString('base64'),
      ...attributesOf(store.settings, options),
    };
    const sending: SendOptions = { abortSignal: signal, sent };
    return async (condition) => {
      const command = new PutObjectCommand({ ...input, ...condition });
      const put = () => store.send(command, sending);
      return (await (sent ? sent.whenPaced(put) : put())).ETag;
    };
  }

  /** Stores the object if no other one has the key. */
  async function putNew(content: Buffer, md5: Buffer): Promise<string | undefined> {
    await refuseExisting(store, key, 'commit', signal);
    try {
      return await putIf(store, putOf(content, md5), { IfNoneMatch: '*' });
    } catch (error) {
      if (serverAnswer(error) !== 'PreconditionFailed' || !wasRepeated(error)) throw error;
      // An earlier try may have stored the object and lost its answer.
      const ours = await isOurs(md5).catch(() => null);
      if (ours === null) throw unclearCommit(key, error);
      if (!ours) throw error;
      return etagOf(md5);
    }
  }

  /** Returns whether the object under the key is the one sent; null if its ETag is not an MD5. */
  async function isOurs(md5: Buffer): Promise<boolean | null> {
    const { ETag, ServerSideEncryption } = await store.head(key, signal);
    const found = md5OfETag(ETag, ServerSideEncryption);
    return found === null ? null : found === md5.toString('hex');
  }

  /** Returns false if an answer without an ETag cannot be that of the store. */
  function isStored(found: Awaited<ReturnType<typeof foundObject>>, md5: Buffer): boolean {
    if (found === null) return false;
    const there = md5OfETag(found.ETag, found.ServerSideEncryption);
    return there === null || there === md5.toString('hex');
  }

  async function put(content: Buffer, md5: Buffer, replaced: Replaceable): Promise<CommitProof> {
    // The server has checked the MD5. An ETag equal to it proves the size too. With a KMS key the
    // ETag is something else, so the size is looked up.
    const version = overwrite
      ? await putIf(store, putOf(content, md5), conditionOf(replaced))
      : await putNew(content, md5);
    const proof = { size, destinationChecksum: 'md5', atomicReplace: true, version } as const;
    if (version === etagOf(md5)) return proof;
    const found = await foundObject(store.head(key, signal));
    if (!version && !isStored(found, md5)) throw pageInPlace(key, 'commit');
    if (found !== null) {
      const { ContentLength = 0, ETag } = found;
      assertCommitted(key, { size, version }, { size: ContentLength, version: ETag });
    }
    return proof;
  }

  async function look(refused: string | null): Promise<Replaceable> {
    try {
      const { ETag = '' } = await store.head(key, signal);
      const bare = ETag.replaceAll('"', '');
      if (bare === '' || refused === bare) {
        store.lacks.delete('quotes');
        return undefined;
      }
      // Ceph compares the condition of a PUT without the quotes that its answers have.
      if (refused === ETag) store.lacks.add('quotes');
      return store.lacks.has('quotes') ? bare : ETag;
    } catch (error) {
      if (isMissing(error)) return null;
      if (isRefused(error)) return undefined;
      throw error;
    }
  }

  async function isUnmet(error: unknown, replaced: string | null): Promise<boolean> {
    const answer = serverAnswer(error);
    if (answer === 'PreconditionFailed') return true;
    if (replaced === null) return false;
    // Amazon says of an object that is gone that it is missing, not that it differs. Ceph fails if
    // another writer is first at that moment.
    return isMissing(error) || (answer === 'UnknownError' && !(await isThere(replaced)));
  }

  /** Returns true also if the server does not say. */
  async function isThere(version: string): Promise<boolean> {
    const bare = version.replaceAll('"', '');
    const found = store.head(key, signal).then(({ ETag }) => ETag?.replaceAll('"', '') ?? bare);
    return (await found.catch((error) => (isMissing(error) ? null : bare))) === bare;
  }

  return singleRequest(
    key,
    { size, chunkSize: CHUNK_SIZE },
    beginReplace(key, { overwrite, last: store.lastName }, { put, isUnmet, look }),
  );
}

/** Sends the request without its condition to a server that lacks it. */
async function putIf({ lacks }: Store, put: Put, condition: Condition) {
  const [name] = Object.keys(condition) as (keyof Condition)[];
  if (name === undefined || lacks.has(name)) return put({});
  try {
    return await put(condition);
  } catch (error) {
    if (!isUnknownHeader(error)) throw error;
    const version = await put({});
    lacks.add(name);
    return version;
  }
}

function conditionOf(version: Replaceable): Condition {
  if (version === undefined) return {};
  return version === null ? { IfNoneMatch: '*' } : { IfMatch: version };
}

function etagOf(md5: Buffer): string {
  return `"${md5.toString('hex')}"`;
}
