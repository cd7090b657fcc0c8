import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { ServerCertificate } from '../network/certificates.ts';

// In a thread, because some tests block their own.
const PROXY = `
  const { connect, createServer } = require('node:net');
  const { createSecureContext, TLSSocket } = require('node:tls');
  const { parentPort, workerData } = require('node:worker_threads');
  const { certificate, clientCa, target } = workerData;
  const secureContext = createSecureContext({ ...certificate, ca: clientCa });
  const server = createServer((socket) => socket.once('data', () => {
    // The answer to the request for TLS.
    socket.write('S');
    const client = new TLSSocket(socket, {
      isServer: true,
      secureContext,
      requestCert: clientCa !== undefined,
      rejectUnauthorized: clientCa !== undefined,
    });
    const upstream = connect(target);
    for (const each of [socket, client, upstream]) each.on('error', () => {});
    client.pipe(upstream).pipe(client);
  }));
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

/**
 * Adds TLS to the Postgres of this URL, on 127.0.0.1. With `clientCa`, a client needs a certificate
 * of that authority.
 */
export async function addTls(
  databaseUrl: string,
  certificate: ServerCertificate,
  clientCa?: string,
): Promise<{ url: string; stop(): Promise<void> }> {
  const url = new URL(databaseUrl);
  const target = { host: url.hostname, port: Number(url.port) };
  const proxy = new Worker(PROXY, { eval: true, workerData: { certificate, clientCa, target } });
  const [port] = await once(proxy, 'message');
  url.host = `127.0.0.1:${port}`;
  return {
    url: url.href,
    async stop() {
      await proxy.terminate();
    },
  };
}
