import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/*
 * Ports of tests are below those that a system gives to outgoing connections. Such a connection
 * would keep a server that was stopped, or a proxy that refuses, from listening at its port again.
 * So would another test's server: each worker has ports of its own, and gives none twice.
 */

/** Ports for FTPS data connections. */
export const [FIRST_PASSIVE_PORT, LAST_PASSIVE_PORT] = [10_000, 20_000];
const FIRST_PORT = 20_000;
const WORKERS = 8;
const PORTS_OF_WORKER = 1_500;

const worker = Number(process.env.VITEST_POOL_ID ?? 0) % WORKERS;
let next = randomInt(PORTS_OF_WORKER);

/**
 * Returns an unused loopback port, for servers that cannot choose one themselves. Another process
 * may take it first: retry then.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + worker * PORTS_OF_WORKER + (next++ % PORTS_OF_WORKER);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if (isInUse(error)) return false;
    throw error;
  }
  server.close();
  await once(server, 'close');
  return true;
}

/** Returns whether an error says that a port is in use. */
export function isInUse(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
}
