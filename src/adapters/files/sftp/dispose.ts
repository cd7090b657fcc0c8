import { disposeOn, type Sources } from '../dispose.ts';
import type { Disposed, DisposeOptions } from '../port.ts';
import { fileError } from './errors.ts';
import { typeOf } from './file-type.ts';
import { namesOn } from './names.ts';
import { makeFolder, statOf } from './open-part.ts';
import type { Pool } from './pool.ts';
import type { Connection } from './session.ts';
import { identityOf } from './source.ts';

/** Deletes or moves a file, if it is still the one that was copied. */
export function dispose(pool: Pool, path: string, options: DisposeOptions): Promise<Disposed> {
  return disposeOn(pool, sourcesOn, fileError, path, options);
}

function sourcesOn(connection: Connection): Sources {
  return {
    ...namesOn(connection),
    async identityOf(path) {
      const stats = await statOf(connection, path);
      const isFile = stats && (await typeOf(connection, path, stats)) === 'file';
      return isFile ? identityOf(stats) : null;
    },
    makeFolder: (path) => makeFolder(connection, path),
  };
}
