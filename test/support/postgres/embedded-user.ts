import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../../src/adapters/postgres/embedded/embedded.ts';

// A process that uses the embedded Postgres of the data folder in its argument. Writes the URL, or
// the error, as one line of JSON. Releases the server when its input ends. Exits without that at a
// SIGTERM.
process.once('SIGTERM', () => process.exit(1));
const [dataDir = ''] = process.argv.slice(2);
try {
  const server = await startEmbeddedPostgres({ dataDir, logger: pino({ level: 'silent' }) });
  process.stdin.resume().once('end', () => void server.release());
  console.log(JSON.stringify({ url: server.url }));
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  console.log(JSON.stringify({ error: message, code }));
}
