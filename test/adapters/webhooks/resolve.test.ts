import { createHook } from 'node:async_hooks';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import {
  createHostResolver,
  type ResolverOptions,
} from '../../../src/adapters/webhooks/resolve.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0)) await step();
});

/**
 * A DNS server that knows alive.example, never answers for silent.example and the names below it,
 * nor for the IPv6 addresses of half.alive.example, refuses "refused" and fails for "failing", and
 * reports every other name as unknown. It answers for slow.alive.example after 3.5 seconds, and
 * ignores the first two queries for lost.alive.example. Returns a function that returns its address
 * and port.
 */
async function nameServer(): Promise<() => string[]> {
  const socket = createSocket('udp4');
  const open = new AbortController();
  undo.push(() => {
    open.abort();
    socket.close();
  });
  let lost = 0;
  socket.on('message', async (query, { port, address }) => {
    const name = query.toString('latin1');
    if (name.includes('silent') || (name.includes('lost') && lost++ < 2)) return;
    if (name.includes('slow')) await sleep(3_500);
    if (open.signal.aborted) return;
    const wantsFour = query.readUInt16BE(query.indexOf(0, 12) + 1) === 1;
    if (name.includes('half') && !wantsFour) return;
    const known = name.includes('alive') && wantsFour;
    const header = Buffer.from(query.subarray(0, query.indexOf(0, 12) + 5));
    header.writeUInt16BE(statusOf(name), 2);
    header.writeUInt16BE(known ? 1 : 0, 6);
    header.writeUInt32BE(0, 8);
    // The question's name, type A, class IN, one minute, four bytes.
    const answer = Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    socket.send(known ? Buffer.concat([header, answer]) : header, port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const servers = [`127.0.0.1:${socket.address().port}`];
  return () => servers;
}

function statusOf(name: string): number {
  if (name.includes('alive')) return 0x8180;
  if (name.includes('refused')) return 0x8185;
  return name.includes('failing') ? 0x8182 : 0x8183;
}

/** The limit of attempts that webhooks have. */
const resolver = (options: Partial<ResolverOptions>) =>
  createHostResolver({ withinMs: 9_000, ...options });

it('names with silent servers delay no other name', async () => {
  const resolve = resolver({ servers: await nameServer(), withinMs: 5_000 });
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

it('a name server that drops the queries for IPv6 delays no other address', async () => {
  const resolve = resolver({ servers: await nameServer() });
  const first = Promise.race([
    resolve('silent.example').catch(() => []),
    resolve('half.alive.example'),
  ]);
  expect(await first).toEqual([{ address: '192.0.2.7', family: 4 }]);
}, 30_000);

it('a slow DNS answers all the same, also one that was fast before', async () => {
  const resolve = resolver({ servers: await nameServer() });
  for (const i of [1, 2, 3, 4]) await resolve(`${i}.alive.example`);
  expect(await resolve('slow.alive.example')).toEqual([{ address: '192.0.2.7', family: 4 }]);
}, 30_000);

it('a lost query is repeated, and goes to the next name server', async () => {
  const servers = await nameServer();
  const silent = createSocket('udp4').bind(0, '127.0.0.1');
  undo.push(() => silent.close());
  await once(silent, 'listening');
  const both = [`127.0.0.1:${silent.address().port}`, ...servers()];
  const found = await Promise.all([
    resolver({ servers })('lost.alive.example'),
    resolver({ servers: () => both })('alive.example'),
  ]);
  for (const addresses of found) expect(addresses).toEqual([{ address: '192.0.2.7', family: 4 }]);
}, 30_000);

/** Creates a hosts file and a resolv.conf with these texts. */
async function filesOf({ hosts = '', resolvConf = '' }: { hosts?: string; resolvConf?: string }) {
  const folder = await mkdtemp(join(tmpdir(), 'names-'));
  undo.push(() => rm(folder, { recursive: true }));
  const files = { hosts: join(folder, 'hosts'), resolvConf: join(folder, 'resolv.conf') };
  await Promise.all([writeFile(files.hosts, hosts), writeFile(files.resolvConf, resolvConf)]);
  return files;
}

it('the hosts file goes before the DNS', async () => {
  const hosts = `
# comment
127.0.0.1\tlocalhost
10.1.2.3  Receiver.internal alive.example # another comment
fd00::7   receiver.internal
nonsense  receiver.internal
`;
  const files = await filesOf({ hosts });
  const resolve = resolver({ servers: await nameServer(), files });
  expect(await resolve('localhost')).toEqual([{ address: '127.0.0.1', family: 4 }]);
  expect(await resolve('receiver.internal.')).toEqual([
    { address: '10.1.2.3', family: 4 },
    { address: 'fd00::7', family: 6 },
  ]);
  expect(await resolve('alive.example')).toEqual([{ address: '10.1.2.3', family: 4 }]);
});

it('a name that the DNS does not know is looked up in the search domains', async () => {
  const resolvConf = 'domain unused.example\nsearch corp.example. alive.example # two\n';
  const files = await filesOf({ resolvConf });
  const resolve = resolver({ servers: await nameServer(), files });
  expect(await resolve('receiver')).toEqual([{ address: '192.0.2.7', family: 4 }]);
  await expect(resolve('receiver.')).rejects.toMatchObject({ code: 'ENOTFOUND' });
});

it('a name without a dot that the DNS refuses or fails is looked up in the search domains', async () => {
  const files = await filesOf({ resolvConf: 'search alive.example' });
  const resolve = resolver({ servers: await nameServer(), files });
  for (const name of ['refused', 'failing'])
    expect(await resolve(name)).toEqual([{ address: '192.0.2.7', family: 4 }]);
  await expect(resolve('failing.')).rejects.toMatchObject({ code: 'ESERVFAIL' });
  // A search domain with a wildcard must not get the requests of another host.
  await expect(resolve('failing.example')).rejects.toMatchObject({ code: 'ESERVFAIL' });
});

it('a name that the DNS does not know takes no thread of the process', async () => {
  const systemLookUps: string[] = [];
  const hook = createHook({
    init: (_, type) => {
      if (type === 'GETADDRINFOREQWRAP') systemLookUps.push(type);
    },
  }).enable();
  undo.push(() => hook.disable());
  const resolve = resolver({ servers: await nameServer() });
  const names = ['unknown.example', 'single-label', 'a..b', `${'x'.repeat(64)}.example`];
  const errors = names.map((name) => resolve(name).catch(({ code }: { code: string }) => code));
  expect(await Promise.all(errors)).toEqual(['ENOTFOUND', 'ENOTFOUND', 'EBADNAME', 'EBADNAME']);
  expect(systemLookUps).toEqual([]);
});

/** Returns the address of a name server that does not run. */
async function closedServer(): Promise<() => string[]> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const servers = [`127.0.0.1:${socket.address().port}`];
  await new Promise<void>((resolve) => socket.close(() => resolve()));
  return () => servers;
}

it('a machine without a DNS knows the names of its hosts file', async () => {
  const resolve = resolver({
    servers: await closedServer(),
    files: await filesOf({ hosts: '10.1.2.3 receiver' }),
  });
  expect(await resolve('receiver')).toEqual([{ address: '10.1.2.3', family: 4 }]);
  // Not ECONNREFUSED, which says that nothing listens at the receiver.
  await expect(resolve('other.example')).rejects.toMatchObject({ code: 'EAI_AGAIN' });
});

it('other servers and names of the system count without a restart', async () => {
  let servers = await closedServer();
  const files = await filesOf({ hosts: '10.1.2.3 receiver' });
  const resolve = resolver({ servers: () => servers(), files, settingsKeptMs: 100 });
  await expect(resolve('alive.example')).rejects.toMatchObject({ code: 'EAI_AGAIN' });
  servers = await nameServer();
  await writeFile(files.hosts, '10.1.2.4 receiver');
  expect(await resolve('alive.example')).toEqual([{ address: '192.0.2.7', family: 4 }]);
  await expect.poll(() => resolve('receiver')).toEqual([{ address: '10.1.2.4', family: 4 }]);
});
