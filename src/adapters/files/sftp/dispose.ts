import { disposeByName, type Sources } from '../dispose.ts';
import type { Disposed, DisposeOptions } from '../port.ts';
import type { Connection } from './connection.ts';
import { makeFolder, statOf } from './destination.ts';
import { fileError } from './errors.ts';
import { namesOn } from './names.ts';
import type { Pool } from './pool.ts';
import { identityOf } from './source.ts';

/** Deletes or moves a file, if it is still the one that was copied. */
export async function dispose(
  pool: Pool,
  path: string,
  options: DisposeOptions,
): Promise<Disposed> {
  const progress = { begun: false };
  try {
    return await pool.use(options.signal, 'commit', (connection) =>
      disposeByName(sourcesOn(connection), path, options, progress),
    );
  } catch (error) {
    throw fileError(error, 'commit', path);
  }
}

function sourcesOn(connection: Connection): Sources {
  return {
    ...namesOn(connection),
    async identityOf(path) {
      const stats = await statOf(connection, path);
      return stats?.isFile() ? identityOf(stats) : null;
    },
    makeFolder: (path) => makeFolder(connection, path),
  };
}
