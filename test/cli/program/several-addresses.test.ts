import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../support/network/free-port.ts';
import { startProcess } from '../../support/programs/server-process.ts';

const WAYBILL = fileURLToPath(new URL('../../../bin/waybill', import.meta.url));

const SERVER = (port: number) =>
  `require('net').createServer(() => {}).listen({ port: ${port}, host: '127.0.0.1', backlog: 1 },
     () => console.log('listens'))`;

/** Runs before the command, with the flags of the process. */
const CLIENT = (port: number) => `
  import { connect } from 'node:net';
  const addresses = [{ address: '127.0.0.1', family: 4 }, { address: '2001:db8::1', family: 6 }];
  const lookup = (_, __, callback) => callback(null, addresses);
  const socket = connect({ host: 'far.example', port: ${port}, lookup });
  process.stderr.write('connects');
  process.stdout.write(await new Promise((resolve) => {
    socket.on('connect', () => resolve(socket.remoteAddress));
    socket.on('error', (error) => resolve(error.code));
  }));
  process.exit();`;

test('a connection may take a second, also to a name whose last address is dead', async () => {
  const port = await freePort();
  const { child } = startProcess([process.execPath, '-e', SERVER(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout as NonNullable<typeof child.stdout>, 'data');
  // While it is frozen, the system accepts two connections. It answers the next one when the client
  // tries again, after a second.
  child.kill('SIGSTOP');
  const first = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')];
  onTestFinished(() => {
    for (const socket of first) socket.destroy();
  });
  await Promise.all(first.map((socket) => once(socket, 'connect')));

  const code = encodeURIComponent(CLIENT(port));
  const running = promisify(execFile)(WAYBILL, ['--version'], {
    env: { ...process.env, NODE_OPTIONS: `--import=data:text/javascript,${code}` },
  });
  await once(running.child.stderr as NonNullable<typeof running.child.stderr>, 'data');
  await sleep(200);
  child.kill('SIGCONT');
  expect((await running).stdout).toBe('127.0.0.1');
});
