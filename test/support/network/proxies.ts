import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { debianPackages } from '../programs/debian.ts';
import { accepts, startProcess } from '../programs/server-process.ts';
import { freePort } from './free-port.ts';

/** Real proxies: tinyproxy for HTTP, microsocks for SOCKS5. */
const PROGRAMS = { http: '/usr/bin/tinyproxy', socks5: '/usr/bin/microsocks' } as const;
export type ProxyType = keyof typeof PROGRAMS;

export interface TestProxy {
  host: string;
  port: number;
  stop(): Promise<void>;
}

interface ProxyOptions {
  /** The user name and password that it asks for. Neither has a space. */
  account?: { username: string; password: string };
  /** The only port to which the HTTP proxy connects. */
  allowedPort?: number;
}

const packageOf = (type: ProxyType) => PROGRAMS[type].split('/').at(-1) as string;

/** Returns why the proxies cannot run here; null if they can. */
export async function whyNoProxies(): Promise<string | null> {
  for (const type of ['http', 'socks5'] as const) {
    const found = await debianPackages([packageOf(type)], [PROGRAMS[type]]);
    if (!found.available) return found.reason;
  }
  return null;
}

/** Starts a proxy on loopback. Throws if `whyNoProxies` returns a reason. */
export async function startProxy(
  type: ProxyType,
  { account, allowedPort }: ProxyOptions = {},
): Promise<TestProxy> {
  const programs = await debianPackages([packageOf(type)], [PROGRAMS[type]]);
  if (!programs.available) throw new Error(programs.reason);
  const home = mkdtempSync(join(tmpdir(), 'waybill-proxy-'));
  for (let attempt = 1; attempt <= 5; attempt++) {
    const port = await freePort();
    const file = join(home, 'tinyproxy.conf');
    const lines = [
      `Port ${port}`,
      'Listen 127.0.0.1',
      'Timeout 600',
      'MaxClients 100',
      `LogFile "${join(home, 'tinyproxy.log')}"`,
      ...(account ? [`BasicAuth ${account.username} ${account.password}`] : []),
      ...(allowedPort ? [`ConnectPort ${allowedPort}`] : []),
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    const signIn = account ? ['-u', account.username, '-P', account.password] : [];
    const args =
      type === 'http' ? ['-d', '-c', file] : ['-i', '127.0.0.1', '-p', `${port}`, ...signIn];
    const proxy = startProcess([programs.path(PROGRAMS[type]), ...args], { env: programs.env });
    // Another program may take the port.
    if (!(await proxy.ready(() => accepts(port)))) continue;
    return {
      host: '127.0.0.1',
      port,
      async stop() {
        await proxy.kill();
        rmSync(home, { recursive: true, force: true });
      },
    };
  }
  throw new Error(`${PROGRAMS[type]} does not start`);
}
