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
import { LONG } from '../support/run/long.ts';
import { configureEndpoint } from '../support/service/installation.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('flows in the console', () => {
  const console = useConsole();
  let shelf: Shelf;

  beforeAll(async () => {
    shelf = await startShelf();
    const { root } = shelf;
    mkdirSync(join(root, 'out'));
    for (const name of ['a.csv', 'b.csv', 'b.csv.done'])
      writeFileSync(join(root, 'out', name), name);
    await configureEndpoint(console.installation, shelf.endpoint);
  });
  afterAll(() => shelf?.stop());

  test('a flow is created, rehearsed, run, paused and deleted', async () => {
    const page = await console.visitSignedIn('/console/flows');
    await page.getByRole('heading', { name: 'No flows yet' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'New flow' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: true }).fill('orders');
    // Blanks around a URI come with it from a document.
    await dialog.getByLabel('Source folder').fill(' sftp://shelf/out ');
    await dialog.getByLabel('Destination').fill('sftp://shelf/in/{file}');
    await dialog.getByLabel('Runs').selectOption('On request only');
    await dialog.getByLabel('A file is ready').selectOption('when a marker file is beside it');
    await dialog.getByLabel('Source file').selectOption('Move to a folder');
    await dialog.getByLabel('Move it to').fill('/taken');
    await dialog.getByRole('button', { name: 'Create flow' }).click();
    await dialog.getByText('unknown placeholder {file}').waitFor();
    await dialog.getByText('must not start with a slash').waitFor();
    console.pardon(400);
    await expectAccessible(page);
    await dialog.getByLabel('Destination').fill(' sftp://shelf/in/{flow}/ ');
    await dialog.getByLabel('Move it to').fill('taken');
    await dialog.getByRole('button', { name: 'Create flow' }).click();

    await page.getByRole('heading', { level: 1, name: 'orders' }).waitFor();
    await page.goBack();
    const search = page.getByRole('searchbox', { name: 'Search' });
    await search.fill('ORD shelf/out');
    await search.press('Enter');
    await eventually(() => page.url()).toContain('?q=ORD+shelf%2Fout');
    const found = page.getByRole('row').getByRole('link', { name: 'orders' });
    await found.waitFor();
    await search.fill('invoices');
    await search.press('Enter');
    await page.getByRole('heading', { name: 'No flows match' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Show all flows' }).click();
    await found.click();
    await page.getByRole('heading', { level: 1, name: 'orders' }).waitFor();
    await page.getByRole('button', { name: 'Dry run' }).click();
    await page.getByRole('status').getByText('A run would take 1 file').waitFor();
    const dry = page.getByRole('table', { name: 'Files of the dry run' });
    await dry.getByRole('row', { name: /^a\.csv .*Wait .*Waits for its \.done file/ }).waitFor();
    await dry.getByRole('row', { name: /^b\.csv to sftp:\/\/shelf\/in\/orders\/b\.csv/ }).waitFor();
    await expectAccessible(page);

    await page.getByRole('button', { name: 'Run now' }).click();
    const runs = page.getByRole('table', { name: 'Recent runs' });
    await runs.getByText('Completed').waitFor();
    const files = page.getByRole('table', { name: 'Files, newest first' });
    await files.getByRole('link', { name: 'sftp://shelf/out/b.csv' }).waitFor();
    await expectAccessible(page);
    const address = page.url();
    await runs.getByRole('link').click();
    await page.getByText('1 of 1 file ended').waitFor();
    await page.getByText('Move the source to taken/').waitFor();
    await page.getByRole('main').getByRole('link', { name: 'orders', exact: true }).waitFor();
    // Without a load of the page, which would ask for the names of flows again.
    const navigation = page.getByRole('navigation', { name: 'Console' });
    await navigation.getByRole('link', { name: 'Batches', exact: true }).click();
    await page.getByRole('link', { name: 'Run of orders, 1 file' }).waitFor();
    await page.goto(address);
    await page.getByText('Move the source to taken/').waitFor();

    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.locator('.subtitle').getByText('Paused').waitFor();
    await page.getByRole('status').getByText('Flow paused').waitFor();
    await page.goto('/console/flows');
    const row = page.getByRole('table', { name: 'Flows, newest first' }).getByRole('row').nth(1);
    await row.getByText('Paused').waitFor();
    await row.getByText(/^Completed, 1 file,/).waitFor({ state: 'attached' });
    await expectAccessible(page);

    await page.setViewportSize({ width: 320, height: 700 });
    await page.emulateMedia({ colorScheme: 'dark' });
    await expectNoSidewaysScroll(page);
    await page.goto(address);
    await page.getByRole('table', { name: 'Recent runs' }).waitFor();
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('heading', { name: 'No flows yet' }).waitFor();
    await eventually(() => page.url().endsWith('/console/flows')).toBe(true);
    console.pardonPolls(404);
  });

  test('a run that is due is said to be due, not to come at a time in the past', LONG, async () => {
    const page = await console.visitSignedIn('/console/flows');
    await page.getByRole('heading', { name: 'No flows yet' }).waitFor();
    const id = await page.evaluate(`fetch('/v1/flows', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        name: 'due',
        source: { uri: 'sftp://shelf/out/', pattern: '*.exe' },
        ready: { unchanged_for: '1h' },
        trigger: null,
        destination_uri: 'sftp://shelf/in/',
      }),
    }).then((answer) => answer.json()).then(({ id }) => id)`);
    let outlook = {};
    await page.route('**/v1/flows**', async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      Object.assign(answer.data?.[0] ?? answer, outlook);
      await route.fulfill({ response, json: answer });
    });
    const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
    const row = page.getByRole('row').filter({ hasText: 'due' });
    const fact = page.locator('.facts > div').filter({ hasText: 'Next run' });
    for (const [next_run_at, delayed_by, shown] of [
      [ago(1), null, /Now$/],
      [ago(1), 'run_01M7Z45R4GQ3RTZJDY6GQSWBW9', /When the open run ends$/],
      [ago(20), null, /Due since .*20 minutes ago$/],
      [ago(-20), null, /Next run\s+\d{4}-.*in 19 minutes$/],
    ] as const) {
      outlook = { next_run_at, delayed_by };
      await page.goto('/console/flows');
      const cell = row.getByRole('cell').nth(3);
      await eventually(async () =>
        `Next run ${await cell.innerText()}`.replace(/\s+/g, ' '),
      ).toMatch(shown);
      await page.goto(`/console/flows/${id}`);
      await eventually(async () => (await fact.innerText()).replace(/\s+/g, ' ')).toMatch(shown);
    }
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    // Reordered, its name would end in `exe.pdf`.
    writeFileSync(join(shelf.root, 'out', 'bill\u202efdp.exe'), 'x');
    await page.getByRole('button', { name: 'Dry run' }).click();
    const dry = page.getByRole('table', { name: 'Files of the dry run' });
    await dry.getByRole('rowheader').getByText('bill%E2%80%AEfdp.exe').waitFor();
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('heading', { name: 'No flows yet' }).waitFor();
    console.pardonPolls(404);
  });

  test('a flow whose folder is gone needs attention', LONG, async () => {
    const page = await console.visitSignedIn('/console/flows');
    await page.getByRole('button', { name: 'New flow' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: true }).fill('gone');
    await dialog.getByLabel('Source folder').fill('sftp://shelf/gone/');
    await dialog.getByLabel('Destination').fill('sftp://shelf/in/');
    await dialog.getByRole('button', { name: 'Create flow' }).click();
    await page.getByRole('alert').filter({ hasText: 'source_not_found' }).waitFor();
    const notice = page.locator('.notice.danger');
    await notice.getByText('Create the folder').waitFor();
    await notice.getByRole('link', { name: 'shelf' }).waitFor();
    await page.getByRole('link', { name: 'Home', exact: true }).click();
    const finding = page.locator('.notice').filter({ hasText: '1 flow cannot list its folder' });
    await finding.getByText('first failed').waitFor();
    const flows = page.getByRole('link', { name: 'Flows', exact: true });
    const counts = page.locator(`#${await flows.getAttribute('aria-describedby')}`);
    expect(await counts.locator('.visually-hidden').innerText()).toBe('1 failing');
    await expectAccessible(page);
    // The data of a page come late, and leave the focus where it is meanwhile.
    const late = Promise.withResolvers<void>();
    await page.route('**/v1/flows/flo_*', async (route) => {
      await late.promise;
      await route.continue();
    });
    await finding.getByRole('link', { name: 'gone' }).click();
    await page.getByRole('status').filter({ hasText: 'Loading' }).waitFor();
    const zone = page.getByLabel('Time zone');
    await zone.focus();
    late.resolve();
    await page.getByRole('heading', { level: 1, name: 'gone' }).waitFor();
    expect(await zone.and(page.locator(':focus')).count()).toBe(1);
  });
});
