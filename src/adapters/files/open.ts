import type { EndpointCredentials, EndpointDefinition } from '../../domain/endpoint.ts';
import type { AzureCredentials } from './azure/store.ts';
import type { FtpsCredentials } from './ftps/connection.ts';
import type { FileEndpoint } from './port.ts';
import type { S3Credentials } from './s3/store.ts';
import type { SftpCredentials } from './sftp/connection.ts';

/** The adapter for an endpoint's protocol, loaded when first asked for: each takes megabytes in every thread that has it. */
export async function openFileEndpoint(definition: EndpointDefinition, credentials: EndpointCredentials): Promise<FileEndpoint> {
  const { settings, max_connections: maxConnections } = definition;
  switch (settings.protocol) {
    case 'sftp': {
      const { createSftpEndpoint } = await import('./sftp/endpoint.ts');
      return createSftpEndpoint({ settings, credentials: credentials as SftpCredentials, maxConnections });
    }
    case 'ftps': {
      const { createFtpsEndpoint } = await import('./ftps/endpoint.ts');
      return createFtpsEndpoint({ settings, credentials: credentials as FtpsCredentials, maxConnections });
    }
    case 's3': {
      const { createS3Endpoint } = await import('./s3/endpoint.ts');
      return createS3Endpoint({ settings, credentials: credentials as S3Credentials, maxConnections });
    }
    case 'azure': {
      const { createAzureEndpoint } = await import('./azure/endpoint.ts');
      return createAzureEndpoint({ settings, credentials: credentials as AzureCredentials, maxConnections });
    }
  }
}
