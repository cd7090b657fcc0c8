import { abortable } from '../../adapters/files/abort.ts';
import { type FileEndpoint, FileError } from '../../adapters/files/port.ts';
import type { Vault } from '../../adapters/vault.ts';
import type { AnnouncedHostKey } from '../../domain/protocols/host-keys.ts';
import type { EndpointCredentials } from '../../domain/protocols/index.ts';
import { isNetworkFailure } from '../../domain/transfers/errors.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog/queries.ts';
import { openCredentials } from './credentials.ts';
import { HOLD_SECONDS } from './sign-in-holds.ts';

/** An endpoint in use. After `release`, its connections stay open for the next user. */
export interface LentEndpoint {
  endpoint: FileEndpoint;
  release(): void;
}

export interface EndpointPool {
  lend(configured: ConfiguredEndpoint): Promise<LentEndpoint>;
  /** Closes endpoints that are not among the configured ones, each after its last use. */
  closeRemoved(configured: readonly Pick<ConfiguredEndpoint, 'endpoint_id'>[]): void;
  /** Returns the number of open connections, by endpoint name. Leaves out those that fail. */
  connections(): Promise<Map<string, number>>;
  /** Returns the host keys that servers announced, of the endpoints lent since the last call. */
  announcedHostKeys(): Promise<{ endpoint: ConfiguredEndpoint; keys: AnnouncedHostKey[] }[]>;
  close(): Promise<void>;
}

interface Entry {
  configured: ConfiguredEndpoint;
  opening: Promise<FileEndpoint>;
  users: number;
  /** False after a call of `announcedHostKeys` that found it unused. */
  lately: boolean;
  outdated: boolean;
}

/** Works on an endpoint, and gives it back afterwards. */
export async function withEndpoint<Result>(
  pool: EndpointPool,
  configured: ConfiguredEndpoint,
  work: (endpoint: FileEndpoint) => Promise<Result>,
): Promise<Result> {
  const { endpoint, release } = await pool.lend(configured);
  try {
    return await work(endpoint);
  } finally {
    release();
  }
}

export interface EndpointPoolDeps {
  vault: Pick<Vault, 'open'>;
  open(
    configured: ConfiguredEndpoint,
    credentials: EndpointCredentials,
  ): FileEndpoint | Promise<FileEndpoint>;
}

/**
 * Creates a pool that keeps the connections of configured endpoints warm between moves. A changed
 * configuration gets new connections.
 */
export function createEndpointPool({ vault, open }: EndpointPoolDeps): EndpointPool {
  const entries = new Map<string, Entry>();

  function create(configured: ConfiguredEndpoint): Entry {
    const opening = openCredentials(vault, configured).then(async (credentials) =>
      oneSignInFirst(await open(configured, credentials)),
    );
    const entry: Entry = {
      configured,
      opening,
      users: 0,
      lately: true,
      outdated: false,
    };
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
    if (outdated && users === 0)
      void opening.then((endpoint) => endpoint.close()).catch(() => undefined);
  }

  return {
    async lend(configured) {
      const id = configured.endpoint_id;
      const known = entries.get(id);
      const current =
        known && known.configured.revision >= configured.revision ? known : create(configured);
      if (known && known !== current) retire(known);
      entries.set(id, current);
      current.users++;
      current.lately = true;
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
    closeRemoved(configured) {
      const ids = new Set(configured.map(({ endpoint_id }) => endpoint_id));
      for (const [id, entry] of entries) {
        if (ids.has(id)) continue;
        entries.delete(id);
        retire(entry);
      }
    },
    async connections() {
      const counts = [...entries.values()].map(
        async ({ configured, opening }) =>
          [configured.name, await (await opening).connections()] as const,
      );
      return new Map(await fulfilled(counts));
    },
    async announcedHostKeys() {
      const used = [...entries.values()].filter(({ lately }) => lately);
      const announced = used.map(async (entry) => {
        entry.lately = entry.users > 0;
        const endpoint = await entry.opening;
        const keys = (await endpoint.announcedHostKeys?.()) ?? [];
        return { endpoint: entry.configured, keys };
      });
      return fulfilled(announced);
    },
    async close() {
      const all = [...entries.values()];
      entries.clear();
      await Promise.all(
        all.map(({ opening }) =>
          opening.then((endpoint) => endpoint.close()).catch(() => undefined),
        ),
      );
    },
  };
}

/** Leaves out endpoints that cannot be opened: each caller of `lend` gets that error. */
async function fulfilled<T>(answers: Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(answers);
  return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
}

/**
 * Wraps an endpoint so that only one call at a time runs until the first file was opened.
 *
 * A rejected sign-in fails all calls of the next 60 s: the server counts wrong credentials once,
 * however many transfers are due. An unanswered connection or sign-in fails all waiting calls.
 * Otherwise each would wait as long, one after the other, in a mover's slot.
 */
function oneSignInFirst(endpoint: FileEndpoint): FileEndpoint {
  let proven = false;
  /** Resolves with the error if the server did not answer, else with null (also after an abort). */
  let proving: Promise<FileError | null> | null = null;
  let rejected: { error: FileError; until: number } | null = null;

  async function guarded<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (!proven && proving) {
      const unanswered = await abortable(proving, signal, 'connect');
      if (unanswered) throw unanswered;
    }
    if (rejected && performance.now() < rejected.until) throw rejected.error;
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
        rejected = { error, until: performance.now() + HOLD_SECONDS * 1_000 };
      }
      throw error;
    }
  }

  /**
   * Opens a file and closes it, so that no other call waits for one that may take long. A refusal
   * proves the endpoint too: its server has answered after the sign-in.
   */
  async function prove(path: string, signal: AbortSignal): Promise<void> {
    if (proven) return;
    try {
      const file = await guarded(signal, () => endpoint.openSource(path, signal));
      await file.close();
    } catch (error) {
      if (!(error instanceof FileError) || signal.aborted || !isRefusal(error)) throw error;
      proven = true;
    }
  }

  return {
    ...endpoint,
    ...(endpoint.restoreSource && {
      // It proves nothing: protocols that set nothing aside do not sign in.
      async restoreSource(path, options) {
        if (rejected && performance.now() < rejected.until) throw rejected.error;
        return (await endpoint.restoreSource?.(path, options)) ?? true;
      },
    }),
    openSource: (path, signal) => guarded(signal, () => endpoint.openSource(path, signal)),
    openDestination: (path, options) =>
      guarded(options.signal, () => endpoint.openDestination(path, options)),
    async removeLeftovers(path, leftovers) {
      await prove(path, leftovers.signal);
      return guarded(leftovers.signal, () => endpoint.removeLeftovers(path, leftovers));
    },
    async dispose(path, options) {
      await prove(path, options.signal);
      return guarded(options.signal, () => endpoint.dispose(path, options));
    },
  };
}

/** Returns true if the server has answered a request about a file. */
function isRefusal({ code, ofServer }: FileError): boolean {
  return !ofServer && !isNetworkFailure(code);
}

/** Returns true if the server did not answer the connection or the sign-in. */
function isUnanswered(error: unknown): error is FileError {
  return error instanceof FileError && error.ofServer && isNetworkFailure(error.code);
}
