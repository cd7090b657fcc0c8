import { openFileEndpoint } from '../../adapters/files/open.ts';
import type { FileEndpoint } from '../../adapters/files/port.ts';
import type { Vault } from '../../adapters/vault.ts';
import { CREDENTIALS } from '../../commands/endpoints.ts';
import type { EndpointCredentials } from '../../domain/endpoint.ts';
import type { ConfiguredEndpoint } from '../../projections/catalog-queries.ts';

interface Entry {
  revision: number;
  endpoint: Promise<FileEndpoint>;
  users: number;
  outdated: boolean;
}

/** An endpoint in use; its connections stay open for the next one when it is handed back. */
export interface LentEndpoint {
  endpoint: FileEndpoint;
  release(): void;
}

export interface EndpointPool {
  lend(configured: ConfiguredEndpoint): Promise<LentEndpoint>;
  close(): Promise<void>;
}

/** Keeps the connections of configured endpoints warm between moves; a changed configuration begins with new ones. */
export function createEndpointPool(vault: Vault): EndpointPool {
  const entries = new Map<string, Entry>();

  async function open(configured: ConfiguredEndpoint): Promise<FileEndpoint> {
    const credentials = await vault.open<EndpointCredentials>(configured.credentials_record, CREDENTIALS);
    return openFileEndpoint(configured, credentials);
  }

  function closeIfUnused(entry: Entry): void {
    if (entry.outdated && entry.users === 0) void entry.endpoint.then((endpoint) => endpoint.close()).catch(() => undefined);
  }

  return {
    async lend(configured) {
      const id = configured.endpoint_id;
      let entry = entries.get(id);
      if (!entry || entry.revision < configured.revision) {
        if (entry) entry.outdated = true;
        if (entry) closeIfUnused(entry);
        entry = { revision: configured.revision, endpoint: open(configured), users: 0, outdated: false };
        entries.set(id, entry);
      }
      const lent = entry;
      lent.users++;
      try {
        const endpoint = await lent.endpoint;
        return {
          endpoint,
          release() {
            lent.users--;
            closeIfUnused(lent);
          },
        };
      } catch (error) {
        if (entries.get(id) === lent) entries.delete(id);
        throw error;
      }
    },
    async close() {
      const all = [...entries.values()];
      entries.clear();
      await Promise.all(all.map(({ endpoint }) => endpoint.then((opened) => opened.close()).catch(() => undefined)));
    },
  };
}
