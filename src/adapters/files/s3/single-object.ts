import { PutObjectCommand } from '@aws-sdk/client-s3';
import { assertCommitted, singleRequest, type UploadedFile } from '../http/destination-file.ts';
import type { SendOptions } from '../http/http.ts';
import { sentBytes } from '../http/sent-bytes.ts';
import type { OpenDestination } from '../port.ts';
import { md5OfETag } from './checksums.ts';
import { serverAnswer, wasRepeated } from './errors.ts';
import { CHUNK_SIZE } from './limits.ts';
import { attributesOf, foundObject, refuseExisting, unclearCommit } from './new-object.ts';
import type { Store } from './store.ts';

/** Opens an object that the commit stores in one request. */
export function openSingleObject(
  store: Store,
  key: string,
  options: OpenDestination,
  signal: AbortSignal,
): UploadedFile {
  const { size, overwrite } = options;

  /** Returns whether the object under the key is the one sent; null if its ETag is not an MD5. */
  async function isOurs(md5: Buffer): Promise<boolean | null> {
    const { ETag, ServerSideEncryption } = await store.head(key, signal);
    const found = md5OfETag(ETag, ServerSideEncryption);
    return found === null ? null : found === md5.toString('hex');
  }

  async function put(content: Buffer, md5: Buffer): Promise<string | undefined> {
    const { bucket: Bucket } = store.settings;
    const input = {
      Bucket,
      Key: key,
      Body: content,
      ContentMD5: md5.toString('base64'),
      ...attributesOf(store.settings, options),
    };
    const sent = sentBytes(options, size);
    const sending: SendOptions = { abortSignal: signal, sent };
    const send = async (condition: { IfNoneMatch?: '*' }) => {
      const command = new PutObjectCommand({ ...input, ...condition });
      const put = () => store.send(command, sending);
      const { ETag } = await (sent ? sent.whenPaced(put) : put());
      return ETag;
    };
    if (overwrite) return send({});
    return send({ IfNoneMatch: '*' }).catch(async (error) => {
      const answer = serverAnswer(error);
      if (answer === 'NotImplemented') return send({});
      if (answer !== 'PreconditionFailed' || !wasRepeated(error)) throw error;
      // An earlier try may have stored the object and lost its answer.
      const ours = await isOurs(md5).catch(() => null);
      if (ours === null) throw unclearCommit(key, error);
      if (!ours) throw error;
      return etagOf(md5);
    });
  }

  return singleRequest(key, { size, chunkSize: CHUNK_SIZE }, async (content, md5) => {
    if (!overwrite) await refuseExisting(store, key, 'commit', signal);
    // The server has checked the MD5. An ETag equal to it proves the size too. With a KMS key the
    // ETag is something else, so the size is looked up.
    const version = await put(content, md5);
    const proof = { size, destinationChecksum: 'md5', atomicReplace: true, version } as const;
    if (version === etagOf(md5)) return proof;
    const found = await foundObject(store.head(key, signal));
    if (found !== null) {
      const { ContentLength = 0, ETag } = found;
      assertCommitted(key, { size, version }, { size: ContentLength, version: ETag });
    }
    return proof;
  });
}

function etagOf(md5: Buffer): string {
  return `"${md5.toString('hex')}"`;
}
