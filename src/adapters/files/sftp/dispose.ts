import { disposeOn, restoreOn, type Sources } from '../dispose.ts';
import type { Disposed, DisposeOptions, RestoreOptions } from '../port.ts';
import { STALLS_TO_COMMIT } from '../publish.ts';
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

/** Gives a file its name back that an interrupted `dispose` has set aside. */
export function restoreSource(pool: Pool, path: string, options: RestoreOptions): Promise<boolean> {
  return restoreOn(pool, sourcesOn, fileError, path, options);
}

/** A server in front of an object store copies the file that it renames. */
function sourcesOn(connection: Connection): Sources {
  return {
    ...namesOn(connection, STALLS_TO_COMMIT),
    async identityOf(path) {
      const stats = await statOf(connection, path);
      const isFile = stats && (await typeOf(connection, path, stats)) === 'file';
      return isFile ? identityOf(stats) : null;
    },
    makeFolder: (path) => makeFolder(connection, path),
  };
}
