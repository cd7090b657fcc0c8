/**
 * Writes screenshots of every page of the Admin Console to dist/screenshots: light, dark, and 320
 * pixels wide. Starts the demo, and adds transfers and a webhook whose receiver does not respond.
 * Also writes the picture of the README, docs/console.png.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { startChromium } from '../test/support/console/chromium.ts';
import { openPage, signIn } from '../test/support/console/pages.ts';

const ROOT = join(import.meta.dirname, '..');
const FOLDER = join(ROOT, 'dist', 'screenshots');
const README_PICTURE = join(ROOT, 'docs', 'console.png');
/** Makes the delivery to the webhook fail soon. */
const SETTINGS = {
  WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
  WAYBILL_WEBHOOK_RETRY_DELAYS: '100ms',
};
const LOOKS = { light: [1440, 'light'], dark: [1440, 'dark'], narrow: [320, 'light'] } as const;

/** Files that a hospital sends to a bank, or the bank to it. The last one is missing. */
const FILES: [from: string, to: string, name: string, kib: number][] = [
  ['hospital', 'bank', 'insurance-claims-2026-11.csv', 1_240],
  ['hospital', 'bank', 'discharge-letters-4471.zip', 6_410],
  ['bank', 'hospital', 'payments-0881.xml', 86],
  ['hospital', 'bank', 'lab-invoices-0417.csv', 312],
  ['bank', 'hospital', 'account-statement-11.pdf', 2_048],
  ['hospital', 'bank', 'pharmacy-orders.xml', 57],
  ['bank', 'hospital', 'remittance-advice-0882.xml', 0],
];

const dataDir = mkdtempSync(join(tmpdir(), 'waybill-screenshots-'));
const demo = spawn(join(ROOT, 'bin', 'waybill'), ['dev'], {
  env: { ...process.env, ...SETTINGS, WAYBILL_DATA_DIR: dataDir, WAYBILL_PORT: '0' },
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
  mkdirSync(FOLDER, { recursive: true });
  await inAllLooks(url, key, async (shoot) => {
    await shoot('home-quiet', '/console');
    await shoot('first-steps', '/console/transfers');
  });
  await photographForReadme(url, key);
  const ids = {
    ...(await provideTransfers(url, key)),
    ...(await provideWebhook(url, key)),
    ...(await provideBatches(url, key)),
    flow: await provideFlow(url, key),
    endpoint: await findEndpoint(url, key),
  };
  const pages = {
    home: '/console',
    transfers: '/console/transfers',
    'no-transfer': '/console/transfers?status=pending',
    'transfer-completed': `/console/transfers/${ids.completed}`,
    'transfer-past-state': `/console/transfers/${ids.completed}?as_of=1`,
    'transfer-failed': `/console/transfers/${ids.failed}`,
    receipt: `/console/transfers/${ids.completed}/receipt`,
    'new-transfer': '/console/transfers/new',
    endpoints: '/console/settings/endpoints',
    endpoint: `/console/settings/endpoints/${ids.endpoint}`,
    'edit-endpoint': `/console/settings/endpoints/${ids.endpoint}/edit`,
    'new-endpoint': '/console/settings/endpoints/new',
    'api-keys': '/console/settings/api-keys',
    batches: '/console/batches',
    batch: `/console/batches/${ids.batch}`,
    'batch-with-failures': `/console/batches/${ids.failedBatch}`,
    flows: '/console/flows',
    flow: `/console/flows/${ids.flow}`,
    webhooks: '/console/webhooks',
    webhook: `/console/webhooks/${ids.webhook}`,
    delivery: `/console/webhooks/${ids.webhook}/deliveries/${ids.delivery}`,
    'failed-deliveries': '/console/webhooks/failed-deliveries',
    operations: '/console/operations',
    audit: '/console/audit',
    checkpoints: '/console/checkpoints',
    'not-found': '/console/transfers/txr_none',
  };
  await inAllLooks(url, key, async (shoot, page, look) => {
    // Without a checkpoint, the receipt would have to wait.
    await page.goto(pages.checkpoints);
    await page.getByRole('button', { name: 'Sign now' }).click();
    await page
      .getByText(/^The last checkpoint covers/)
      .first()
      .waitFor();
    for (const [name, path] of Object.entries(pages)) await shoot(name, path);
    for (const [name, path, button] of [
      ['new-api-key', '/console/settings/api-keys', 'Create key'],
      ['new-webhook', '/console/webhooks', 'New webhook'],
      ['new-batch', '/console/batches', 'New batch'],
      ['new-flow', '/console/flows', 'New flow'],
      ['dry-run', `/console/flows/${ids.flow}`, 'Dry run'],
      ['file-picker', '/console/transfers/new', 'Browse'],
      ['endpoint-tested', `/console/settings/endpoints/${ids.endpoint}`, 'Test'],
    ] as const) {
      await page.goto(path);
      if (name === 'file-picker')
        await page.getByLabel('Endpoint').first().selectOption('hospital (SFTP)');
      await page.getByRole('button', { name: button }).first().click();
      await shoot(name);
    }
    const moving = await create(
      url,
      key,
      'sftp://hospital/outbox/invoices.zip',
      `sftp://bank/inbox/${look}.zip`,
    );
    await shoot('transfer-in-progress', `/console/transfers/${moving}`);
  });
  process.stdout.write(`${FOLDER}\n`);
}

/** Takes a picture of the page as it is, or of the one at `path`. */
type Shoot = (name: string, path?: string) => Promise<void>;

async function inAllLooks(
  url: string,
  key: string,
  visit: (shoot: Shoot, page: Page, look: string) => Promise<void>,
): Promise<void> {
  for (const [look, [width, colorScheme]] of Object.entries(LOOKS)) {
    const { page, complaints, close } = await openPage(
      chromium.browser,
      { url },
      '/console/sign-in',
      { viewport: { width, height: 800 }, colorScheme },
    );
    await page.screenshot({ path: join(FOLDER, `sign-in-${look}.png`), fullPage: true });
    await signIn(page, key);
    await visit(
      async (name, path) => {
        if (path !== undefined) await page.goto(path);
        // Live pages are never idle. Their first data has arrived by then.
        await page.waitForTimeout(path === undefined ? 3_000 : 1_500);
        await page.screenshot({ path: join(FOLDER, `${name}-${look}.png`), fullPage: true });
      },
      page,
      look,
    );
    await close();
    for (const complaint of complaints) process.stderr.write(`${look}: ${complaint}\n`);
  }
}

/** Takes the picture of the README: the list of transfers, with some that move. */
async function photographForReadme(url: string, key: string): Promise<void> {
  for (const [from, to, name, kib] of FILES) {
    const outbox = join(dataDir, 'demo', from, 'outbox');
    mkdirSync(outbox, { recursive: true });
    if (kib > 0) writeFileSync(join(outbox, name), randomBytes(kib * 1_024));
    const id = await create(url, key, `sftp://${from}/outbox/${name}`, `sftp://${to}/inbox/`);
    await untilEnded(url, key, `/v1/transfers/${id}`, ['completed', 'failed']);
  }
  for (const name of ['invoices-october.zip', 'invoices-november.zip'])
    await create(url, key, 'sftp://hospital/outbox/invoices.zip', `sftp://bank/inbox/${name}`);
  const { page, close } = await openPage(
    chromium.browser,
    { url },
    '/console/transfers',
    { viewport: { width: 1440, height: 800 }, colorScheme: 'light' },
    key,
  );
  await page.getByRole('row').getByText('In progress').first().waitFor();
  // The speed of the first second says little.
  await page.waitForTimeout(4_000);
  await page.screenshot({ path: README_PICTURE });
  await close();
}

async function provideTransfers(
  url: string,
  key: string,
): Promise<{ completed: string; failed: string }> {
  const completed = await create(
    url,
    key,
    'sftp://hospital/outbox/invoices.zip',
    'sftp://bank/inbox/invoices-2.zip',
  );
  const failed = await create(
    url,
    key,
    'sftp://hospital/outbox/forgotten.zip',
    'sftp://bank/inbox/',
  );
  for (const id of [completed, failed])
    await untilEnded(url, key, `/v1/transfers/${id}`, ['completed', 'failed']);
  return { completed, failed };
}

/** Creates a webhook at a closed port, with a failed delivery. */
async function provideWebhook(
  url: string,
  key: string,
): Promise<{ webhook: string; delivery: string }> {
  const body = JSON.stringify({
    url: 'http://127.0.0.1:9/waybill',
    events: ['transfer.completed', 'transfer.failed'],
  });
  const { id: webhook } = await ask(url, key, '/v1/webhooks', { method: 'POST', body });
  const { id: delivery } = await ask(url, key, `/v1/webhooks/${webhook}/ping`, { method: 'POST' });
  await untilEnded(url, key, `/v1/deliveries/${delivery}`, ['failed']);
  return { webhook: webhook as string, delivery: delivery as string };
}

async function provideBatches(
  url: string,
  key: string,
): Promise<{ batch: string; failedBatch: string }> {
  const item = (name: string) => ({
    source_uri: `sftp://hospital/outbox/${name}`,
    destination_uri: 'sftp://bank/inbox/',
  });
  const createBatch = async (...names: string[]) => {
    const body = JSON.stringify({ items: names.map(item) });
    return (await ask(url, key, '/v1/batches', { method: 'POST', body })).id as string;
  };
  const batch = await createBatch('invoices.zip');
  const failedBatch = await createBatch('invoices.zip', 'forgotten.zip', 'lost.zip');
  for (const id of [batch, failedBatch])
    await untilEnded(url, key, `/v1/batches/${id}`, ['completed', 'completed_with_failures']);
  return { batch, failedBatch };
}

async function provideFlow(url: string, key: string): Promise<string> {
  const body = JSON.stringify({
    name: 'invoices',
    source: { uri: 'sftp://hospital/outbox/', pattern: '*.zip' },
    ready: { unchanged_for: '1s' },
    trigger: { every: '1h' },
    destination_uri: 'sftp://bank/inbox/{date:yyyy-MM-dd}/{path}',
  });
  const { id } = await ask(url, key, '/v1/flows', { method: 'POST', body });
  await ask(url, key, `/v1/flows/${id}/runs`, { method: 'POST', body: '{}' });
  return id as string;
}

async function findEndpoint(url: string, key: string): Promise<string> {
  const { data } = await ask(url, key, '/v1/endpoints');
  return (data as { id: string }[])[0]?.id as string;
}

async function untilEnded(url: string, key: string, path: string, ends: string[]): Promise<void> {
  while (!ends.includes((await ask(url, key, path)).status as string))
    await new Promise((resolve) => setTimeout(resolve, 500));
}

async function create(
  url: string,
  key: string,
  source_uri: string,
  destination_uri: string,
): Promise<string> {
  const body = JSON.stringify({ source_uri, destination_uri, metadata: { order: '4711' } });
  return (await ask(url, key, '/v1/transfers', { method: 'POST', body })).id as string;
}

async function ask(
  url: string,
  key: string,
  path: string,
  init: RequestInit = {},
): Promise<Record<string, unknown>> {
  const headers = {
    authorization: `Bearer ${key}`,
    ...(init.body && { 'content-type': 'application/json' }),
  };
  return (await fetch(url + path, { ...init, headers })).json() as Promise<Record<string, unknown>>;
}
