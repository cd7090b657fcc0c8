import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import type { ServerCertificate } from '../../../support/network/certificates.ts';

export interface Relay {
  port: number;
  close(): void;
}

/**
 * Starts a relay in front of a plain server on loopback. It speaks TLS if it has a certificate, and
 * flips one bit of each large body with `spoil`.
 */
export async function startRelay(
  target: number,
  { tls, spoil }: { tls?: ServerCertificate; spoil?: boolean },
): Promise<Relay> {
  const sockets = new Set<Socket>();
  const join = (client: Socket) => {
    const upstream = connect(target, '127.0.0.1');
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => other.destroy());
    }
    (spoil ? client.pipe(spoiler()) : client).pipe(upstream).pipe(client);
  };
  const server = tls ? createTlsServer(tls, join) : createServer(join);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Flips a bit far behind the headers of a request. */
function spoiler(): Transform {
  let left = 100_000;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (left >= 0 && left < chunk.length) chunk.writeUInt8((chunk[left] as number) ^ 1, left);
      left -= chunk.length;
      done(null, chunk);
    },
  });
}
