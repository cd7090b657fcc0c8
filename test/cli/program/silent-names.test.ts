import { execFile, execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const WAYBILL = fileURLToPath(new URL('../../../bin/waybill', import.meta.url));

/** Of the name server. Nothing else on this machine has the port of the DNS there. */
const ADDRESS = '127.53.85.49';
const PORT = 53;

/** Runs before the command, with the threads of the process. Prints the first name with an answer. */
const CLIENT = `
  import { lookup } from 'node:dns';
  const answered = (name) => { process.stdout.write(name); process.exit(); };
  for (let i = 0; i < 8; i++) lookup('silent' + i + '.example', () => answered('silent'));
  lookup('quick.example', () => answered('quick'));
  await new Promise(() => undefined);`;

/** Returns the answer to a query: the name is on this machine, and has no IPv6 address. */
function answerTo(query: Buffer): Buffer {
  const isIPv4 = query.readUInt16BE(query.indexOf('\0', 12) + 1) === 1;
  const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 127, 0, 0, 1]);
  const header = Buffer.from([0x81, 0x80, 0, 1, 0, isIPv4 ? 1 : 0, 0, 0, 0, 0]);
  const question = query.subarray(12, query.indexOf('\0', 12) + 5);
  return Buffer.concat([query.subarray(0, 2), header, question, ...(isIPv4 ? [answer] : [])]);
}

function whyNot(): string | null {
  if (process.getuid?.() !== 0) return 'the port of the DNS needs root';
  try {
    execFileSync('unshare', ['-m', 'true'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'unshare is missing or refused';
  }
}

const why = whyNot();

test.skipIf(why)(
  `a name is found while a name server is silent about others${why ? ` (skipped: ${why})` : ''}`,
  { timeout: 60_000 },
  async () => {
    const server = createSocket('udp4', (query, { port, address }) => {
      if (query.includes('quick')) server.send(answerTo(query), port, address);
    });
    onTestFinished(() => void server.close());
    server.bind(PORT, ADDRESS);
    await once(server, 'listening');
    const home = mkdtempSync(join(tmpdir(), 'waybill-names-'));
    onTestFinished(() => rmSync(home, { recursive: true }));
    const settings = join(home, 'resolv.conf');
    writeFileSync(settings, `nameserver ${ADDRESS}\n`);

    const code = encodeURIComponent(CLIENT);
    const mounted = `mount --bind ${settings} /etc/resolv.conf && exec ${WAYBILL} --version`;
    const { stdout } = await promisify(execFile)('unshare', ['-m', 'sh', '-c', mounted], {
      env: { ...process.env, NODE_OPTIONS: `--import=data:text/javascript,${code}` },
    });
    expect(stdout).toBe('quick');
  },
);
