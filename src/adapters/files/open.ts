import type { EndpointCredentials, EndpointDefinition } from '../../domain/endpoint.ts';
import { createAzureEndpoint } from './azure/endpoint.ts';
import type { AzureCredentials } from './azure/store.ts';
import type { FtpsCredentials } from './ftps/connection.ts';
import { createFtpsEndpoint } from './ftps/endpoint.ts';
import type { FileEndpoint } from './port.ts';
import { createS3Endpoint } from './s3/endpoint.ts';
import type { S3Credentials } from './s3/store.ts';
import type { SftpCredentials } from './sftp/connection.ts';
import { createSftpEndpoint } from './sftp/endpoint.ts';

/** The adapter for an endpoint's protocol. */
export function openFileEndpoint({ settings, max_connections }: EndpointDefinition, credentials: EndpointCredentials): FileEndpoint {
  switch (settings.protocol) {
    case 'sftp':
      return createSftpEndpoint({ settings, credentials: credentials as SftpCredentials, maxConnections: max_connections });
    case 'ftps':
      return createFtpsEndpoint({ settings, credentials: credentials as FtpsCredentials, maxConnections: max_connections });
    case 's3':
      return createS3Endpoint({ settings, credentials: credentials as S3Credentials, maxConnections: max_connections });
    case 'azure':
      return createAzureEndpoint({ settings, credentials: credentials as AzureCredentials, maxConnections: max_connections });
  }
}
