import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import {
  type Azurite,
  shareAzurite,
  whyNoAzurite,
} from '../../../support/file-servers/azure/azurite.ts';
import { LONG } from '../../../support/run/long.ts';
import { describeFileEndpoint, type EndpointFixture } from '../contract.ts';
import { endpointOn, type Given } from './endpoint-on.ts';

async function fixture(given: (azurite: Azurite) => Promise<Given>): Promise<EndpointFixture> {
  const azurite = await shareAzurite();
  await azurite.createContainer('container');
  const credential = new StorageSharedKeyCredential(azurite.account, azurite.accountKey);
  const container = new BlobServiceClient(azurite.endpointUrl, credential).getContainerClient(
    'container',
  );
  return {
    endpoint: endpointOn(azurite, await given(azurite)),
    path: (name) => `folder/${name}`,
    async put(name, content) {
      await container.getBlockBlobClient(`folder/${name}`).upload(content, content.length);
    },
    async get(name) {
      const blob = container.getBlobClient(`folder/${name}`);
      return (await blob.exists()) ? blob.downloadToBuffer() : null;
    },
    /** Leaves out blocks that are only staged: they are invisible, and no request discards them. */
    async names() {
      const names: string[] = [];
      for await (const { name } of container.listBlobsFlat()) names.push(name);
      return names;
    },
    stop: () => azurite.stop(),
  };
}

describeFileEndpoint('Azure by account key', await whyNoAzurite(), () => fixture(async () => ({})));

describeFileEndpoint(
  'Azure by SAS',
  await whyNoAzurite(),
  () =>
    fixture(async (azurite) => ({
      credentials: { sas_token: await azurite.sasToken('container', 'rcwdl') },
    })),
  LONG,
);
