import { chmod, mkdtemp, rm, statfs } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { startEmbeddedPostgres } from '../../../src/adapters/postgres/embedded/embedded.ts';

// A process that runs a Postgres in a temporary folder. It writes the URL, or the error, as one
// line of JSON. It removes everything when its input ends, even if its parent process was killed.

const GiB = 1 << 30;
const MEMORY = '/dev/shm';

/**
 * No data needs to survive a crash. A run creates hundreds of small databases, and autovacuum would
 * visit all of them again and again.
 */
const settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  wal_compression: 'off',
  autovacuum: 'off',
  io_method: 'sync',
  max_connections: '400',
};

const dataDir = await mkdtemp(join(await roomyFolder(), 'waybill-test-'));
await chmod(dataDir, 0o711);
const remove = () => rm(dataDir, { recursive: true, force: true });
try {
  const server = await startEmbeddedPostgres({
    dataDir,
    logger: pino({ level: 'silent' }),
    settings,
  });
  await simplifySignIn(server.url);
  process.stdin.resume().once('end', () => void server.release().finally(remove));
  console.log(JSON.stringify({ url: server.url }));
} catch (error) {
  console.log(JSON.stringify({ error: (error as Error).message }));
  await remove();
}

/**
 * Gives the password a hash of one round: a run signs in thousands of times, and the usual 4,096
 * rounds take a millisecond of CPU time each.
 */
async function simplifySignIn(url: string): Promise<void> {
  const sql = connect(url, { max: 1, settings: { scram_iterations: 1 } });
  // A statement of this kind takes no parameters. The password is base64url.
  await sql.unsafe(`alter role current_user password '${new URL(url).password}'`);
  await sql.end();
}

/**
 * Returns a folder in memory if it has room for a whole run, which needs less than 1 GiB. Each
 * database of a test file is a thousand files, which a disk's file system is slow to create.
 */
async function roomyFolder(): Promise<string> {
  const memory = await statfs(MEMORY).catch(() => null);
  const room = memory === null ? 0 : Math.min(memory.bavail * memory.bsize, freemem());
  return room > 4 * GiB ? MEMORY : tmpdir();
}
