import { type FileEndpoint, FileError } from '../../adapters/files/port.ts';
import type { Vault } from '../../adapters/vault.ts';
import { CREDENTIALS } from '../../commands/endpoints.ts';
import type { EndpointCredentials, EndpointDefinition } from '../../domain/endpoint.ts';
import { isNetworkFailure } from '../../domain/transfer-errors.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog-queries.ts';
import { HOLD_SECONDS } from './sign-in-holds.ts';

/** An endpoint in use; its connections stay open for the next one when it is handed back. */
export interface LentEndpoint {
  endpoint: FileEndpoint;
  release(): void;
}

export interface EndpointPool {
  lend(configured: ConfiguredEndpoint): Promise<LentEndpoint>;
  /** Connections open now, by the name of their endpoint. */
  connections(): Promise<Map<string, number>>;
  close(): Promise<void>;
}

interface Entry {
  name: string;
  revision: number;
  opening: Promise<FileEndpoint>;
  users: number;
  outdated: boolean;
}

export interface EndpointPoolDeps {
  vault: Pick<Vault, 'open'>;
  open(definition: EndpointDefinition, credentials: EndpointCredentials): FileEndpoint | Promise<FileEndpoint>;
}

/** Keeps the connections of configured endpoints warm between moves; a changed configuration begins with new ones. */
export function createEndpointPool({ vault, open }: EndpointPoolDeps): EndpointPool {
  const entries = new Map<string, Entry>();

  function create(configured: ConfiguredEndpoint): Entry {
    const opening = vault
      .open<EndpointCredentials>(configured.credentials_record, CREDENTIALS)
      .then(async (credentials) => oneSignInFirst(await open(configured, credentials)));
    const entry: Entry = { name: configured.name, revision: configured.revision, opening, users: 0, outdated: false };
    opening.catch(() => {
      if (entries.get(configured.endpoint_id) === entry) entries.delete(configured.endpoint_id);
    });
    return entry;
  }

  function retire(entry: Entry): void {
    entry.outdated = true;
    closeIfUnused(entry);
  }

  function closeIfUnused({ outdated, users, opening }: Entry): void {
    if (outdated && users === 0) void opening.then((endpoint) => endpoint.close()).catch(() => undefined);
  }

  return {
    async lend(configured) {
      const id = configured.endpoint_id;
      const known = entries.get(id);
      const current = known && known.revision >= configured.revision ? known : create(configured);
      if (known && known !== current) retire(known);
      entries.set(id, current);
      current.users++;
      const release = () => {
        current.users--;
        closeIfUnused(current);
      };
      try {
        return { endpoint: await current.opening, release };
      } catch (error) {
        release();
        throw error;
      }
    },
    async connections() {
      const counts = [...entries.values()].map(async ({ name, opening }) => [name, await (await opening).connections()] as const);
      return new Map(await Promise.all(counts));
    },
    async close() {
      const all = [...entries.values()];
      entries.clear();
      await Promise.all(all.map(({ opening }) => opening.then((endpoint) => endpoint.close()).catch(() => undefined)));
    },
  };
}

/**
 * Until one file could be opened only one is tried at a time. A refused sign-in is the answer to all who come while it is
 * held: wrong credentials count once at the server, however many transfers are due. That there was no answer is that to
 * all who wait for one: else each would wait as long, one after the other, in a mover's slot.
 */
function oneSignInFirst(endpoint: FileEndpoint): FileEndpoint {
  let proven = false;
  /** Resolves with why there was no answer; null where there was one, or it is no longer wanted. */
  let proving: Promise<FileError | null> | null = null;
  let refused: { error: FileError; until: number } | null = null;

  async function guarded<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (!proven && proving) {
      const unanswered = await proving;
      if (unanswered) throw unanswered;
    }
    if (refused && performance.now() < refused.until) throw refused.error;
    if (proven) return attempt(work);
    const { promise, resolve } = Promise.withResolvers<FileError | null>();
    proving = promise;
    let unanswered: FileError | null = null;
    try {
      return await attempt(work);
    } catch (error) {
      if (!signal.aborted && isUnanswered(error)) unanswered = error;
      throw error;
    } finally {
      proving = null;
      resolve(unanswered);
    }
  }

  async function attempt<T>(work: () => Promise<T>): Promise<T> {
    try {
      const result = await work();
      proven = true;
      return result;
    } catch (error) {
      if (error instanceof FileError && error.code === 'auth_failed') {
        proven = false;
        refused = { error, until: performance.now() + HOLD_SECONDS * 1_000 };
      }
      throw error;
    }
  }

  return {
    ...endpoint,
    openSource: (path, signal) => guarded(signal, () => endpoint.openSource(path, signal)),
    openDestination: (path, options) => guarded(options.signal, () => endpoint.openDestination(path, options)),
    removeLeftovers: (path, leftovers) => guarded(leftovers.signal, () => endpoint.removeLeftovers(path, leftovers)),
  };
}

/** Whether nobody answered at the server, be it to the connection or to the sign-in. */
function isUnanswered(error: unknown): error is FileError {
  return error instanceof FileError && (error.step === 'connect' || error.step === 'sign_in') && isNetworkFailure(error.code);
}
