import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { newHostKey } from './sftp-server.ts';

const key = z.object({ id: z.string(), key: z.string() }).nullable();
const server = z.object({
  port: z.int(),
  hostKey: z.string(),
  username: z.string(),
  password: z.string(),
});
const schema = z.object({
  servers: z.object({ hospital: server, bank: server }),
  keys: z.object({ api: key, console: key }),
  firstTransfer: z.string().nullable(),
});

/** The state that the demo keeps between starts. */
export type DemoState = z.output<typeof schema>;
export type DemoServerName = keyof DemoState['servers'];
export type DemoKeyName = keyof DemoState['keys'];

const FILE = 'demo.json';

/** Loads the state from a data folder, or creates a new one. Throws if the file is unreadable. */
export async function loadDemoState(folder: string): Promise<DemoState> {
  const text = await readFile(join(folder, FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  return text === null ? newDemo() : schema.parse(JSON.parse(text));
}

/** Writes the state. Only the owner can read the file, because it holds keys and passwords. */
export async function saveDemoState(folder: string, state: DemoState): Promise<void> {
  const partial = join(folder, `${FILE}.new`);
  await writeFile(partial, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600, flush: true });
  await rename(partial, join(folder, FILE));
}

function newDemo(): DemoState {
  const server = () => ({
    port: 0,
    hostKey: newHostKey(),
    username: 'demo',
    password: randomBytes(12).toString('base64url'),
  });
  return {
    servers: { hospital: server(), bank: server() },
    keys: { api: null, console: null },
    firstTransfer: null,
  };
}
