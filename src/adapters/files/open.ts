import type { EndpointDefinition } from '../../domain/endpoints/endpoint.ts';
import type {
  CredentialsFor,
  EndpointCredentials,
  ProtocolName,
  SettingsFor,
} from '../../domain/protocols/index.ts';
import { shortageOf } from '../own-shortage.ts';
import { type FileEndpoint, FileError } from './port.ts';

type Open<Name extends ProtocolName> = (options: {
  settings: SettingsFor<Name>;
  credentials: CredentialsFor<Name>;
  maxConnections: number;
}) => FileEndpoint;

/** Loads each adapter when it is first needed: it takes megabytes in every thread that loads it. */
const ADAPTERS: { [Name in ProtocolName]: () => Promise<Open<Name>> } = {
  sftp: async () => (await import('./sftp/endpoint.ts')).createSftpEndpoint,
  ftps: async () => (await import('./ftps/endpoint.ts')).createFtpsEndpoint,
  s3: async () => (await import('./s3/endpoint.ts')).createS3Endpoint,
  azure: async () => (await import('./azure/endpoint.ts')).createAzureEndpoint,
};

/** Opens an endpoint with the adapter for its protocol. */
export async function openFileEndpoint(
  { settings, max_connections: maxConnections }: EndpointDefinition,
  credentials: EndpointCredentials,
): Promise<FileEndpoint> {
  const open = (await ADAPTERS[settings.protocol]().catch(notLoaded)) as unknown as Open<never>;
  try {
    return open({ settings, credentials, maxConnections } as never);
  } catch (error) {
    return unusable(error as Error);
  }
}

/** Throws FileError if this process has no place for the open files of an adapter. */
function notLoaded(cause: unknown): never {
  const shortage = shortageOf(cause);
  if (shortage === null) throw cause;
  throw new FileError('connection_failed', 'connect', shortage, { cause });
}

/** Returns an endpoint that always fails: an older log has settings that are no longer valid. */
function unusable(cause: Error): FileEndpoint {
  const fail = async () => {
    const message = `The settings of the endpoint cannot be used: ${cause.message}`;
    throw new FileError('connection_failed', 'connect', message, { cause });
  };
  return {
    connections: async () => 0,
    openSource: fail,
    openDestination: fail,
    probe: fail,
    list: fail,
    remove: fail,
    dispose: fail,
    removeLeftovers: fail,
    close: async () => undefined,
  };
}
