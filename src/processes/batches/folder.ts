import { setTimeout as sleep } from 'node:timers/promises';
import { type FileEntry, FileError } from '../../adapters/files/port.ts';
import type { Sql } from '../../adapters/postgres/connect.ts';
import type { Vault } from '../../adapters/vault.ts';
import { type Endpoint, hasFolders } from '../../domain/endpoints/endpoint.ts';
import { NOT_ON_AN_ENDPOINT } from '../../domain/endpoints/route.ts';
import type { ListingError } from '../../domain/flows/flow.ts';
import { AUTHENTICATION_FAILED, TRANSFER_ERRORS } from '../../domain/transfers/errors.ts';
import { matchEndpoint, parseTransferUri } from '../../domain/uri.ts';
import { type Lister, openLister } from '../endpoints/open-endpoint.ts';
import { isListingHeld } from '../endpoints/sign-in-holds.ts';
import { type Found, type List, type WalkedFolder, walk } from './walk.ts';

/** Pauses between the attempts to list a folder whose server does not answer, in milliseconds. */
const RETRY_DELAYS = [1_000, 5_000, 15_000];

/** A folder on an endpoint. */
export interface RemoteFolder extends WalkedFolder {
  /** Ends in a slash. */
  uri: string;
  /**
   * False to list a folder once, because a user waits for the answer. Then it also signs in while
   * sign-ins are on hold.
   */
  retries: boolean;
  /** True to ask for the time of each file that the listing lacks. That takes long. */
  times?: boolean;
  /** Gets each failure after which a folder is listed again. */
  onFailure?: (failure: ListingError) => Promise<void>;
}

/** Yields the files of a folder that an account may read, as `walk` does. */
export async function* findFiles(
  deps: { vault: Vault; sql: Sql },
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
  const remote = (path: string) => {
    const whole = (root + path).replace(/\/$/, '');
    return whole === '' && hasFolders(endpoint.settings) ? '/' : whole;
  };
  const again = <Result>(ask: (path: string) => Promise<Result>) =>
    folder.retries ? retrying(ask, folder.onFailure, stop) : ask;
  let lister: Lister | null = null;
  try {
    if (folder.retries && (await isListingHeld(deps.sql, endpoint))) {
      yield { path: '', error: { code: 'auth_failed', message: AUTHENTICATION_FAILED } };
      return;
    }
    const opened = await openLister(deps, endpoint, folder.retries);
    lister = opened;
    const list: List = again((path) => opened.list(remote(path), stop));
    const timeOf = again((path) => opened.modifiedAt(remote(path), stop));
    const timed = async (entry: FileEntry, path: string) => {
      const isKnown = entry.type !== 'file' || entry.modified_at !== null;
      return isKnown ? entry : { ...entry, modified_at: await timeOf(path) };
    };
    for await (const found of walk(list, folder, through, stop)) {
      const { path, entry, marker, error } = found;
      if (folder.times !== true || !entry || error) yield found;
      else
        yield {
          ...found,
          entry: await timed(entry, path),
          ...(marker && { marker: await timed(marker, path + folder.marker) }),
          ...(entry.modified_at === null && { untimed: true }),
        };
    }
  } catch (error) {
    if (stop.aborted) return;
    if (!(error instanceof FileError)) throw error;
    yield { path: '', error: { code: error.shownCode, message: error.message } };
  } finally {
    await lister?.close();
  }
}

/** Repeats a request about a path while the server does not answer. */
function retrying<Result>(
  ask: (path: string) => Promise<Result>,
  onFailure: RemoteFolder['onFailure'],
  signal: AbortSignal,
): (path: string) => Promise<Result> {
  return async (path) => {
    for (const delay of RETRY_DELAYS) {
      try {
        return await ask(path);
      } catch (error) {
        if (!(error instanceof FileError && TRANSFER_ERRORS[error.code].retryable)) throw error;
        const { shownCode: code, message } = error;
        await onFailure?.({ code, message, folder: path === '' ? '' : `${path}/` });
        await sleep(delay, undefined, { signal });
      }
    }
    return ask(path);
  };
}
