import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { startProcess } from '../../test/support/programs/server-process.ts';
import type { Bench } from './bench.ts';

const PROCESS = join(import.meta.dirname, 'proxy-process.ts');

/**
 * Starts a proxy that adds to every round trip of a server and its further ports. Returns its port.
 */
export async function startProxy(
  bench: Bench,
  { host, port }: { host: string; port: number },
  roundTripMs: number,
  morePorts: readonly number[] = [],
): Promise<number> {
  const command = [
    process.execPath,
    PROCESS,
    host,
    ...[port, roundTripMs, ...morePorts].map(String),
  ];
  const { child, kill } = startProcess(command, { stdio: ['ignore', 'pipe', 'inherit'] });
  bench.defer(kill);
  const [line] = await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
  return Number(line);
}

/** Returns the MB/s that pass through such a proxy. A figure near it measures the proxy. */
export async function proxyCeiling(bench: Bench, roundTripMs: number): Promise<number> {
  const bytes = 512 * 1024 * 1024;
  const chunk = Buffer.alloc(1024 * 1024);
  const source = createServer(async (socket) => {
    socket.on('error', () => undefined);
    for (let sent = 0; sent < bytes && !socket.destroyed; sent += chunk.length)
      if (!socket.write(chunk)) await once(socket, 'drain');
    socket.end();
  }).listen(0, '127.0.0.1');
  await once(source, 'listening');
  const proxied = await startProxy(
    bench,
    { host: '127.0.0.1', port: (source.address() as AddressInfo).port },
    roundTripMs,
  );
  const started = performance.now();
  const sink = connect(proxied, '127.0.0.1').resume();
  await once(sink, 'end');
  source.close();
  return bytes / 1e6 / ((performance.now() - started) / 1_000);
}
