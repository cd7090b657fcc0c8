import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../src/adapters/postgres/embedded.ts';

// A process that runs a Postgres in a temporary folder. It writes the URL, or the error, as one
// line of JSON. It removes everything when its input ends, even if its parent process was killed.

/** No data needs to survive a crash. */
const settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '400',
};

const dataDir = await mkdtemp(join(tmpdir(), 'waybill-test-'));
await chmod(dataDir, 0o711);
const remove = () => rm(dataDir, { recursive: true, force: true });
try {
  const server = await startEmbeddedPostgres({
    dataDir,
    logger: pino({ level: 'silent' }),
    settings,
  });
  process.stdin.resume().once('end', () => void server.release().finally(remove));
  console.log(JSON.stringify({ url: server.url }));
} catch (error) {
  console.log(JSON.stringify({ error: (error as Error).message }));
  await remove();
}
