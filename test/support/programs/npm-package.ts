import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';

const CACHE = resolve(import.meta.dirname, '../../../.cache/npm');

export type NpmPackages =
  | { available: true; folder: string }
  | { available: false; reason: string };

// The kernel holds the flock, so a killed test run leaves no lock behind.
const INSTALL = `
  [ -e "$TREE" ] && exit 0
  new=$(mktemp -d "$CACHE/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  cp package.json package-lock.json "$new"
  cd "$new"
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  chmod 755 "$new"
  mv "$new" "$TREE"
`;

/**
 * Installs the packages of a folder's package.json and lock file once into the project's cache, for
 * programs that only some tests need. Safe for parallel test files.
 */
export async function npmPackages(folder: string): Promise<NpmPackages> {
  const tree = join(CACHE, basename(folder));
  await mkdir(CACHE, { recursive: true });
  try {
    await promisify(execFile)('flock', [join(CACHE, 'lock'), 'sh', '-ec', INSTALL], {
      cwd: folder,
      env: { ...process.env, CACHE, TREE: tree },
    });
    return { available: true, folder: tree };
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    return {
      available: false,
      reason:
        `npm could not install ${basename(folder)}: ` +
        `${(stderr || message).trim().split('\n').at(-1)}`,
    };
  }
}
