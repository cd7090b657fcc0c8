import { disposeOn, restoreOn, type Sources } from '../dispose.ts';
import type { Disposed, DisposeOptions, RestoreOptions } from '../port.ts';
import { STALLS_TO_COMMIT } from '../publish.ts';
import type { Connection } from './connection.ts';
import { makeFolder } from './destination.ts';
import { fileError, statError } from './errors.ts';
import { namesOn } from './names.ts';
import type { Pool } from './pool.ts';
import { statOf } from './stat.ts';

/** Deletes or moves a file, if it is still the one that was copied. */
export function dispose(pool: Pool, path: string, options: DisposeOptions): Promise<Disposed> {
  return disposeOn(pool, sourcesOn, fileError, path, options);
}

/** Gives a file its name back that an interrupted `dispose` has set aside. */
export function restoreSource(pool: Pool, path: string, options: RestoreOptions): Promise<boolean> {
  return restoreOn(pool, sourcesOn, fileError, path, options);
}

/** A server in front of an object store copies the file that it renames. */
function sourcesOn(connection: Connection): Sources {
  return {
    ...namesOn(connection, STALLS_TO_COMMIT),
    async identityOf(path) {
      try {
        const { type, size, version } = await statOf(connection, path);
        return type === 'file' ? { size, version } : null;
      } catch (error) {
        if (statError(error, 'commit', path).code === 'source_not_found') return null;
        throw error;
      }
    },
    makeFolder: (path) => makeFolder(connection, path),
  };
}
