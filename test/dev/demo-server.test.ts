import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import SftpClient from 'ssh2-sftp-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type DemoServer,
  fingerprintOf,
  newHostKey,
  startDemoServer,
} from '../../src/dev/sftp-server.ts';

const hostKey = newHostKey();
let home: string;
let root: string;
let server: DemoServer;
const clients: SftpClient[] = [];

async function signIn(password = 'right'): Promise<SftpClient> {
  const client = new SftpClient();
  clients.push(client);
  client.on('error', () => undefined);
  await client.connect({ host: '127.0.0.1', port: server.port, username: 'demo', password });
  return client;
}

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'waybill-demo-server-'));
  root = join(home, 'root');
  server = await startDemoServer({ root, port: 0, hostKey, username: 'demo', password: 'right' });
});

afterAll(async () => {
  await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  await server.close();
  await rm(home, { recursive: true });
});

describe('the demo SFTP server', () => {
  it('moves bytes in both directions', async () => {
    const client = await signIn();
    const bytes = randomBytes(3 * 1024 * 1024 + 17);
    await writeFile(join(root, 'out.bin'), bytes);
    expect(bytes.equals((await client.get('/out.bin')) as Buffer)).toBe(true);
    await client.put(bytes, '/in.bin');
    expect(bytes.equals(await readFile(join(root, 'in.bin')))).toBe(true);
  });

  it('moves an empty file', async () => {
    const client = await signIn();
    await client.put(Buffer.alloc(0), '/empty.bin');
    expect(((await client.get('/empty.bin')) as Buffer).length).toBe(0);
  });

  it('lists, creates, renames and removes', async () => {
    const client = await signIn();
    await client.mkdir('/a/b', true);
    await client.put(Buffer.from('1'), '/a/b/Zoë & co.txt');
    expect(await client.list('/a/b')).toMatchObject([{ name: 'Zoë & co.txt', type: '-', size: 1 }]);
    await client.rename('/a/b/Zoë & co.txt', '/a/c.txt');
    expect(await client.exists('/a/c.txt')).toBe('-');
    await client.delete('/a/c.txt');
    await client.rmdir('/a', true);
    expect(await client.exists('/a')).toBe(false);
  });

  it('lists more names than fit into one answer', async () => {
    const client = await signIn();
    await mkdir(join(root, 'many'));
    await Promise.all(
      Array.from({ length: 300 }, (_, i) => writeFile(join(root, 'many', `${i}`), '')),
    );
    expect(await client.list('/many')).toHaveLength(300);
  });

  it('rejects a rename over an existing file', async () => {
    const client = await signIn();
    await client.put(Buffer.from('old'), '/old.txt');
    await client.put(Buffer.from('new'), '/new.txt');
    await expect(client.rename('/new.txt', '/old.txt')).rejects.toThrow();
    expect(await readFile(join(root, 'old.txt'), 'utf8')).toBe('old');
  });

  it('distinguishes a missing file from other errors', async () => {
    const client = await signIn();
    await expect(client.get('/nothing.here')).rejects.toThrow(/no such file/i);
  });

  it('answers as OpenSSH does if a name is too long', async () => {
    const client = await signIn();
    await expect(client.get(`/${'a'.repeat(300)}`)).rejects.toThrow(/bad message/i);
  });

  it('shows nothing outside its root', async () => {
    const client = await signIn();
    await writeFile(join(home, 'secret'), 'secret');
    await symlink(home, join(root, 'link'));
    for (const path of ['/../secret', '/../../../../../../etc/passwd', '/link/secret', '/link']) {
      await expect(client.get(path), path).rejects.toThrow();
    }
    expect(await client.realPath('/../..')).toBe('/');
  });

  it('rejects a wrong password', async () => {
    await expect(signIn('wrong')).rejects.toThrow(/authentication/i);
  });

  it('shows the host key of its fingerprint', async () => {
    const client = new SftpClient();
    clients.push(client);
    client.on('error', () => undefined);
    let seen = '';
    await client.connect({
      ...{
        host: '127.0.0.1',
        port: server.port,
        username: 'demo',
        password: 'right',
        hostHash: 'sha256',
      },
      hostVerifier: (hash: string) => {
        seen = hash;
        return true;
      },
    });
    const fingerprint = Buffer.from(seen, 'hex').toString('base64').replace(/=+$/, '');
    expect(`SHA256:${fingerprint}`).toBe(fingerprintOf(hostKey));
  });
});
