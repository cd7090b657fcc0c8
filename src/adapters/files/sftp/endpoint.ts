import {
  type AnnouncedHostKey,
  distrust,
  hostKeysOf,
  MAX_HOST_KEYS,
} from '../../../domain/protocols/host-keys.ts';
import type { SftpCredentials, SftpSettings } from '../../../domain/protocols/sftp.ts';
import { type ConnectionTimeouts, TIMEOUTS } from '../connection-timeouts.ts';
import { hasPartOn } from '../has-part.ts';
import { type FileEndpoint, FileError } from '../port.ts';
import { openConnection, presentedHostKey } from './connection.ts';
import { openDestination } from './destination.ts';
import { dispose, restoreSource } from './dispose.ts';
import { fileError } from './errors.ts';
import { list } from './listing.ts';
import { namesOn } from './names.ts';
import { removeLeftovers } from './parts.ts';
import { createPool } from './pool.ts';
import { openRoute } from './route.ts';
import { openSource } from './source.ts';

export interface SftpEndpointOptions {
  settings: SftpSettings;
  credentials: SftpCredentials;
  maxConnections: number;
  timeouts?: Partial<ConnectionTimeouts>;
  /** If false, ssh2 moves the bytes by itself. True by default. */
  fastPath?: boolean;
}

/**
 * A probe signs in to a jump host or proxy. After a rejection, probes wait this long: one a minute
 * would lock the account.
 */
const REJECTED_MS = 15 * 60_000;

/** Creates a FileEndpoint for one SFTP server, with connections that stay warm for a minute. */
export function createSftpEndpoint(options: SftpEndpointOptions): FileEndpoint {
  const { settings, credentials, maxConnections, fastPath = true } = options;
  const timeouts = { ...TIMEOUTS, ...options.timeouts };
  const routing = { settings, via: credentials.via, timeoutMs: timeouts.connectMs };
  let rejected: { error: FileError; until: number } | null = null;
  const announced = new Map<string, AnnouncedHostKey>();
  const announce = (key: AnnouncedHostKey) => {
    if (announced.size < MAX_HOST_KEYS) announced.set(key.sha256, key);
  };
  const pool = createPool(
    () => openConnection({ settings, credentials, timeouts, fastPath, announce }),
    maxConnections,
    timeouts,
  );
  return {
    connections: async () => pool.size,
    announcedHostKeys: async () => [...announced.values()],
    openSource: (path, signal) => openSource(pool, path, signal),
    openDestination: (path, options) => openDestination(pool, path, options),
    hasPart: (path, options) => hasPartOn(pool, namesOn, fileError, path, options),
    async probe(signal) {
      if (rejected && performance.now() < rejected.until) throw rejected.error;
      const fingerprint = await presentedHostKey(routing, signal).catch((error: unknown) => {
        if (error instanceof FileError && error.code === 'auth_failed')
          rejected = { error, until: performance.now() + REJECTED_MS };
        throw error;
      });
      const reason = distrust(fingerprint, hostKeysOf(settings));
      return { fingerprint, trusted: reason === null, reason };
    },
    async reach(signal) {
      const { socket } = await openRoute({ ...routing, signal });
      socket.destroy();
    },
    async list(path, signal) {
      try {
        return await pool.use(signal, 'open', (connection) => list(connection, path));
      } catch (error) {
        throw fileError(error, 'open', path);
      }
    },
    async remove(path, signal) {
      try {
        await pool.use(signal, 'open', (connection) =>
          connection.request((sftp, done) => sftp.unlink(path, done)),
        );
      } catch (error) {
        throw fileError(error, 'open', path);
      }
    },
    dispose: (path, options) => dispose(pool, path, options),
    restoreSource: (path, options) => restoreSource(pool, path, options),
    removeLeftovers: (path, leftovers) => removeLeftovers(pool, path, leftovers),
    async close() {
      pool.close();
    },
  };
}
