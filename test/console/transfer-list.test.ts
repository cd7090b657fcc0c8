import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test, vi } from 'vitest';
import { pauseEndpoint } from '../../src/commands/endpoints.ts';
import { cancelTransfer } from '../../src/commands/transfers.ts';
import type { TransferList } from '../../src/contract/transfers/answers.ts';
import { newId } from '../../src/domain/ids.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectGoodLooks,
  expectNoSidewaysScroll,
  provideKey,
} from '../support/console/console.ts';
import { signIn } from '../support/console/pages.ts';
import { tabTo, useConsole } from '../support/console/use-console.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureEndpoint, submit } from '../support/service/installation.ts';
import { appendTransfer, type Step } from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const FAILED: Step[] = ['admitted', 'started', 'failed'];
const COMPLETED: Step[] = ['admitted', 'started', 'completed'];

await describeConsole('the list of transfers', () => {
  const console = useConsole();
  const list = (search: string) => `/console/transfers?q=${search}`;
  const files = (page: Page) => page.locator('.file').allInnerTexts();
  const parameter = (page: Page, name: string) => new URL(page.url()).searchParams.get(name);
  /** How many pixels of an element are out of sight at its side. */
  const beyond = (page: Page, selector: string) =>
    page.evaluate(`(() => {
      const { scrollWidth, clientWidth } = document.querySelector('${selector}');
      return scrollWidth - clientWidth;
    })()`) as Promise<number>;
  const box = (page: Page, file: string) => page.getByLabel(`Select ${file}`, { exact: true });

  beforeAll(async () => {
    const held = await configureEndpoint(console.installation, {
      name: 'held',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: 1,
      username: 'nobody',
      password: 'none',
    });
    await pauseEndpoint(console.installation.commands, held, CAUSE);
  });

  /** Appends a transfer that can be retried: it waits then at a paused endpoint. */
  async function append(folder: string, name: string, steps: Step[], created_at?: string) {
    const source_uri = `sftp://held/${folder}/${name}`;
    const destination_uri = `sftp://held/in/${name}`;
    const { transferId } = await appendTransfer(console.installation.store, steps, {
      file_name: name,
      source: source_uri,
      source_uri,
      destination: destination_uri,
      destination_uri,
      metadata: { customer: `${folder}-customer` },
      ...(created_at && { created_at }),
    });
    return transferId;
  }
  /** Waits until a search finds so many: it finds a transfer a moment after its creation. */
  const untilFound = (folder: string, transfers: number) =>
    eventually(async () => {
      const headers = { authorization: `Bearer ${console.key}` };
      const answer = await fetch(`${console.url}/v1/transfers?q=${folder}`, { headers });
      return ((await answer.json()) as TransferList).pagination?.total;
    }).toBe(transfers);
  const wait = (folder: string, name: string) =>
    submit(console.installation, `sftp://held/${folder}/${name}`, `sftp://held/in/${name}`);

  test('finds transfers, sorts them, and has the view in its address', async () => {
    const [, first] = await Promise.all([
      append('found', 'two.csv', COMPLETED, '2026-03-02T10:00:00.000Z'),
      append('found', 'one.csv', FAILED, '2026-03-01T10:00:00.000Z'),
      append('other', 'three.csv', FAILED),
    ]);
    await untilFound('found', 2);
    const page = await console.visitSignedIn('/console/transfers');
    const search = page.getByLabel('Search');
    await search.fill('FOUND-cust  .csv');
    await search.press('Enter');
    await eventually(() => files(page)).toEqual(['two.csv', 'one.csv']);
    expect(parameter(page, 'q')).toBe('FOUND-cust  .csv');
    await page.getByText('1–2 of 2').waitFor();
    await page.getByLabel('Order').selectOption('Oldest first');
    await eventually(() => files(page)).toEqual(['one.csv', 'two.csv']);
    await page.getByLabel('State').selectOption('Failed');
    await eventually(() => files(page)).toEqual(['one.csv']);
    await page.getByLabel('Rows per page').selectOption('25');
    await page.reload();
    await eventually(() => files(page)).toEqual(['one.csv']);
    expect(new URL(page.url()).search).toBe(
      '?q=FOUND-cust++.csv&status=failed&sort=created_at&limit=25',
    );

    await page.goto(`${list('found')}&destination=sftp%3A%2F%2Fheld%2Fin%2Ftwo`);
    await eventually(() => files(page)).toEqual(['two.csv']);
    await page.getByRole('link', { name: 'Show all destinations' }).click();
    await eventually(() => files(page)).toEqual(['two.csv', 'one.csv']);
    // The browser keeps the page size.
    expect(await page.getByLabel('Rows per page').inputValue()).toBe('25');

    await search.fill(first);
    await search.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'one.csv' }).waitFor();
  });

  test(
    'filters by a day that is typed when its year is whole, and Back removes it',
    LONG,
    async () => {
      await append('days', 'a.csv', COMPLETED);
      await untilFound('days', 1);
      const page = await console.visitSignedIn(list('days'));
      const from = page.getByLabel('Created from');
      await eventually(() => files(page)).toEqual(['a.csv']);
      await from.focus();
      await page.keyboard.type('01012026');
      await eventually(() => parameter(page, 'from_date')).toBe('2026-01-01T00:00:00.000Z');
      expect(await from.inputValue()).toBe('2026-01-01');
      await page.goBack();
      await eventually(() => page.url()).toBe(console.url + list('days'));
      await eventually(() => from.inputValue()).toBe('');
    },
  );

  test('keeps the filter of a day whose year is typed with a digit too many', LONG, async () => {
    const page = await console.visitSignedIn(`${list('years')}&from_date=2026-01-01`);
    const from = page.getByLabel('Created from');
    await eventually(() => from.inputValue()).toBe('2026-01-01');
    await from.fill('12026-01-01');
    await page.getByText('Enter a year of four digits').waitFor();
    expect(parameter(page, 'from_date')).toBe('2026-01-01');
    await expectAccessible(page);
    await from.fill('2026-01-02');
    await eventually(() => parameter(page, 'from_date')).toBe('2026-01-02T00:00:00.000Z');
    expect(await page.getByText('Enter a year of four digits').count()).toBe(0);
  });

  test('shows no rows for a filter that the service rejects', LONG, async () => {
    await append('rejected', 'a.csv', COMPLETED);
    await untilFound('rejected', 1);
    const page = await console.visitSignedIn(`${list('rejected')}&to_date=2099-01-01`);
    await eventually(() => files(page)).toEqual(['a.csv']);
    await page.getByLabel('Created from').fill('2099-02-01');
    await page.getByRole('alert').getByText('must not be later than to_date').waitFor();
    console.pardon(400);
    expect(await files(page)).toEqual([]);
    await page.getByLabel('Created from').fill('');
    await eventually(() => files(page)).toEqual(['a.csv']);
  });

  test('keeps names of right-to-left letters from reordering a row', LONG, async () => {
    // A log of an earlier version may have such a name.
    await append('scripts', 'bill\u202efdp.exe', COMPLETED);
    await append('\u05d0\u05d1/\u05d2\u05d3-scripts/7', '\u05d4\u05d5.pdf', COMPLETED);
    await untilFound('scripts', 2);
    const page = await console.visitSignedIn(list('scripts'));
    await page.getByRole('link', { name: 'bill%E2%80%AEfdp.exe' }).waitFor();
    const left = (row: string, text: string) =>
      page.evaluate(`(() => {
        const row = [...document.querySelectorAll('tbody tr')]
          .find(({ textContent }) => textContent.includes('${row}'));
        const walker = document.createTreeWalker(row.querySelector('.route'), NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
          const at = node.data.indexOf('${text}');
          if (at < 0) continue;
          const range = document.createRange();
          range.setStart(node, at);
          range.setEnd(node, at + '${text}'.length);
          return range.getBoundingClientRect().left;
        }
      })()`) as Promise<number>;
    const folders = ['\u05d0\u05d1', '\u05d2\u05d3', '7'];
    const places = await Promise.all(folders.map((folder) => left('\u05d4\u05d5.pdf', folder)));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    // The ending of a name stays at its right.
    const ending = `(() => {
      const link = [...document.querySelectorAll('.file')]
        .find(({ textContent }) => textContent.includes('.pdf'));
      const text = document.createTreeWalker(link, NodeFilter.SHOW_TEXT).nextNode();
      const leftOf = (from, to) => {
        const range = document.createRange();
        range.setStart(text, from);
        range.setEnd(text, to);
        return range.getBoundingClientRect().left;
      };
      return leftOf(2, 6) > leftOf(0, 2);
    })()`;
    expect(await page.evaluate(ending)).toBe(true);
    await expectAccessible(page);
  });

  test('shows the transfers that failed for a reason', LONG, async () => {
    await append('reasons', 'failed.csv', FAILED);
    await append('reasons', 'completed.csv', COMPLETED);
    await untilFound('reasons', 2);
    const page = await console.visitSignedIn(list('reasons'));
    const [state, reason] = [page.getByLabel('State'), page.getByLabel('Reason')];
    await eventually(async () => (await files(page)).length).toBe(2);
    expect(await reason.count()).toBe(0);
    await state.selectOption('Failed');
    await reason.selectOption('The server took too long');
    await eventually(() => files(page)).toEqual(['failed.csv']);
    expect(new URL(page.url()).search).toBe('?q=reasons&status=failed&error_code=timeout');
    await reason.selectOption('Sign-in rejected');
    await page.getByText('No transfers match').waitFor();
    await state.selectOption('Completed');
    await eventually(() => files(page)).toEqual(['completed.csv']);
    expect(new URL(page.url()).search).toBe('?q=reasons&status=completed');

    await page.goto(`${list('reasons')}&error_code=timeout`);
    await eventually(() => files(page)).toEqual(['failed.csv']);
    await reason.selectOption('All');
    await eventually(async () => (await files(page)).length).toBe(2);
  });

  test(
    'retries all that failed for a reason, with one button and its confirmation',
    LONG,
    async () => {
      for (const name of ['all-1.csv', 'all-2.csv']) await append('again', name, FAILED);
      await append('again', 'all-3.csv', COMPLETED);
      await untilFound('again-customer', 3);
      const page = await console.visitSignedIn(`${list('again-customer')}&status=failed`);
      const selectPage = page.getByLabel('Select page');
      const hasFocus = () => selectPage.and(page.locator(':focus')).count();
      await selectPage.check();
      await tabTo(page, page.getByRole('button', { name: 'Clear selection' }));
      await page.keyboard.press('Enter');
      await eventually(hasFocus).toBe(1);
      await page.getByRole('button', { name: 'Retry all' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('2 failed', { exact: true }).waitFor();
      await dialog.getByRole('button', { name: 'Retry transfers' }).click();
      await dialog.getByText('2 retried').waitFor();
      await dialog.getByRole('button', { name: 'Close' }).click();
      await page.goto(list('again-customer'));
      await eventually(async () => (await files(page)).length).toBe(5);
      expect(await page.getByRole('button', { name: 'Retry all' }).count()).toBe(0);
    },
  );

  test('says so if more may match than it counted', LONG, async () => {
    await append('uncounted', 'a.csv', FAILED);
    await untilFound('uncounted', 1);
    const page = await console.visitSignedIn('/console/transfers');
    await page.route('**/v1/transfers?*', async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      json.pagination.total_is_exact = false;
      json.pagination.total += 1;
      await route.fulfill({ response, json });
    });
    await page.goto(list('uncounted'));
    await page.getByText('1–1 of at least 2').waitFor();
    await page.getByLabel('Select page').check();
    await page.getByRole('button', { name: 'Select all of at least 2 that match' }).waitFor();
  });

  test('keeps filters under names, and the chosen columns', LONG, async () => {
    await append('saved', 'kept.csv', COMPLETED);
    await untilFound('saved', 1);
    const page = await console.visitSignedIn(`${list('saved')}&status=completed`);
    const saved = page.getByRole('navigation', { name: 'Saved filters' });
    const dialog = page.getByRole('dialog');
    await saved.getByRole('button', { name: 'Save filter' }).click();
    const name = dialog.getByLabel('Name');
    await dialog.getByRole('button', { name: 'Save filter' }).click();
    await dialog.getByText('Enter a name').waitFor();
    await eventually(() => name.and(page.locator(':focus[aria-invalid]')).count()).toBe(1);
    await name.fill('Done');
    await page.keyboard.press('Enter');
    await saved.getByRole('link', { name: 'Done' }).waitFor();
    expect(await saved.getByRole('button', { name: 'Save filter' }).count()).toBe(0);
    await saved.getByRole('link', { name: 'Clear filters' }).click();
    await eventually(() => new URL(page.url()).search).toBe('');
    await page.goto('/console/transfers?status=failed');
    await saved.getByRole('button', { name: 'Save filter' }).click();
    await name.fill('Failed');
    await page.keyboard.press('Enter');
    await page.goto('/console/transfers');
    await saved.getByRole('link', { name: 'Done' }).click();
    await eventually(() => files(page)).toEqual(['kept.csv']);
    await saved.getByRole('button', { name: 'Edit saved filters' }).click();
    await dialog.getByLabel('Name of Failed').fill('Done');
    await dialog.getByRole('button', { name: 'Save changes' }).click();
    await dialog.getByText('Two filters have this name').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Delete Failed' }).click();
    await dialog.getByLabel('Name of Done').fill(`Completed ones ${'x'.repeat(200)}`);
    const otherTab = await page.context().newPage();
    await otherTab.goto(`${console.url}/console/transfers?status=cancelled`);
    await otherTab.getByRole('button', { name: 'Save filter' }).click();
    await otherTab.getByRole('dialog').getByLabel('Name').fill('Of the other tab');
    await otherTab.keyboard.press('Enter');
    await otherTab.getByRole('link', { name: 'Of the other tab' }).waitFor();
    await dialog.getByRole('button', { name: 'Save changes' }).click();
    await saved.getByRole('link', { name: 'Completed ones' }).waitFor();
    await saved.getByRole('link', { name: 'Of the other tab' }).waitFor();
    await expectNoSidewaysScroll(page);
    await saved.getByRole('button', { name: 'Edit saved filters' }).click();
    await dialog.getByRole('button', { name: 'Delete Completed ones' }).click();
    await dialog.getByRole('button', { name: 'Save changes' }).click();
    await eventually(() => saved.getByRole('link', { name: 'Completed ones' }).count()).toBe(0);

    const column = (name: string) => page.getByRole('columnheader', { name, exact: true });
    await page.getByRole('button', { name: 'Columns' }).click();
    await dialog.getByLabel('Size').uncheck();
    await dialog.getByLabel('Ended').check();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await column('Ended').waitFor();
    await page.reload();
    await column('Ended').waitFor();
    expect(await column('Size').count()).toBe(0);

    // More columns than fit scroll in their frame, and the page does not.
    await page.evaluate("localStorage.setItem('waybill-hidden-columns', '[]')");
    await page.reload();
    await column('Size').waitFor();
    expect(await beyond(page, '.rows')).toBeGreaterThan(0);
    expect(await beyond(page, 'html')).toBe(0);
  });

  test('shows twelve rows on a laptop, and in each how it went', async () => {
    for (let file = 0; file < 13; file++)
      await append('dense', `statement-of-the-month-${file}.csv`, file % 2 ? FAILED : COMPLETED);
    await untilFound('dense', 13);
    // The default view: a filter has a line of its own.
    await append('newest', 'newest.csv', COMPLETED);
    const page = await console.visitSignedIn('/console/transfers', {
      viewport: { width: 1440, height: 900 },
    });
    await page.getByRole('link', { name: 'newest.csv' }).waitFor();
    const inSight = `[...document.querySelectorAll('tbody tr')]
      .filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`;
    expect(await page.evaluate(inSight)).toBeGreaterThanOrEqual(12);
    const row = (file: string) => page.getByRole('row').filter({ hasText: file });
    const progress = (file: string) => row(file).locator('[data-heading="Progress"]').innerText();
    expect(await progress('month-10.csv')).toMatch(/^Took /);
    expect(await progress('month-11.csv')).toBe('The server took too long');
    // The file has its name above, and is only in the whole addresses.
    const route = row('month-10.csv').locator('.from-to');
    expect(await route.innerText()).toMatch(/^sftp:\/\/held\/dense\/\s*→\s*sftp:\/\/held\/in\/$/);
    expect(await route.getAttribute('title')).toContain('/dense/statement-of-the-month-10.csv');
    const filters = page.getByRole('button', { name: 'Filters' });
    expect(await filters.isVisible()).toBe(false);
    await page.setViewportSize({ width: 375, height: 800 });
    await expectNoSidewaysScroll(page);
    // On a phone the fields would take the place of the rows.
    const state = page.getByRole('combobox', { name: 'State' });
    expect(await state.isVisible()).toBe(false);
    await filters.click();
    await state.selectOption('failed');
    await filters.click();
    await eventually(() => filters.innerText()).toBe('Filters (1 set)');
    expect(await state.isVisible()).toBe(false);
  });

  test('shows its first columns whole at every width', LONG, async () => {
    await append('wide', `${'long-name-'.repeat(15)}.csv`, COMPLETED);
    await untilFound('wide', 1);
    const page = await console.visitSignedIn(list('wide'));
    await page.locator('tbody tr').waitFor();
    for (const width of [320, 640, 900, 940, 1200, 1280]) {
      await page.setViewportSize({ width, height: 720 });
      expect(await beyond(page, '.rows'), `${width}`).toBe(0);
    }
  });

  test(
    'shows the start and the end of a long name, and all of it to a keyboard',
    LONG,
    async () => {
      const name = `quarterly-statement-${'0123456789'.repeat(22)}-final.csv.gz`;
      await append('lengthy', name, COMPLETED);
      await untilFound('lengthy', 1);
      const page = await console.visitSignedIn(list('lengthy'));
      const link = page.getByRole('link', { name, exact: true });
      await link.waitFor();
      const height = async () => (await link.boundingBox())?.height ?? 0;
      const short = await height();
      await tabTo(page, link);
      await eventually(height).toBeGreaterThan(2 * short);
      // What the browser itself tells a screen reader.
      const tree = await page.context().newCDPSession(page);
      const { nodes } = await tree.send('Accessibility.getFullAXTree');
      const links = nodes.filter(({ role }) => role?.value === 'link');
      expect(links.map((node) => node.name?.value)).toContain(name);
      await page.keyboard.press('Tab');
      await eventually(height).toBe(short);
      const after = await tree.send('Accessibility.getFullAXTree');
      expect(after.nodes.map((node) => node.name?.value)).toContain(name);
      await expectAccessible(page);
    },
  );

  test('downloads what matches as CSV', async () => {
    const ids = [await append('table', 'a.csv', FAILED), await append('table', 'b.csv', FAILED)];
    await append('table', 'c.csv', COMPLETED);
    await untilFound('table', 3);
    const page = await console.visitSignedIn(`${list('table')}&status=failed`);
    await eventually(() => files(page)).toHaveLength(2);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download CSV' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('transfers.csv');
    const lines = readFileSync(await download.path(), 'utf8')
      .trim()
      .split('\r\n');
    expect(lines.map((line) => line.split(',')[0]).sort()).toEqual(['id', ...ids].sort());
  });

  test('says that a download failed, although rows are selected by then', async () => {
    await append('late', 'a.csv', FAILED);
    await untilFound('late', 1);
    const page = await console.visitSignedIn(list('late'));
    await eventually(() => files(page)).toHaveLength(1);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    await page.route('**/v1/transfers?*', async (route) => {
      if (route.request().headers().accept !== 'text/csv') return route.fallback();
      await held;
      const detail = 'The store is away';
      const problem = {
        type: 'about:blank',
        title: 'Away',
        status: 503,
        code: 'unavailable',
        detail,
      };
      return route.fulfill({
        status: 503,
        contentType: 'application/problem+json',
        body: JSON.stringify(problem),
      });
    });
    const button = page.getByRole('button', { name: 'Download CSV' });
    await button.click();
    await box(page, 'a.csv').check();
    await eventually(() => button.count()).toBe(0);
    await page.getByRole('button', { name: 'Clear' }).click();
    expect(await button.getAttribute('aria-busy')).toBe('true');
    await box(page, 'a.csv').check();
    release();
    await page.getByRole('dialog').getByText('The store is away').waitFor();
    console.pardon(503);
  });

  test('retries the selected transfers, and names each refusal', LONG, async () => {
    await append('retried', 'a.csv', FAILED);
    await append('retried', 'b.csv', ['cancelled']);
    const completed = await append('retried', 'c.csv', COMPLETED);
    await untilFound('retried', 3);
    const page = await console.visitSignedIn(list('retried'));
    await eventually(() => files(page)).toHaveLength(3);
    for (const name of ['a.csv', 'b.csv', 'c.csv']) await box(page, name).check();
    await page.getByText('3 selected').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Retry transfers' }).click();
    const dialog = page.getByRole('dialog', { name: 'Retry transfers' });
    await dialog.getByText('2 of 3 selected transfers').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Retry transfers' }).click();
    await dialog.getByText('2 retried, 1 refused').waitFor();
    await eventually(() => dialog.getByRole('status').and(page.locator(':focus')).count()).toBe(1);
    const refused = dialog.getByRole('list', { name: 'Refused transfers' }).getByRole('listitem');
    expect(await refused.innerText()).toMatch(/The transfer is completed/);
    expect(await refused.getByRole('link').getAttribute('href')).toBe(
      `/console/transfers/${completed}`,
    );
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await eventually(() => files(page)).toHaveLength(5);
    expect(await page.getByRole('checkbox', { checked: true }).count()).toBe(0);
  });

  test(
    'lists the first of many refusals, and asks before a link ends the change',
    LONG,
    async () => {
      await append('refused', 'a.csv', FAILED);
      await untilFound('refused', 1);
      const page = await console.visitSignedIn(`${list('refused')}&status=failed`);
      await page.getByRole('button', { name: 'Retry all' }).click();
      const dialog = page.getByRole('dialog', { name: 'Retry transfers' });
      let calls = 0;
      const held = Promise.withResolvers<void>();
      await page.route('**/v1/transfers/bulk', async (route) => {
        if (++calls === 3) await held.promise;
        const refusals = Array.from({ length: 1_000 }, () => ({
          id: newId('txr'),
          code: 'limit_reached',
          detail: 'The account has too many open transfers',
        }));
        const json = { done: 0, refusals, has_more: calls < 3, continue_from: newId('txr') };
        await route.fulfill({ json }).catch(() => undefined);
      });
      await dialog.getByRole('button', { name: 'Retry transfers' }).click();
      const refused = dialog.getByRole('list', { name: 'Refused transfers' }).getByRole('listitem');
      await dialog.getByText('The first 100 of 2,000 refused transfers').waitFor();
      expect(await refused.count()).toBe(100);
      await refused.first().getByRole('link').click();
      const question = page.getByRole('dialog', { name: 'Leave this page?' });
      await question.getByRole('button', { name: 'Stay' }).click();
      held.resolve();
      await dialog.getByRole('status').getByText('3,000 refused').waitFor();
      await expectAccessible(page);
    },
  );

  test('says in brief why an attempt failed, and when the next one is', LONG, async () => {
    await configureEndpoint(console.installation, {
      name: 'dead',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: 1,
      username: 'nobody',
      password: 'none',
      host_key_sha256: `SHA256:${'A'.repeat(43)}`,
    });
    await submit(console.installation, 'sftp://dead/brief/a.csv', 'sftp://dead/in/a.csv');
    const page = await console.visitSignedIn(list('brief'));
    await page.getByText(/^No connection to the server Next attempt in \d+ \w+$/).waitFor();
  });

  test('shows the result of a retry that leaves the list empty', LONG, async () => {
    await append('emptied', 'a.csv', FAILED);
    await append('emptied', 'b.csv', FAILED);
    await untilFound('emptied&status=failed', 2);
    const page = await console.visitSignedIn(`${list('emptied')}&status=failed&retried=false`);
    await page.getByRole('button', { name: 'Retry all' }).click();
    const dialog = page.getByRole('dialog', { name: 'Retry transfers' });
    await dialog.getByText('2 failed').waitFor();
    await dialog.getByRole('button', { name: 'Retry transfers' }).click();
    await page.getByText('No transfers match').waitFor();
    await dialog.getByText('2 retried.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    // The button that opened the dialog is gone with the list.
    await page.getByRole('heading', { level: 1 }).and(page.locator(':focus')).waitFor();
  });

  test(
    'changes all that match on all pages, call by call, however often an answer is lost',
    LONG,
    async () => {
      const waiting = Array.from({ length: 26 }, (_, index) => wait('many', `${index}.csv`));
      const [continue_from] = await Promise.all(waiting);
      // The dialog counts each state by itself: a transfer must not change its state meanwhile.
      await untilFound('many&status=queued', 26);
      const page = await console.visitSignedIn(`${list('many')}&limit=25`);
      await page.getByText('1–25 of 26').waitFor();
      await page.getByLabel('Select page').check();
      await page.getByText('25 selected').waitFor();
      await page.getByRole('button', { name: 'Select all 26 that match' }).click();
      await page.getByText('Selected all 26 that match').waitFor();
      await page.getByRole('button', { name: 'Cancel transfers' }).click();
      const dialog = page.getByRole('dialog', { name: 'Cancel transfers' });
      await dialog.getByText('26 queued').waitFor();

      // The first answer is lost; its repeat says that more follow, and comes after a press of Stop.
      const keys: (string | undefined)[] = [];
      const continued: unknown[] = [];
      const stopped = Promise.withResolvers<void>();
      await page.route('**/v1/transfers/bulk', async (route) => {
        keys.push(route.request().headers()['idempotency-key']);
        continued.push(route.request().postDataJSON().continue_from);
        const response = await route.fetch();
        if (keys.length === 1) return route.abort();
        if (keys.length > 2) return route.fulfill({ response });
        await stopped.promise;
        const answer = { ...(await response.json()), has_more: true, continue_from };
        return route.fulfill({ response, json: answer });
      });
      await dialog.getByRole('button', { name: 'Cancel transfers' }).click();
      await dialog.getByRole('progressbar').waitFor();
      await page.keyboard.press('Escape');
      await dialog.getByRole('button', { name: 'Stop' }).click();
      stopped.resolve();
      await dialog.getByText('Stopped. 26 cancelled').waitFor();
      await expectAccessible(page);
      await dialog.getByRole('button', { name: 'Continue' }).click();
      await dialog.getByText('26 cancelled.').waitFor();
      await eventually(() => dialog.getByText('Stopped').count()).toBe(0);
      expect(keys).toHaveLength(3);
      expect(keys[0]).toMatch(/./);
      expect(keys[1]).toBe(keys[0]);
      expect(keys[2]).not.toBe(keys[0]);
      expect(continued).toEqual([undefined, undefined, continue_from]);
      await dialog.getByRole('button', { name: 'Close' }).click();
      await page.getByLabel('State').selectOption('Cancelled');
      await page.getByText('1–25 of 26').waitFor();
      console.pardon('lost');
    },
  );

  test('continues a change of many after the session has ended', LONG, async () => {
    for (const name of ['a.csv', 'b.csv']) await append('interrupted', name, FAILED);
    await untilFound('interrupted&status=failed', 2);
    const page = await console.visitSignedIn(`${list('interrupted')}&status=failed`);
    await page.getByRole('button', { name: 'Retry all' }).click();
    const dialog = page.getByRole('dialog', { name: 'Retry transfers' });
    await dialog.getByText('2 failed').waitFor();
    let calls = 0;
    await page.route('**/v1/transfers/bulk', async (route) => {
      calls += 1;
      if (calls === 1) await console.installation.sql`delete from work.console_sessions`;
      await route.continue();
    });
    await dialog.getByRole('button', { name: 'Retry transfers' }).click();
    const again = page.getByRole('dialog', { name: 'Sign in again' });
    await again.getByLabel('API key').fill(console.key);
    await page.keyboard.press('Enter');
    await again.waitFor({ state: 'detached' });
    console.pardon(401);
    await dialog.getByText('Stopped. 0 retried of up to 2.').waitFor();
    await dialog.getByText('The session ended before the others.').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Continue' }).click();
    await dialog.getByText('2 retried.').waitFor();
    expect(calls).toBe(2);
  });

  test('keeps check marks and places while rows change, also by keyboard', LONG, async () => {
    const id = await wait('moving', 'first.csv');
    await untilFound('moving', 1);
    const page = await console.visitSignedIn(list('moving'));
    await page.locator('.subtitle').getByText('Live').waitFor();
    await eventually(() => files(page)).toEqual(['first.csv']);
    await tabTo(page, box(page, 'first.csv'));
    await page.keyboard.press('Space');
    await page.getByText('1 selected').waitFor();
    const other = await wait('moving', 'second.csv');
    await page.getByRole('button', { name: 'Update list' }).waitFor();
    await cancelTransfer(console.installation.commands, id, CAUSE);
    const row = page.getByRole('row').filter({ hasText: 'first.csv' });
    await row.getByText('Cancelled').waitFor();
    expect(await files(page)).toEqual(['first.csv']);
    expect(await box(page, 'first.csv').isChecked()).toBe(true);
    await untilFound('moving', 2);
    await page.getByRole('button', { name: 'Update list' }).click();
    await eventually(() => files(page)).toEqual(['second.csv', 'first.csv']);
    expect(await box(page, 'first.csv').isChecked()).toBe(true);
    expect(await box(page, 'second.csv').isChecked()).toBe(false);
    await page.getByRole('button', { name: 'Clear selection' }).click();
    // Nothing is held now: a change shows by itself.
    await wait('moving', 'third.csv');
    await eventually(() => files(page)).toEqual(['third.csv', 'second.csv', 'first.csv']);
    await cancelTransfer(console.installation.commands, other, CAUSE);
  });

  test('a transfer is retried, cancelled and given another priority on its page', async () => {
    const old = await append('single', 'again.csv', FAILED);
    const page = await console.visitSignedIn(`/console/transfers/${old}`);
    await page.getByRole('button', { name: 'Retry transfer' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(old));
    const id = new URL(page.url()).pathname.split('/').at(-1) as string;
    await page.getByRole('button', { name: 'Change priority' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Priority').selectOption('high');
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Change priority' }).click();
    const priority = page.locator('.facts div').filter({ hasText: 'Priority' });
    await eventually(() => priority.innerText()).toContain('high');
    await eventually(() => page.locator('.timeline').innerText()).toMatch(/priority/i);
    await page.getByRole('button', { name: 'Cancel transfer' }).click();
    await dialog.getByRole('button', { name: 'Cancel transfer' }).click();
    await page.locator('.subtitle').getByText('Cancelled').waitFor();
    await page.getByRole('button', { name: 'Retry transfer' }).waitFor();

    await page.getByRole('link', { name: old }).click();
    await page.getByRole('heading', { name: 'Retried' }).waitFor();
    await page.getByRole('link', { name: id }).waitFor();
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Show retry in the list' }).click();
    await eventually(() => files(page)).toEqual(['again.csv']);
    await page.getByText(`Retries of ${old}`).waitFor();
    await page.getByRole('link', { name: 'again.csv' }).click();
    await page.waitForURL((url) => url.pathname.endsWith(id));
  });

  test('only shows and downloads, to those who may only read', LONG, async () => {
    const id = await append('read', 'a.csv', FAILED);
    await untilFound('read', 1);
    const { key } = await provideKey(console.installation, {
      name: 'reader',
      role: 'viewer',
      account: 'acc_default',
      expires_in: '1h',
    });
    const page = await console.visit(list('read'));
    await signIn(page, key);
    await eventually(() => files(page)).toEqual(['a.csv']);
    await page.getByRole('button', { name: 'Download CSV' }).waitFor();
    expect(await page.getByRole('checkbox').count()).toBe(0);
    await page.goto(`/console/transfers/${id}`);
    await page.getByRole('heading', { name: 'Transfer failed' }).waitFor();
    expect(await page.getByRole('button', { name: 'Retry transfer' }).count()).toBe(0);
  });

  test('is accessible, and fits the screen, at each width and in each theme', LONG, async () => {
    const folder = 'look';
    await append(folder, 'a-report-with-a-long-name-2026-03-01.csv', FAILED);
    await append(folder, 'b.csv', COMPLETED);
    await untilFound(folder, 2);
    const page = await console.visitSignedIn(`${list(folder)}&sort=created_at`);
    await eventually(() => files(page)).toHaveLength(2);
    await box(page, 'b.csv').check();
    await page.getByText('1 selected').waitFor();
    await expectGoodLooks(page);
    await page.getByRole('button', { name: 'Change priority' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Priority').waitFor();
    await expectGoodLooks(page);
    await dialog.getByRole('button', { name: 'Change priority' }).click();
    await dialog.getByText('0 changed, 1 refused').waitFor();
    await expectGoodLooks(page);
  });
});
