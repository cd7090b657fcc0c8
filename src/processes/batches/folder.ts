import type { CommandDeps } from '../../commands/deps.ts';
import { NOT_ON_AN_ENDPOINT } from '../../commands/transfers.ts';
import { type Endpoint, hasFolders } from '../../domain/endpoint.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { openLister } from '../endpoints/access.ts';
import { type Found, type WalkedFolder, walk } from './walk.ts';

/** A folder on an endpoint. `uri` ends in a slash. */
export interface RemoteFolder extends WalkedFolder {
  uri: string;
}

/** Yields the files of a folder that an account may read, as `walk` does. */
export async function* findFiles(
  { vault }: Pick<CommandDeps, 'vault'>,
  endpoints: readonly Endpoint[],
  accountId: string,
  folder: RemoteFolder,
  through: string | null,
  stop: AbortSignal,
): AsyncGenerator<Found, void, void> {
  const source = matchEndpoint(parseTransferUri(folder.uri, 'source_uri'), endpoints, accountId);
  if (!source) {
    yield { path: '', error: { code: 'endpoint_not_configured', message: NOT_ON_AN_ENDPOINT } };
    return;
  }
  const { endpoint, path: root } = source;
  const lister = await openLister(vault, endpoint);
  const remote = (path: string) => {
    const whole = (root + path).replace(/\/$/, '');
    return whole === '' && hasFolders(endpoint.settings) ? '/' : whole;
  };
  try {
    yield* walk((path) => lister.list(remote(path), stop), folder, through, stop);
  } finally {
    await lister.close();
  }
}
