/**
 * Takes a picture of every page of the Admin Console, in light, in dark and 320 pixels wide, of the demo with some more transfers.
 * Writes them to dist/screenshots.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChromium } from '../test/support/chromium.ts';
import { openPage, signIn } from '../test/support/console-pages.ts';

const ROOT = join(import.meta.dirname, '..');
const FOLDER = join(ROOT, 'dist', 'screenshots');
const LOOKS = { light: [1280, 'light'], dark: [1280, 'dark'], narrow: [320, 'light'] } as const;

const dataDir = mkdtempSync(join(tmpdir(), 'waybill-screenshots-'));
const demo = spawn(join(ROOT, 'bin', 'waybill'), ['dev'], {
  env: { ...process.env, WAYBILL_DATA_DIR: dataDir, WAYBILL_PORT: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
});
const chromium = await startChromium();
try {
  let printed = '';
  for await (const text of demo.stdout) {
    printed += text;
    if (printed.includes('Ctrl-C')) break;
  }
  const fact = (name: string) => new RegExp(`^${name} +(\\S+)$`, 'm').exec(printed)?.[1] ?? '';
  await photograph(fact('Base URL').replace(/\/v1$/, ''), fact('Console key'));
} finally {
  await chromium.close();
  demo.kill('SIGTERM');
  await once(demo, 'exit');
  rmSync(dataDir, { recursive: true });
}

async function photograph(url: string, key: string): Promise<void> {
  const ids = await provideTransfers(url, key);
  const pages = {
    transfers: '/console/transfers',
    'no-transfer': '/console/transfers?status=pending',
    'transfer-completed': `/console/transfers/${ids.completed}`,
    'transfer-as-it-was': `/console/transfers/${ids.completed}?as_of=1`,
    'transfer-failed': `/console/transfers/${ids.failed}`,
    'new-transfer': '/console/transfers/new',
    endpoints: '/console/settings/endpoints',
    'api-keys': '/console/settings/api-keys',
    webhooks: '/console/webhooks',
    'failed-deliveries': '/console/webhooks/failed-deliveries',
    operations: '/console/operations',
  };
  mkdirSync(FOLDER, { recursive: true });
  for (const [look, [width, colorScheme]] of Object.entries(LOOKS)) {
    const options = { viewport: { width, height: 800 }, colorScheme };
    const { page, complaints, close } = await openPage(chromium.browser, { url }, '/console/sign-in', options);
    await page.screenshot({ path: join(FOLDER, `sign-in-${look}.png`), fullPage: true });
    await signIn(page, key);
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(path);
      // Pages that follow what happens are never idle: what they load at first has come by then.
      await page.waitForTimeout(1_500);
      await page.screenshot({ path: join(FOLDER, `${name}-${look}.png`), fullPage: true });
    }
    const moving = await create(url, key, 'sftp://hospital/outbox/invoices.zip', `sftp://bank/inbox/${look}.zip`);
    await page.goto(`/console/transfers/${moving}`);
    await page.waitForTimeout(3_000);
    await page.screenshot({ path: join(FOLDER, `transfer-in-progress-${look}.png`), fullPage: true });
    await close();
    for (const complaint of complaints) process.stderr.write(`${look}: ${complaint}\n`);
  }
  process.stdout.write(`${FOLDER}\n`);
}

async function provideTransfers(url: string, key: string): Promise<{ completed: string; failed: string }> {
  const completed = await create(url, key, 'sftp://hospital/outbox/invoices.zip', 'sftp://bank/inbox/invoices-2.zip');
  const failed = await create(url, key, 'sftp://hospital/outbox/forgotten.zip', 'sftp://bank/inbox/');
  for (const id of [completed, failed]) {
    while (!['completed', 'failed'].includes((await ask(url, key, `/v1/transfers/${id}`)).status as string)) {
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
  return { completed, failed };
}

async function create(url: string, key: string, source_uri: string, destination_uri: string): Promise<string> {
  const body = JSON.stringify({ source_uri, destination_uri, metadata: { order: '4711' } });
  return (await ask(url, key, '/v1/transfers', { method: 'POST', body })).id as string;
}

async function ask(url: string, key: string, path: string, init: RequestInit = {}): Promise<Record<string, unknown>> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return (await fetch(url + path, { ...init, headers })).json() as Promise<Record<string, unknown>>;
}
