import type { ConnectionOptions } from 'node:tls';
import type { FtpsCredentials, FtpsSettings } from '../../../domain/protocols/ftps.ts';
import { type ConnectionTimeouts, TIMEOUTS } from '../connection-timeouts.ts';
import { hasPartOn } from '../has-part.ts';
import { type FileEndpoint, FileError } from '../port.ts';
import { tlsOptions } from './certificate.ts';
import { openDestination } from './destination.ts';
import { dispose, restoreSource } from './dispose.ts';
import { fileError } from './errors.ts';
import { list } from './listing.ts';
import { namesOn } from './names.ts';
import { createPool } from './pool.ts';
import { remove, removeLeftovers } from './removal.ts';
import { openConnection, presentedCertificate } from './sign-in.ts';
import { openSource } from './source.ts';

export interface FtpsEndpointOptions {
  settings: FtpsSettings;
  credentials: FtpsCredentials;
  maxConnections: number;
  timeouts?: Partial<ConnectionTimeouts>;
}

/**
 * Creates the FileEndpoint for one FTPS server. It keeps idle connections open for a minute. Each
 * file uses its own connection.
 */
export function createFtpsEndpoint({
  settings,
  credentials,
  maxConnections,
  timeouts: given,
}: FtpsEndpointOptions): FileEndpoint {
  const timeouts = { ...TIMEOUTS, ...given };
  let tls: ConnectionOptions | null = null;
  const target = {
    settings,
    credentials,
    timeouts,
    get tls() {
      tls ??= tlsOptions(settings);
      return tls;
    },
  };
  const pool = createPool(() => openConnection(target), maxConnections, timeouts);
  return {
    connections: async () => pool.size,
    openSource: async (path, signal) => openSource(pool, sendable(path), signal),
    openDestination: async (path, options) => openDestination(pool, sendable(path), options),
    hasPart: async (path, options) => hasPartOn(pool, namesOn, fileError, sendable(path), options),
    probe: async (signal) => presentedCertificate(target, signal),
    list: async (path, signal) => list(pool, sendable(path), signal),
    removeLeftovers: async (path, leftovers) => removeLeftovers(pool, sendable(path), leftovers),
    remove: async (path, signal) => remove(pool, sendable(path), signal),
    dispose: async (path, options) => dispose(pool, sendable(path), options),
    restoreSource: async (path, options) => restoreSource(pool, sendable(path), options),
    async close() {
      pool.close();
    },
  };
}

/** Rejects a path with a line break: it would end the command and begin another. */
function sendable(path: string): string {
  if (/[\r\n\0]/.test(path))
    throw new FileError(
      'permission_denied',
      'open',
      'FTP has no way to name a path with a line break in it',
    );
  return path;
}
