import type { AzureCredentials, AzureSettings } from '../../../domain/protocols/azure.ts';
import { abortError } from '../abort.ts';
import { probe } from '../http/probe.ts';
import { type HttpTimeouts, TIMEOUTS } from '../http/timeouts.ts';
import { reach, tunnelOf } from '../http/tunnel.ts';
import type { FileEndpoint } from '../port.ts';
import { openDestination } from './destination.ts';
import { dispose } from './dispose.ts';
import { fileError, otherService } from './errors.ts';
import { BLOCK_LIMITS, type BlockLimits } from './limits.ts';
import { listFolder } from './list.ts';
import { openSource } from './source.ts';
import { containerUrl, createStore } from './store.ts';

export interface AzureEndpointOptions {
  settings: AzureSettings;
  credentials: AzureCredentials;
  maxConnections: number;
  timeouts?: Partial<HttpTimeouts>;
  /** Replaces the limits of the service, for tests of huge blobs. */
  blockLimits?: BlockLimits;
}

/**
 * Creates a FileEndpoint for one container of Azure Blob Storage. Paths are names of blobs, used
 * unchanged.
 */
export function createAzureEndpoint({
  settings,
  credentials,
  maxConnections,
  timeouts: given,
  blockLimits = BLOCK_LIMITS,
}: AzureEndpointOptions): FileEndpoint {
  const timeouts = { ...TIMEOUTS, ...given };
  const tunnel = tunnelOf(settings, credentials, timeouts);
  const store = createStore({ settings, credentials, maxConnections, timeouts, tunnel });

  async function guarded<Result>(
    path: string,
    signal: AbortSignal,
    work: () => Promise<Result>,
  ): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw signal.aborted ? abortError(signal, 'open') : fileError(error, 'open', path, 'source');
    }
  }

  return {
    connections: async () => store.connections,
    openSource: (name, signal) => openSource(store, name, signal),
    openDestination: (name, options) => openDestination(store, blockLimits, name, options),
    reach: (signal) => reach(tunnel, containerUrl(settings), signal),
    probe: (signal) =>
      probe(containerUrl(settings), tunnel, settings.ca_pem, timeouts.connectMs, signal),
    list: (path, signal) =>
      guarded(path || settings.container, signal, () =>
        listFolder(store, path, signal).catch((error: unknown) => {
          throw otherService(error, containerUrl(settings)) ?? error;
        }),
      ),
    remove: (name, signal) =>
      guarded(
        name,
        signal,
        async () => void (await store.blob(name).delete({ abortSignal: signal })),
      ),
    dispose: (name, options) => dispose(store, name, options),
    /**
     * Does nothing, because the service has no request that discards staged blocks. They are
     * invisible. They vanish when a blob is put or committed under the name, or after a week ("Put
     * Block"). To discard them sooner, one would have to write to the destination's own name. That
     * would also discard the blocks of other transfers to it.
     */
    async removeLeftovers() {},
    async close() {
      store.close();
    },
  };
}
