import { disposeOn, type Sources } from '../dispose.ts';
import type { Disposed, DisposeOptions } from '../port.ts';
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

function sourcesOn(connection: Connection): Sources {
  return {
    ...namesOn(connection),
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
