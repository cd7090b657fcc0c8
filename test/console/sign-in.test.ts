import type { Page } from 'playwright-core';
import { describe, expect, test, vi } from 'vitest';
import { newApiKey } from '../../src/commands/api-key.ts';
import { createTransfer } from '../../src/commands/create-transfer.ts';
import { revokeKey } from '../../src/commands/keys.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  provideKey,
} from '../support/console/console.ts';
import { signIn } from '../support/console/pages.ts';
import { turn, useConsole } from '../support/console/use-console.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureEndpoint } from '../support/service/installation.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('the Admin Console', () => {
  const console = useConsole();
  const { visit, visitSignedIn, pardon } = console;
  const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();

  describe('sign-in', () => {
    test('asks for a key, explains a rejected one, and opens the page', async () => {
      const page = await visit('/console/transfers?status=failed');
      expect(await heading(page)).toBe('Sign in');
      await page.getByLabel('API key').fill(newApiKey());
      await page.keyboard.press('Enter');
      expect(await page.getByRole('alert').innerText()).toContain(
        'This installation does not know the API key',
      );
      pardon(401);
      await signIn(page, console.key);
      expect(await heading(page)).toBe('Transfers');
      expect(page.url()).toBe(`${console.url}/console/transfers?status=failed`);
      expect(await page.title()).toBe('Transfers · Waybill');
    });

    test('redirects only within the console', async () => {
      const page = await visit('/console/sign-in?return=//evil.example/console/');
      await page.getByLabel('API key').waitFor();
      expect(await page.getByText('Loading …').count()).toBe(0);
      await signIn(page, console.key);
      expect(page.url()).toBe(`${console.url}/console`);
    });

    test('ends when the user signs out', LONG, async () => {
      const page = await visitSignedIn('/console/transfers');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await eventually(() => heading(page)).toBe('Sign in');
      await page.goto('/console/transfers');
      expect(await heading(page)).toBe('Sign in');
      // A request of the page may be under way when the session ends.
      console.pardonPolls(401);
    });

    test('is requested again after the session has ended, and returns to the page', async () => {
      const { id, key } = await provideKey(console.installation, {
        name: 'brief',
        scopes: ['admin'],
      });
      const page = await visit('/console/transfers?status=failed');
      await signIn(page, key);
      await page.getByLabel('State').selectOption('Queued');
      await eventually(() => page.url()).toBe(`${console.url}/console/transfers?status=queued`);
      await revokeKey(console.installation.commands, id, CAUSE);
      // The page may have noticed already, so the test touches nothing that it then no longer
      // shows.
      await page.evaluate(turn('visible'));
      await eventually(() => heading(page)).toBe('Sign in');
      await signIn(page, console.key);
      expect(page.url()).toBe(`${console.url}/console/transfers?status=queued`);
      pardon(401);
    });

    test('is requested over a page with unsent input, which stays', LONG, async () => {
      const page = await visitSignedIn('/console/transfers/new');
      const source = page.getByRole('group', { name: 'Source' });
      await source.getByLabel('Endpoint').selectOption('Another URI');
      const field = source.getByLabel('URI');
      await field.fill('sftp://far/out/report.csv');
      await console.installation.sql`delete from work.console_sessions`;
      await page.getByRole('button', { name: 'Create transfer' }).click();
      const dialog = page.getByRole('dialog', { name: 'Sign in again' });
      await dialog.getByText('What you have not sent is still on the page').waitFor();
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await expectAccessible(page);
      // The page below asks for nothing, whatever it follows.
      const asked: string[] = [];
      page.on('request', (sent) => asked.push(new URL(sent.url()).pathname));
      await dialog.getByLabel('API key').fill(console.key);
      await page.keyboard.press('Enter');
      await dialog.waitFor({ state: 'detached' });
      expect(asked[0]).toBe('/v1/session');
      expect(await field.inputValue()).toBe('sftp://far/out/report.csv');
      await page.getByRole('button', { name: 'Create transfer' }).click();
      await page.locator('main').locator('[aria-invalid], [role=alert]').first().waitFor();
      pardon(400);
      pardon(401);

      await console.installation.sql`delete from work.console_sessions`;
      await page.evaluate(turn('visible'));
      await dialog.getByRole('button', { name: 'Discard it' }).click();
      await eventually(() => heading(page)).toBe('Sign in');
      pardon(401);
    });

    test('is shared by all tabs, with its account, its key and its end', LONG, async () => {
      const { key } = await provideKey(console.installation, {
        name: 'finance',
        scopes: ['admin'],
        account: 'acc_finance',
        expires_in: '1h',
      });
      const page = await visitSignedIn('/console/webhooks');
      const other = await page.context().newPage();
      await other.goto('/console/webhooks');
      const account = other.getByLabel('Account');
      await eventually(() => account.inputValue()).toBe('acc_default');
      await page.getByLabel('Account').selectOption('acc_finance');
      await eventually(() => account.inputValue()).toBe('acc_finance');

      // A tab learns of another tab's silent change when it comes to the front.
      const turned = await page.evaluate(`fetch('/v1/session/account', {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: '{"account":"acc_default"}',
      }).then(({ status }) => status)`);
      expect(turned).toBe(200);
      await other.evaluate(turn('visible'));
      await eventually(() => account.inputValue()).toBe('acc_default');

      await page.getByRole('button', { name: 'Sign out' }).click();
      await eventually(() => heading(other)).toBe('Sign in');
      await signIn(page, key);
      await other.getByText('Signed in with finance').waitFor();
      expect(await account.inputValue()).toBe('acc_finance');
      expect(other.url()).toBe(`${console.url}/console/webhooks`);
    });
  });

  test('is served under a policy that blocks foreign code', async () => {
    const answer = await fetch(`${console.url}/console/transfers`);
    expect(answer.headers.get('content-security-policy')).toContain(
      "default-src 'none'; script-src 'self'",
    );
    expect(answer.headers.get('content-security-policy')).toContain("trusted-types 'none'");
    expect(answer.headers.get('cache-control')).toBe('no-cache');
    const [, script = ''] = /src="([^"]+)"/.exec(await answer.text()) ?? [];
    expect((await fetch(console.url + script)).headers.get('cache-control')).toMatch(
      /max-age=31536000, immutable/,
    );
    expect((await fetch(`${console.url}/console/assets/..%2findex.html`)).status).toBe(404);
    expect((await fetch(console.url, { redirect: 'manual' })).headers.get('location')).toBe(
      '/console',
    );
  });

  test('shows the first steps in an empty installation', LONG, async () => {
    const page = await visitSignedIn('/console/transfers');
    await page.getByRole('heading', { name: 'No transfers yet' }).waitFor();
    expect(await page.getByRole('link', { name: 'documentation' }).getAttribute('href')).toBe(
      '/docs',
    );
    await expectAccessible(page);
  });

  test('switches to another account, and keeps another theme', LONG, async () => {
    const { commands } = console.installation;
    await provideKey(console.installation, {
      name: 'other',
      scopes: ['transfers:write'],
      account: 'acc_other',
    });
    await configureEndpoint(console.installation, {
      name: 'far',
      protocol: 's3',
      bucket: 'far',
      access_key_id: 'id',
      secret_access_key: 'secret',
    });
    await configureEndpoint(console.installation, {
      name: 'held',
      protocol: 's3',
      bucket: 'held',
      access_key_id: 'id',
      secret_access_key: 'secret',
    });
    const body = transferRequest.parse({
      source_uri: 's3://far/theirs.csv',
      destination_uri: 's3://held/',
    });
    await createTransfer(commands, 'acc_other', body, CAUSE);
    const page = await visitSignedIn('/console/transfers');
    await page.getByRole('heading', { name: 'No transfers yet' }).waitFor();
    const account = page.getByLabel('Account');
    const refusal = {
      status: 503,
      json: { title: 'Unavailable', detail: 'Postgres is away', code: 'unavailable' },
    };
    await page.route('**/v1/session/account', (route) => route.fulfill(refusal), { times: 1 });
    await account.selectOption('acc_other');
    await page.getByText('Postgres is away').waitFor();
    expect(await account.inputValue()).toBe('acc_default');
    pardon(503);
    await account.selectOption('acc_other');
    await page.getByRole('link', { name: 'theirs.csv' }).waitFor();
    await page.getByLabel('Theme').selectOption('Dark');
    await page.reload();
    await page.getByRole('link', { name: 'theirs.csv' }).waitFor();
    expect(await page.locator('html').getAttribute('data-theme')).toBe('dark');

    // The answer to a switch is lost, and then the one that another tab's switch leads to.
    await page.route('**/v1/session/account', (route) => route.fetch().then(() => route.abort()), {
      times: 1,
    });
    await account.selectOption('acc_default');
    await page.getByRole('heading', { name: 'No transfers yet' }).waitFor();
    expect(await account.inputValue()).toBe('acc_default');
    await page.route('**/v1/session', (route) => route.abort(), { times: 1 });
    await page.evaluate(`fetch('/v1/session/account', {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: '{"account":"acc_other"}',
    })`);
    await page.evaluate(turn('visible'));
    await page.getByRole('link', { name: 'theirs.csv' }).waitFor();
    expect(await account.inputValue()).toBe('acc_other');
    pardon('lost');
  });

  test("shows the service's error at the field", LONG, async () => {
    const page = await visitSignedIn('/console/transfers/new');
    for (const name of ['Source', 'Destination']) {
      await page.getByRole('group', { name }).getByLabel('Endpoint').selectOption('Another URI');
      await page.getByRole('group', { name }).getByLabel('URI').fill('ftp://nowhere/file');
    }
    await page.getByRole('button', { name: 'Create transfer' }).click();
    const field = page.getByRole('group', { name: 'Source' }).getByLabel('URI');
    await eventually(() => field.getAttribute('aria-invalid')).toBe('true');
    expect(
      await page.locator(`#${await field.getAttribute('aria-describedby')}`).innerText(),
    ).toContain('sftp');
    pardon(400);
    await expectAccessible(page);
  });
});
