import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectNoSidewaysScroll,
} from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { type Shelf, startShelf } from '../support/file-servers/sftp/shelf.ts';
import { freePort } from '../support/network/free-port.ts';
import { configureEndpoint } from '../support/service/installation.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const NARROW = { viewport: { width: 320, height: 700 }, colorScheme: 'dark' } as const;

await describeConsole('batches in the console', () => {
  const console = useConsole();
  let shelf: Shelf;

  beforeAll(async () => {
    shelf = await startShelf();
    const { root } = shelf;
    mkdirSync(join(root, 'out/sub'), { recursive: true });
    // A folder has the name of a file, so that file fails.
    mkdirSync(join(root, 'in/taken.csv'), { recursive: true });
    for (const name of ['a.csv', 'taken.csv', 'sub/b.csv', 'c\\d.csv', 'e.tmp'])
      writeFileSync(join(root, 'out', name), name);
    await configureEndpoint(console.installation, shelf.endpoint);
  });
  afterAll(() => shelf?.stop());

  test('a folder is copied, its failures come first, and they are retried', async () => {
    const page = await console.visitSignedIn('/console/batches');
    await page.getByRole('heading', { name: 'No batches yet' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'New batch' }).click();
    const dialog = page.getByRole('dialog');
    // Blanks around a URI come with it from a document.
    await dialog.getByLabel('Source folder').fill(' sftp://shelf/out/ ');
    await dialog.getByLabel('Destination folder').fill('sftp://shelf/in');
    await dialog.getByLabel('Files', { exact: true }).fill('*.csv');
    await dialog.getByLabel('Files of subfolders too').check();
    const exclude = dialog.getByLabel('Leave out');
    await exclude.fill('[');
    await dialog.getByRole('button', { name: 'Create batch' }).click();
    await dialog.getByText('must end in a slash').waitFor();
    console.pardon(400);
    await eventually(() => exclude.getAttribute('aria-invalid')).toBe('true');
    await expectAccessible(page);
    await exclude.fill('');
    await dialog.getByLabel('Destination folder').fill(' sftp://shelf/in/ ');
    await dialog.getByRole('button', { name: 'Create batch' }).click();

    await page.getByRole('heading', { level: 1, name: 'sftp://shelf/out/' }).waitFor();
    await page.getByText('Completed with failures').waitFor();
    await page.getByText('4 of 4 files ended, 2 failed').waitFor();
    const failed = page.getByRole('table', { name: 'Failed transfers' });
    await failed.getByRole('link', { name: 'taken.csv' }).waitFor();
    await failed.getByText('Destination file exists').waitFor();
    const rejected = page.getByRole('table', { name: 'Rejected items' });
    await rejected.getByText('must not contain a backslash').waitFor();
    // What failed is above everything that did not.
    const headings = await page.getByRole('heading', { level: 2 }).allInnerTexts();
    expect(headings).toEqual(['Failed', 'Rejected', 'Files', 'Details']);
    await expectAccessible(page);

    const address = page.url();
    await page.locator('.tiles').getByRole('link', { name: 'Completed' }).click();
    await page.getByText('Of the batch').waitFor();
    await eventually(() => page.getByRole('link', { name: /^(a|b)\.csv$/ }).count()).toBe(2);
    await page.getByRole('link', { name: 'a.csv' }).click();
    const batch = page.locator('.facts div').filter({ hasText: 'Batch' }).getByRole('link');
    await batch.click();
    await eventually(() => page.url()).toBe(address);

    await page.getByRole('button', { name: 'Retry failed' }).click();
    await page.getByRole('heading', { level: 1, name: 'Retry of' }).waitFor();
    await page.getByRole('link', { name: address.split('/').at(-1) as string }).waitFor();
    await page.getByText('Completed with failures').waitFor();

    await page.goto('/console/batches');
    const rows = page.getByRole('table', { name: 'Batches, newest first' }).getByRole('row');
    await eventually(() => rows.count()).toBe(3);
    // The bar of an ended batch tells one that failed from one that did not.
    const shares = rows.last().locator('.shares title').allTextContents();
    expect(await shares).toEqual(['Completed: 2', 'Failed: 2']);
    await expectAccessible(page);
  });

  test('many failures are counted by reason, and each reason leads to its files', async () => {
    const destination_uri = 'sftp://shelf/in/';
    const items = [
      ...Array.from({ length: 103 }, (_, file) => `sftp://nowhere/${file}.csv`),
      ...['x.csv', 'y.csv'].map((name) => `sftp://shelf/out/gone/${name}`),
    ].map((source_uri) => ({ source_uri, destination_uri }));
    const answer = await fetch(`${console.url}/v1/batches`, {
      method: 'POST',
      headers: { authorization: `Bearer ${console.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ items }),
    });
    const { id } = (await answer.json()) as { id: string };
    const page = await console.visitSignedIn(`/console/batches/${id}`);
    await page.getByText('105 of 105 files ended, 105 failed').waitFor();
    const reasons = page.getByRole('table', { name: 'Reasons of these failures' }).locator('tbody');
    await eventually(() => reasons.getByRole('row').allInnerTexts()).toEqual([
      expect.stringMatching(/^No endpoint for the source\s+103\s+Configure an endpoint/),
      expect.stringMatching(/^Source file not found\s+2\s+Check the path/),
    ]);
    const newest = page.getByRole('table', { name: 'Newest failed transfers' }).locator('tbody');
    expect(await newest.getByRole('row').count()).toBe(10);
    await expectAccessible(page);
    await page.setViewportSize({ width: 320, height: 700 });
    await expectNoSidewaysScroll(page);
    await reasons.getByRole('link', { name: 'Source file not found' }).click();
    const files = async () => (await page.locator('.file').allInnerTexts()).sort();
    await eventually(files).toEqual(['x.csv', 'y.csv']);
  });

  test('a batch says why its folder cannot be listed', async () => {
    const gone = { ...shelf.endpoint, name: 'void', port: await freePort() };
    await configureEndpoint(console.installation, gone);
    const answer = await fetch(`${console.url}/v1/batches`, {
      method: 'POST',
      headers: { authorization: `Bearer ${console.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ source_uri: 'sftp://void/a/', destination_uri: 'sftp://shelf/in/' }),
    });
    const { id } = (await answer.json()) as { id: string };
    const page = await console.visitSignedIn(`/console/batches/${id}`);
    await page.getByRole('heading', { name: 'Its folder cannot be listed' }).waitFor();
    await page.getByRole('alert').getByText('connection_failed').waitFor();
    await page.getByText('Waybill tries it again').waitFor();
    await expectAccessible(page);
    await page.goto('/console/batches');
    const row = page.getByRole('row').filter({ hasText: 'sftp://void/a/' });
    await row.getByText('Cannot list its folder').waitFor();
    await row.getByText('refused').waitFor();
  });

  test('a batch that waits is cancelled', async () => {
    const { sql } = console.installation;
    const api = (method: string, path: string, body?: object) =>
      fetch(console.url + path, {
        method,
        headers: {
          authorization: `Bearer ${console.key}`,
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
      }).then((answer) => answer.json() as Promise<{ id: string; data: { id: string }[] }>);
    const endpoints = await api('GET', '/v1/endpoints');
    await api('POST', `/v1/endpoints/${endpoints.data[0]?.id}/pause`);
    const items = [
      { source_uri: 'sftp://shelf/out/a.csv', destination_uri: 'sftp://shelf/cancelled/' },
    ];
    const created = await api('POST', '/v1/batches', { items });
    const page = await console.visitSignedIn(`/console/batches/${created.id}`, NARROW);
    await page.locator('.subtitle').getByText('Open').waitFor();
    await page.getByText('The endpoint shelf is paused').waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Cancel batch' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel batch' }).click();
    await page.getByText('1 transfer cancelled').waitFor();
    await page.locator('.subtitle').getByText('Cancelled').waitFor();
    await eventually(async () => {
      const [row] = await sql`select ended from read.batches where batch_id = ${created.id}`;
      return row?.ended;
    }).toBe(true);
    await page.goto('/console/batches');
    await page.getByRole('link', { name: 'Batch of 1 file', exact: true }).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
  });
});
