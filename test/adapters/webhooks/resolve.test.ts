import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, expect, it } from 'vitest';
import { createHostResolver } from '../../../src/adapters/webhooks/resolve.ts';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0)) step();
});

/**
 * A DNS server that knows alive.example, never answers for silent.example and the names below it,
 * and reports every other name as unknown. Returns its address and port.
 */
async function nameServer(): Promise<string> {
  const socket = createSocket('udp4');
  undo.push(() => socket.close());
  socket.on('message', (query, { port, address }) => {
    const name = query.toString('latin1');
    if (name.includes('silent')) return;
    const wantsFour = query.readUInt16BE(query.indexOf(0, 12) + 1) === 1;
    const known = name.includes('alive') && wantsFour;
    const header = Buffer.from(query.subarray(0, query.indexOf(0, 12) + 5));
    header.writeUInt16BE(name.includes('alive') ? 0x8180 : 0x8183, 2);
    header.writeUInt16BE(known ? 1 : 0, 6);
    header.writeUInt32BE(0, 8);
    // The question's name, type A, class IN, one minute, four bytes.
    const answer = Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    socket.send(known ? Buffer.concat([header, answer]) : header, port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return `127.0.0.1:${socket.address().port}`;
}

it('names with silent servers delay no other name', async () => {
  const resolve = createHostResolver({ servers: [await nameServer()] });
  let ended = 0;
  const silent = Array.from({ length: 8 }, (_, i) =>
    resolve(`${i}.silent.example`).catch(({ code }: { code: string }) => {
      ended++;
      return code;
    }),
  );
  expect(await resolve('alive.example')).toEqual([{ address: '192.0.2.7', family: 4 }]);
  expect(ended).toBe(0);
  expect(new Set(await Promise.all(silent))).toEqual(new Set(['ETIMEOUT']));
}, 30_000);

it('the system resolves names that the DNS does not have', async () => {
  const resolve = createHostResolver({ servers: [await nameServer()] });
  expect((await resolve('localhost')).map(({ address }) => address)).toContain('127.0.0.1');
});
