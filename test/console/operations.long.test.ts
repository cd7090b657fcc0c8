import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { describeConsole, eventually, expectAccessible } from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { holdRows } from '../support/postgres/row-locks.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('operations in the console', () => {
  const console = useConsole();

  test('a rebuild is watched to its end, and verified', async () => {
    const { store, sql } = console.installation;
    for (let count = 0; count < 20; count++) await appendTransfer(store, ['cancelled']);
    const page = await console.visitSignedIn('/console/operations');
    const row = page.getByRole('row').filter({ has: page.getByText('transfers', { exact: true }) });
    await eventually(() => row.innerText()).toContain('None');
    await expectAccessible(page);

    // A reader of the live tables delays the switch to the new ones.
    const reader = await holdRows(sql, (tx) => tx`select from read.transfers limit 1`);
    await row.getByRole('button', { name: 'Rebuild transfers' }).click();
    await expectAccessible(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Rebuild' }).click();
    await page.getByRole('status').getByText('Rebuild of transfers requested').waitFor();
    const task = row.getByRole('status');
    await task.getByText('Rebuild running').waitFor();
    await eventually(() => row.getByRole('progressbar').getAttribute('value').then(Number)).toBe(
      100,
    );
    await eventually(() => row.innerText()).toContain('40 events');
    await expectAccessible(page);
    await reader.release();
    await task.getByText('Rebuild done').waitFor();
    expect(await task.innerText()).toContain('of transfers');
    expect(await row.innerText()).toContain('no differences');

    const [changed] = await sql<{ transfer_id: string }[]>`
      update read.transfers set destination = 'elsewhere'
       where transfer_id = (select min(transfer_id) from read.transfers) returning transfer_id`;
    await row.getByRole('button', { name: 'Verify transfers' }).click();
    await row.getByText('Verification done').waitFor();
    expect(await row.innerText()).toMatch(/1 difference\s/);
    expect(await row.innerText()).toContain('Keep a copy of both');
    expect(await row.innerText()).toContain(changed?.transfer_id);
    await expectAccessible(page);
  });

  test('movers, queue and graphs are shown, and a table of the figures', async () => {
    const page = await console.visitSignedIn('/console/operations?hours=1');
    await page.getByRole('heading', { name: 'Last hour' }).waitFor();
    await page.getByRole('table', { name: 'Movers, oldest first' }).getByText('0 of').waitFor();
    expect(
      await page.getByRole('table', { name: 'Queue by priority' }).getByRole('row').count(),
    ).toBe(4);
    expect(await page.getByRole('img').count()).toBe(4);
    await page.getByText('Show as table').click();
    const figures = page.getByRole('table', { name: 'Figures of the last hour, newest first' });
    await figures.waitFor();
    await expectAccessible(page);
    const from = figures.locator('time').first();
    const at = (await from.getAttribute('datetime')) as string;
    await page.getByLabel('Time zone').selectOption('utc');
    await eventually(() => from.innerText()).toBe(`${at.slice(0, 16).replace('T', ' ')} UTC`);
    const lastValue = page.getByLabel('Queue depth, last hour: value at a time');
    expect(await lastValue.getAttribute('aria-valuetext')).toMatch(/^\d\d:\d\d UTC: /);
    await page.getByLabel('Time range').selectOption('Last 7 days');
    await page.getByRole('heading', { name: 'Last 7 days' }).waitFor();
    expect(page.url()).toContain('hours=168');
  });

  test('large figures are as easy to read in the table as in the graphs', async () => {
    const page = await console.visitSignedIn('/console');
    await page.route('**/v1/operations/series?*', async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      answer.data = [{ ...answer.data.at(-1), created: 12_345, waiting: 1_234_567 }];
      await route.fulfill({ response, json: answer });
    });
    await page.goto('/console/operations?hours=1');
    await page.getByText('Show as table').click();
    const figures = page.getByRole('table', { name: 'Figures of the last hour, newest first' });
    await figures.getByRole('cell', { name: '12,345', exact: true }).waitFor();
    await figures.getByRole('cell', { name: '1,234,567', exact: true }).waitFor();
  });

  test('a task longer than one poll stays visible, with the reason of a failure', async () => {
    const page = await console.visitSignedIn('/console/settings/api-keys');
    let answering = true;
    await page.route('**/v1/movers', async (route) => {
      await sleep(3_000);
      if (answering) await route.continue();
      else
        await route.fulfill({
          status: 503,
          json: { title: 'Unavailable', detail: 'Postgres is away', code: 'unavailable' },
        });
    });
    await page.goto('/console/operations');
    await page.getByRole('table', { name: 'Movers, oldest first' }).waitFor();
    answering = false;
    await page.getByRole('alert').getByText('Postgres is away').waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await page.getByRole('alert').waitFor({ state: 'detached' });
    console.pardon(503);
  });
});
