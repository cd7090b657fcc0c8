import type { Dialog, Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import {
  describeConsole,
  eventually,
  expectAccessible,
  provideKey,
} from '../support/console/console.ts';
import { signIn } from '../support/console/pages.ts';
import { turn, useConsole } from '../support/console/use-console.ts';
import { LONG } from '../support/run/long.ts';
import { configureEndpoint } from '../support/service/installation.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('unsent input in the console', () => {
  const console = useConsole();
  const heading = (page: Page) => page.getByRole('heading', { level: 1 });
  const question = (page: Page) => page.getByRole('dialog', { name: 'Leave this page?' });
  const answer = (page: Page, name: 'Stay' | 'Leave') =>
    question(page).getByRole('button', { name }).click();
  /** A browser lets a page hold *Back* only after an input of the user, as keys are. */
  const back = (page: Page) => page.evaluate('history.back()');

  test('stays in a dialog when Back is pressed, until the user leaves', LONG, async () => {
    const page = await console.visitSignedIn('/console/flows');
    await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await page.getByRole('button', { name: 'New webhook' }).click();
    const url = page.getByRole('dialog', { name: 'New webhook' }).getByLabel('URL');
    await url.focus();
    await page.keyboard.type('https://receiver.example.com/');
    await back(page);
    await question(page).waitFor();
    await expectAccessible(page);
    await page.keyboard.press('Escape');
    await eventually(() => question(page).count()).toBe(0);
    expect(await url.inputValue()).toBe('https://receiver.example.com/');
    await eventually(() => url.and(page.locator(':focus')).count()).toBe(1);
    await page.keyboard.type('waybill');
    await back(page);
    await answer(page, 'Leave');
    await eventually(() => heading(page).innerText()).toBe('Flows');
    expect(page.url()).toBe(`${console.url}/console/flows`);

    // An untouched form is no reason to ask.
    await page.goForward();
    await page.getByRole('button', { name: 'New webhook' }).click();
    await page.keyboard.press('Shift');
    await back(page);
    await eventually(() => heading(page).innerText()).toBe('Flows');
  });

  test('stays in the form of a page when a link is followed, but not its Cancel', async () => {
    const page = await console.visitSignedIn('/console/settings/endpoints/new');
    const name = page.getByLabel('Name', { exact: true });
    const follow = () => page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await name.fill('partner');
    await follow();
    await answer(page, 'Stay');
    expect(await name.inputValue()).toBe('partner');
    await follow();
    await answer(page, 'Leave');
    await eventually(() => heading(page).innerText()).toBe('Webhooks');

    await page.goBack();
    await name.fill('partner');
    await page.getByRole('link', { name: 'Cancel' }).click();
    await eventually(() => heading(page).innerText()).toBe('Endpoints');
    expect(await question(page).count()).toBe(0);
  });

  test('asks before another address of the page fills the form again', LONG, async () => {
    const { transferId } = await appendTransfer(console.installation.store, ['cancelled']);
    const row = () =>
      console.installation.sql`select from read.transfers where transfer_id = ${transferId}`;
    await eventually(async () => (await row()).count).toBe(1);
    const page = await console.visitSignedIn('/console/transfers/new');
    const uri = page.getByRole('group', { name: 'Source' }).getByLabel(/^(Path|URI)$/);
    await uri.waitFor();
    await page.evaluate(`
      const link = document.createElement('a');
      link.href = '/console/transfers/new?like=${transferId}';
      document.querySelector('main').append(link);
      link.click();`);
    await eventually(() => uri.inputValue()).toBe('sftp://from/a.csv');
    await uri.focus();
    await page.keyboard.type('.old');
    await back(page);
    await answer(page, 'Stay');
    expect(await uri.inputValue()).toContain('.old');
    expect(page.url()).toContain('like=');
  });

  test('is not what is typed to find a file on a server', LONG, async () => {
    await configureEndpoint(console.installation, {
      name: 'shelf',
      protocol: 'sftp',
      host: 'shelf.invalid',
      username: 'u',
      password: 'p',
    });
    const page = await console.visitSignedIn('/console/transfers/new');
    await page.route('**/files?*', (route) =>
      route.fulfill({ json: { path: '/', data: [], truncated: false } }),
    );
    const source = page.getByRole('group', { name: 'Source' });
    await source.getByRole('button', { name: 'Browse shelf' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Search this folder').fill('report');
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await eventually(() => heading(page).innerText()).toBe('Webhooks');
    expect(await question(page).count()).toBe(0);

    // A path that is typed into the form is.
    await page.goBack();
    await source.getByLabel('Path').fill('/report.csv');
    await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await answer(page, 'Stay');
  });

  test('stays when the page is reloaded, if the user says so', async () => {
    // A window of its own: no other test wants these listeners.
    const page = await console.visitSignedIn('/console/settings/endpoints/new', {});
    const name = page.getByLabel('Name', { exact: true });
    const asked = Promise.withResolvers<Dialog>();
    page.removeAllListeners('dialog');
    page.on('dialog', asked.resolve);
    await name.focus();
    await page.keyboard.type('partner');
    await page.evaluate('setTimeout(() => location.reload())');
    const dialog = await asked.promise;
    expect(dialog.type()).toBe('beforeunload');
    await dialog.dismiss();
    expect(await name.inputValue()).toBe('partner');
  });

  test('stays until the user agrees to another account, or to sign out', LONG, async () => {
    await provideAccount('acc_finance');
    const page = await console.visitSignedIn('/console/settings/endpoints/new');
    const name = page.getByLabel('Name', { exact: true });
    const account = page.getByRole('combobox', { name: 'Account' });
    await name.fill('partner');
    await account.selectOption('acc_finance');
    await answer(page, 'Stay');
    await eventually(() => account.inputValue()).toBe('acc_default');
    expect(await name.inputValue()).toBe('partner');
    await account.selectOption('acc_finance');
    await answer(page, 'Leave');
    await eventually(() => name.inputValue()).toBe('');
    expect(await account.inputValue()).toBe('acc_finance');

    await name.fill('partner');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await answer(page, 'Stay');
    expect(await name.inputValue()).toBe('partner');
  });

  test('stays when another tab signs out, until the same key signs in', LONG, async () => {
    const page = await console.visitSignedIn('/console/settings/endpoints/new');
    const name = page.getByLabel('Name', { exact: true });
    await name.fill('partner');
    const other = await page.context().newPage();
    await other.goto('/console/webhooks');
    await other.getByRole('button', { name: 'Sign out' }).click();
    await other.getByRole('heading', { name: 'Sign in' }).waitFor();
    const again = page.getByRole('dialog', { name: 'Sign in again' });
    await again.getByText('You signed out in another tab').waitFor();
    await expectAccessible(page);
    await signIn(other, console.key);
    await again.waitFor({ state: 'detached' });
    expect(await name.inputValue()).toBe('partner');

    // What one user typed is not for another.
    await other.getByRole('button', { name: 'Sign out' }).click();
    await again.waitFor();
    const { key } = await provideKey(console.installation, { name: 'other', scopes: ['admin'] });
    await signIn(other, key);
    await again.waitFor({ state: 'detached' });
    await eventually(() => name.inputValue()).toBe('');
    console.pardonPolls(401);
  });

  test('stays when another tab switches the account, for which it is not', LONG, async () => {
    await provideAccount('acc_finance');
    const page = await console.visitSignedIn('/console/settings/endpoints/new');
    const name = page.getByLabel('Name', { exact: true });
    const account = page.getByRole('combobox', { name: 'Account' });
    const moved = page.getByRole('dialog', { name: 'The account was switched' });
    const switchElsewhere = async () => {
      await page.evaluate(`fetch('/v1/session/account', {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: '{"account":"acc_finance"}',
      })`);
      await page.evaluate(turn('visible'));
      await moved.waitFor();
    };
    await name.fill('partner');
    await switchElsewhere();
    await expectAccessible(page);
    await moved.getByRole('button', { name: 'Switch back to acc_default' }).click();
    await moved.waitFor({ state: 'detached' });
    expect(await name.inputValue()).toBe('partner');
    expect(await account.inputValue()).toBe('acc_default');

    await switchElsewhere();
    await moved.getByRole('button', { name: 'Discard it' }).click();
    await eventually(() => name.inputValue()).toBe('');
    expect(await account.inputValue()).toBe('acc_finance');
  });

  async function provideAccount(account: string): Promise<void> {
    await provideKey(console.installation, { name: account, scopes: ['transfers:read'], account });
  }
});
