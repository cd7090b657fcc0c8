import { execFile } from 'node:child_process';
import { existsSync, globSync, mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

const CACHE = resolve(import.meta.dirname, '../../../.cache/debian');

export interface DebianPrograms {
  available: true;
  /** Folder of the packages' files: `/` if the system has them, else a folder of the cache. */
  root: string;
  /** Returns the absolute path of a packaged file, such as `/usr/sbin/sshd`. */
  path(file: string): string;
  /** The environment in which the programs find each other and their libraries. */
  env: NodeJS.ProcessEnv;
}

export type DebianPackages = DebianPrograms | { available: false; reason: string };

// The kernel holds the flock, so a killed test run leaves no lock behind. A libc that differs from
// the one that the system's loader expects would crash every program, so it is never unpacked.
// Container images configure apt to keep no cache of its lists. Without one, each run of apt spends
// a second of CPU time on reading them.
const UNPACK = `
  [ -e "$TREE" ] && exit 0
  apt() {
    apt-get -o Dir::State::Lists="$CACHE/lists" -o Dir::Cache="$CACHE/apt" -o APT::Sandbox::User=root \\
      -o Dir::Cache::pkgcache=pkgcache.bin \\
      -o Acquire::Retries=1 -o Acquire::http::Timeout=20 "$@"
  }
  fetch() {
    lacking=$(apt -s install --no-install-recommends "$@") || return
    apt -qq download $(echo "$lacking" | sed -n 's/^Inst \\([^ ]*\\).*/\\1/p' | grep -vx -e libc6 -e libc-bin)
  }
  mkdir -p "$CACHE/lists/partial" "$CACHE/apt/archives/partial"
  new=$(mktemp -d "$CACHE/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  cd "$new"
  mkdir tree
  ls "$CACHE"/lists/*_Packages* >/dev/null 2>&1 && fetch "$@" || { apt -qq update && fetch "$@"; }
  for deb in *.deb; do dpkg -x "$deb" tree; done
  chmod 755 tree
  mv tree "$TREE"
`;

const asked = new Map<string, Promise<DebianPackages>>();

/**
 * Provides programs of Debian packages without installing them into the system. `programs` are the
 * necessary files. If the system has them all, those are used. Otherwise the packages and their
 * dependencies are unpacked once into the project's cache. Safe for parallel test files.
 */
export function debianPackages(packages: string[], programs: string[]): Promise<DebianPackages> {
  const key = [...packages].sort().join('+');
  const answer = asked.get(key) ?? provide(key, packages, programs);
  asked.set(key, answer);
  return answer;
}

async function provide(
  key: string,
  packages: string[],
  programs: string[],
): Promise<DebianPackages> {
  if (programs.every((file) => existsSync(file))) return describe('/');
  const tree = join(CACHE, key);
  try {
    mkdirSync(CACHE, { recursive: true });
    if (!existsSync(tree)) await unpack(tree, packages);
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string };
    const why = stderr.trim().split('\n').at(-1) || message;
    return {
      available: false,
      reason: `${packages.join(', ')}: not installed, and apt-get download fails (${why})`,
    };
  }
  const missing = programs.filter((file) => !existsSync(join(tree, file)));
  return missing.length === 0
    ? describe(tree)
    : { available: false, reason: `${packages.join(', ')} without ${missing.join(', ')}` };
}

async function unpack(tree: string, packages: string[]): Promise<void> {
  await promisify(execFile)(
    'flock',
    [join(CACHE, 'lock'), 'sh', '-euc', UNPACK, 'unpack', ...packages],
    {
      env: { ...process.env, CACHE, TREE: tree, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' },
      maxBuffer: 64 << 20,
    },
  );
}

function describe(root: string): DebianPrograms {
  const path = (file: string) => join(root, file);
  if (root === '/') return { available: true, root, path, env: process.env };
  const libraries = new Set(
    globSync('{lib,usr/lib}/**/*.so{,.*}', { cwd: root }).map((file) => join(root, dirname(file))),
  );
  const programs = ['usr/sbin', 'usr/bin', 'sbin', 'bin'].map((folder) => join(root, folder));
  const env = {
    ...process.env,
    LD_LIBRARY_PATH: [...libraries, process.env.LD_LIBRARY_PATH].filter(Boolean).join(':'),
    PATH: [...programs, process.env.PATH].join(':'),
  };
  return { available: true, root, path, env };
}
