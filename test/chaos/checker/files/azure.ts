import type { Readable } from 'node:stream';
import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import type { EndpointRecord } from '../../evidence.ts';
import type { Storage } from './storage.ts';

/** Staged blocks stay invisible for a week, as the README says, so they are not listed. */
export function openAzure(
  record: Extract<EndpointRecord, { kind: 'azure' }>,
  prefix: string,
): Storage {
  const { url, container, account, accountKey } = record;
  const client = new BlobServiceClient(
    url,
    new StorageSharedKeyCredential(account, accountKey),
  ).getContainerClient(container);

  return {
    location: `azure ${url} ${container}/${prefix}`,
    async *list() {
      for await (const { name, properties } of client.listBlobsFlat({ prefix })) {
        yield {
          path: name.slice(prefix.length),
          size: properties.contentLength ?? 0,
          changedAt: properties.lastModified.getTime(),
        };
      }
    },
    async read({ path }) {
      const { readableStreamBody } = await client.getBlobClient(prefix + path).download();
      return readableStreamBody as Readable;
    },
    uploads: async () => [],
    close: () => undefined,
  };
}
