import type { Readable } from 'node:stream';
import {
  GetObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  paginateListObjectsV2,
  paginateListParts,
  S3Client,
} from '@aws-sdk/client-s3';
import type { EndpointRecord } from '../../evidence.ts';
import type { Storage, UnfinishedUpload } from './storage.ts';

export function openS3(record: Extract<EndpointRecord, { kind: 's3' }>, prefix: string): Storage {
  const { url, region, bucket: Bucket, accessKeyId, secretAccessKey } = record;
  const client = new S3Client({
    endpoint: url,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  });

  async function bytesOf(Key: string, UploadId: string): Promise<number> {
    let bytes = 0;
    const upload = { Bucket, Key, UploadId };
    for await (const { Parts = [], IsTruncated } of paginateListParts({ client }, upload)) {
      for (const { Size = 0 } of Parts) bytes += Size;
      if (!IsTruncated) break;
    }
    return bytes;
  }

  return {
    location: `s3 ${url} ${Bucket}/${prefix}`,
    async *list() {
      for await (const { Contents = [] } of paginateListObjectsV2(
        { client },
        { Bucket, Prefix: prefix },
      )) {
        for (const { Key = '', Size = 0, LastModified } of Contents) {
          yield {
            path: Key.slice(prefix.length),
            size: Size,
            changedAt: LastModified?.getTime() ?? 0,
          };
        }
      }
    },
    async read({ path }) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: prefix + path }));
      return Body as Readable;
    },
    async uploads() {
      const found: UnfinishedUpload[] = [];
      let [KeyMarker, UploadIdMarker]: (string | undefined)[] = [];
      do {
        const page: ListMultipartUploadsCommandOutput = await client.send(
          new ListMultipartUploadsCommand({ Bucket, Prefix: prefix, KeyMarker, UploadIdMarker }),
        );
        for (const { Key = '', UploadId = '' } of page.Uploads ?? [])
          found.push({
            path: Key.slice(prefix.length),
            id: UploadId,
            bytes: await bytesOf(Key, UploadId),
          });
        [KeyMarker, UploadIdMarker] = page.IsTruncated
          ? [page.NextKeyMarker, page.NextUploadIdMarker]
          : [];
      } while (KeyMarker !== undefined);
      return found;
    },
    close: () => client.destroy(),
  };
}
