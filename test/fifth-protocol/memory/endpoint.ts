import { type FileEndpoint, FileError, type FileStep } from '../../../src/adapters/files/port.ts';
import { addTo } from '../../../src/concurrency/shared-counter.ts';
import type { MemoryCredentials, MemorySettings } from '../memory.ts';

const CHUNK_BYTES = 1 << 20;

interface MemoryEndpointOptions {
  settings: MemorySettings;
  credentials: MemoryCredentials;
  maxConnections: number;
}

/** The adapter: reads a file with one GET and writes it with one PUT. */
export function createMemoryEndpoint({
  settings: { host, port, username },
  credentials: { password },
}: MemoryEndpointOptions): FileEndpoint {
  const authorization = `${username}:${password}`;

  async function ask(
    method: string,
    path: string,
    step: FileStep,
    body: Uint8Array<ArrayBuffer> | null = null,
    asked: string | null = authorization,
  ): Promise<Buffer> {
    const url = `http://${host}:${port}${path.split('/').map(encodeURIComponent).join('/')}`;
    const headers = asked === null ? {} : { authorization: asked };
    const response = await fetch(url, { method, body, headers }).catch((error: Error) => {
      throw new FileError('connection_failed', 'connect', error.message, { cause: error });
    });
    if (response.status === 401 && asked !== null)
      throw new FileError('auth_failed', 'sign_in', 'The server refused the password');
    if (response.status === 404)
      throw new FileError('source_not_found', step, `There is no ${path}`);
    return Buffer.from(await response.arrayBuffer());
  }

  return {
    connections: async () => 0,
    async openSource(path) {
      const content = await ask('GET', path, 'open');
      const identity = { size: content.length, version: null };
      return {
        identity,
        modifiedAt: null,
        parallelReads: 1,
        readAtOnce: true,
        read: async (offset, target) =>
          target.set(content.subarray(offset, offset + target.length)),
        stat: async () => identity,
        close: async () => undefined,
      };
    },
    async openDestination(path, { size, acknowledged }) {
      const content = new Uint8Array(size);
      return {
        parallelWrites: 1,
        chunkSize: CHUNK_BYTES,
        resumedFrom: 0,
        write: async (offset, data) => content.set(data, offset),
        openWritten: async () => null,
        showPart: async () => null,
        resumePoint: async () => ({ bytes: 0, state: null }),
        async commit() {
          await ask('PUT', path, 'commit', content);
          addTo(acknowledged, size);
          return { size, destinationChecksum: 'none', atomicReplace: true };
        },
        close: async () => undefined,
      };
    },
    async probe() {
      await ask('OPTIONS', '/', 'connect', null, null);
      return { fingerprint: null, trusted: true, reason: null };
    },
    async list(path) {
      const folder = path.endsWith('/') ? path : `${path}/`;
      const names = JSON.parse((await ask('GET', folder, 'open')).toString()) as string[];
      return names.map((name) => ({ name, type: 'file', size: null, modified_at: null }));
    },
    removeLeftovers: async () => undefined,
    async remove(path) {
      await ask('DELETE', path, 'commit');
    },
    // Files have no version, so no transfer asks for this.
    async dispose() {
      throw new FileError('permission_denied', 'commit', 'A source is always kept');
    },
    close: async () => undefined,
  };
}
