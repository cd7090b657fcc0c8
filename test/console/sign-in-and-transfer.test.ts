import { createHash, randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { newApiKey } from '../../src/commands/api-key.ts';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { createKey, revokeKey } from '../../src/commands/keys.ts';
import { abortTransfer, createTransfer } from '../../src/commands/transfers.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectNoSidewaysScroll,
} from '../support/console.ts';
import { signIn } from '../support/console-pages.ts';
import {
  CAUSE,
  configureEndpoint,
  configureSftp,
  submit,
  untilStatus,
} from '../support/installation.ts';
import { type SftpServer, startSftpServer, whyNoSftpServer } from '../support/sftp-server.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { tabTo, useConsole } from '../support/use-console.ts';
import { appendTransfer } from '../support/webhooks.ts';

// A browser, a service and two servers share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const MiB = 1 << 20;
const noServer = await whyNoSftpServer();

await describeConsole('the Admin Console', () => {
  const console = useConsole();
  const { visit, visitSignedIn, pardon } = console;
  const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();
  /** Acts as if the tab came to the front, or went behind others. */
  const turn = (state: 'visible' | 'hidden') => `
    Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));`;

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
      await signIn(page, console.key);
      expect(page.url()).toBe(`${console.url}/console`);
    });

    test('ends when the user signs out', async () => {
      const page = await visitSignedIn('/console/transfers');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await eventually(() => heading(page)).toBe('Sign in');
      await page.goto('/console/transfers');
      expect(await heading(page)).toBe('Sign in');
      // A request of the page may be under way when the session ends.
      console.pardonPolls(401);
    });

    test('is requested again after the session has ended, and returns to the page', async () => {
      const request = keyRequest.parse({
        name: 'brief',
        scopes: ['admin'],
        account: 'acc_default',
        expires_in: '1h',
      });
      const { id, key } = await createKey(console.installation.commands, request, CAUSE, {
        allowNever: false,
      });
      const page = await visit('/console/transfers?status=failed');
      await signIn(page, key);
      await page.getByLabel('State').selectOption('Queued');
      await eventually(() => page.url()).toBe(`${console.url}/console/transfers?status=queued`);
      await revokeKey(console.installation.commands, id, CAUSE);
      // The page may have noticed already, so the test touches nothing that it then no longer shows.
      await page.evaluate(turn('visible'));
      await eventually(() => heading(page)).toBe('Sign in');
      await signIn(page, console.key);
      expect(page.url()).toBe(`${console.url}/console/transfers?status=queued`);
      pardon(401);
    });

    test('is shared by all tabs, with its account, its key and its end', async () => {
      const request = keyRequest.parse({
        name: 'finance',
        scopes: ['admin'],
        account: 'acc_finance',
        expires_in: '1h',
      });
      const { key } = await createKey(console.installation.commands, request, CAUSE, {
        allowNever: false,
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

  test('shows the first steps in an empty installation', async () => {
    const page = await visitSignedIn('/console/transfers');
    await page.getByRole('heading', { name: 'No transfers yet' }).waitFor();
    expect(await page.getByRole('link', { name: 'documentation' }).getAttribute('href')).toBe(
      '/docs',
    );
    await expectAccessible(page);
  });

  test('switches to another account, and keeps another theme', async () => {
    const { commands } = console.installation;
    const other = keyRequest.parse({
      name: 'other',
      scopes: ['transfers:write'],
      account: 'acc_other',
      expires_in: '1h',
    });
    await createKey(commands, other, CAUSE, { allowNever: false });
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
  });

  test("shows the service's error at the field", async () => {
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

  describe.skipIf(noServer !== null)(
    `with SFTP servers${noServer ? ` (skipped: ${noServer})` : ''}`,
    () => {
      let alpha: SftpServer;
      let beta: SftpServer;
      let slow: TcpProxy;

      beforeAll(async () => {
        [alpha, beta] = await Promise.all([startSftpServer(), startSftpServer()]);
        slow = await startTcpProxy(alpha);
        await configureSftp(console.installation, 'alpha', alpha);
        await configureSftp(console.installation, 'beta', beta);
        await configureSftp(console.installation, 'slow', { ...alpha, port: slow.port });
      });
      afterAll(async () => {
        await Promise.all([slow?.close(), alpha?.stop(), beta?.stop()]);
      });

      test('a file is selected, moved, watched and traced', async () => {
        const content = randomBytes(MiB);
        mkdirSync(join(alpha.root, 'out box'));
        writeFileSync(join(alpha.root, 'out box', 'report 100 %.csv'), content);
        mkdirSync(join(beta.root, 'inbox'));
        const page = await visitSignedIn('/console/transfers');
        await page.getByRole('link', { name: 'New transfer' }).click();

        const source = page.getByRole('group', { name: 'Source' });
        await source.getByLabel('Endpoint').selectOption('alpha (sftp)');
        await source.getByRole('button', { name: 'Browse alpha' }).click();
        await page.getByRole('button', { name: 'out box/' }).click();
        await expectAccessible(page);
        await page.getByRole('button', { name: 'report 100 %.csv' }).click();
        expect(await source.getByLabel('Path').inputValue()).toBe('/out box/report 100 %.csv');

        const destination = page.getByRole('group', { name: 'Destination' });
        await destination.getByLabel('Endpoint').selectOption('beta (sftp)');
        await destination.getByRole('button', { name: 'Browse beta' }).click();
        await page.getByRole('button', { name: 'inbox/' }).click();
        await page.getByRole('button', { name: 'Use this folder' }).click();
        await page.getByRole('button', { name: 'Add metadata' }).click();
        await page.getByLabel('Name 1').fill('order');
        await page.getByLabel('Value 1').fill('4711');
        const expected = page.getByLabel('Expected SHA-256');
        await expected.fill('4711');
        await page.getByRole('button', { name: 'Create transfer' }).click();
        await eventually(() => expected.getAttribute('aria-invalid')).toBe('true');
        pardon(400);
        await expectAccessible(page);
        await expected.fill(createHash('sha256').update(content).digest('hex'));
        await page.getByLabel('Read back and compare').check();
        await page.getByLabel('Keep the modification time').check();
        await page.getByRole('button', { name: 'Create transfer' }).click();

        await eventually(() => heading(page)).toBe('report 100 %.csv');
        await page.locator('.subtitle').getByText('Completed').waitFor();
        expect(readFileSync(join(beta.root, 'inbox', 'report 100 %.csv')).equals(content)).toBe(
          true,
        );
        await eventually(() => page.locator('.timeline strong').allInnerTexts()).toEqual([
          'Created',
          'Queued',
          'Started',
          'Completed',
        ]);
        await eventually(() => page.locator('.timeline').innerText()).toContain(
          'Test administrator (console)',
        );
        expect(await page.getByText('4711').count()).toBe(1);
        await page.getByText('Read back and compare, Keep the modification time').waitFor();
        await page.getByText('read back and hashed').waitFor();
        await page.getByText(/Modification time kept: \d/).waitFor();

        await page.getByRole('link', { name: 'Show state after revision 1' }).click();
        const then = page.locator('#past-state');
        await then.getByText('Queued').waitFor();
        expect(await then.innerText()).toContain('0 bytes (0 %)');
        expect(page.url()).toMatch(/\?as_of=1$/);
        await expectAccessible(page);
        await page.getByRole('link', { name: 'Show current state' }).click();
        await page.getByRole('heading', { name: 'Current state' }).waitFor();

        await page.getByRole('link', { name: 'Create again' }).click();
        await eventually(() => source.getByLabel('Path').inputValue()).toBe(
          '/out box/report 100 %.csv',
        );
        await page.getByRole('button', { name: 'Create transfer' }).click();
        await page.locator('.subtitle').getByText('Completed').waitFor();
      });

      test('a moving transfer shows its progress until it is aborted', async () => {
        writeFileSync(join(alpha.root, 'big.bin'), '');
        truncateSync(join(alpha.root, 'big.bin'), 512 * MiB);
        slow.throttle(16 * MiB);
        const list = await visitSignedIn('/console/transfers');
        const id = await submit(console.installation, 'sftp://slow/big.bin', 'sftp://beta/big.bin');
        const row = list.getByRole('row').filter({ hasText: 'big.bin' });
        await eventually(() =>
          row.getByRole('progressbar').getAttribute('value').then(Number),
        ).toBeGreaterThan(0);
        await eventually(() => row.innerText()).toMatch(/bit\/s/);
        await expectAccessible(list);

        const page = await visitSignedIn(`/console/transfers/${id}`);
        await eventually(() => page.getByText(/Now .*bit\/s, peak/).count()).toBe(1);
        await expectAccessible(page);
        await page.getByRole('button', { name: 'Abort transfer' }).click();
        await expectAccessible(page);
        await page.getByRole('dialog').getByRole('button', { name: 'Abort transfer' }).click();
        await page.locator('.subtitle').getByText('Failed').waitFor();
        await page.getByText('aborted_by_operator').waitFor();
        await eventually(() => row.innerText()).toContain('Failed');
        await eventually(() => existsSync(join(beta.root, 'big.bin'))).toBe(false);
      });

      test('a waiting transfer shows its reason, in the list and on its page', async () => {
        writeFileSync(join(alpha.root, 'held.csv'), 'x');
        const paused = await configureSftp(console.installation, 'paused', alpha);
        await pauseEndpoint(console.installation.commands, paused, CAUSE);
        const list = await visitSignedIn('/console/transfers');
        const id = await submit(console.installation, 'sftp://paused/held.csv', 'sftp://beta/');
        const why = 'The endpoint paused is paused.';
        const row = list.getByRole('row').filter({ hasText: 'held.csv' });
        await eventually(() => row.innerText()).toContain(why);
        await expectAccessible(list);
        const page = await visitSignedIn(`/console/transfers/${id}`);
        await eventually(() => page.locator('.notice').innerText()).toContain(why);
        await expectAccessible(page);
        await resumeEndpoint(console.installation.commands, paused, CAUSE);
        await page.locator('.subtitle').getByText('Completed').waitFor();
        expect(await page.locator('.notice').count()).toBe(0);
        await eventually(() => row.innerText()).toContain('Completed');
        expect(await row.innerText()).not.toContain(why);
      });

      test('a list that nobody has looked at for a while catches up', async () => {
        writeFileSync(join(alpha.root, 'unseen.bin'), '');
        truncateSync(join(alpha.root, 'unseen.bin'), 512 * MiB);
        slow.throttle(16 * MiB);
        const page = await visitSignedIn('/console/transfers');
        const id = await submit(
          console.installation,
          'sftp://slow/unseen.bin',
          'sftp://beta/unseen.bin',
        );
        const row = page.getByRole('row').filter({ hasText: 'unseen.bin' });
        await eventually(() => row.innerText()).toContain('In progress');
        await page.evaluate(turn('hidden'));
        await page.getByText('Connecting').waitFor();
        await abortTransfer(console.installation.commands, id, CAUSE);
        await untilStatus(console.installation, id, 'failed');
        expect(await row.innerText()).toContain('In progress');
        await page.evaluate(turn('visible'));
        await eventually(() => row.innerText()).toContain('Failed');
      });

      test('a double click opens a folder once, and clears the previous one', async () => {
        mkdirSync(join(alpha.root, 'shelf', 'out'), { recursive: true });
        writeFileSync(join(alpha.root, 'shelf', 'out', 'a.csv'), 'x');
        const page = await visitSignedIn('/console/transfers/new');
        const source = page.getByRole('group', { name: 'Source' });
        const dialog = page.getByRole('dialog');
        await source.getByLabel('Endpoint').selectOption('alpha (sftp)');
        await source.getByRole('button', { name: 'Browse alpha' }).click();
        await dialog.getByRole('button', { name: 'shelf/' }).click();
        const out = dialog.getByRole('button', { name: 'out/' });
        await out.waitFor();
        const listing = Promise.withResolvers<void>();
        await page.route('**/files?*', async (route) => {
          await listing.promise;
          await route.continue();
        });
        await out.dblclick();
        await eventually(() => dialog.getByLabel('Folder', { exact: true }).inputValue()).toBe(
          '/shelf/out/',
        );
        expect(await out.count()).toBe(0);
        listing.resolve();
        const file = dialog.getByRole('button', { name: 'a.csv' });
        await file.waitFor();
        // If the listing is quick, the second click meets the new content.
        await file.dispatchEvent('click', { detail: 2 });
        await file.click();
        expect(await source.getByLabel('Path').inputValue()).toBe('/shelf/out/a.csv');
      });

      test('a file is found by its path, a part of its name, its size and its age', async () => {
        const folder = join(alpha.root, 'found', 'here');
        mkdirSync(join(folder, 'deeper'), { recursive: true });
        for (const [name, size, minute] of [
          ['note-10.txt', 10, 1],
          ['note-2.txt', 20, 3],
          ['big.bin', MiB, 2],
        ] as const) {
          writeFileSync(join(folder, name), '');
          truncateSync(join(folder, name), size);
          const at = new Date(Date.UTC(2026, 0, 31, 9, minute));
          utimesSync(join(folder, name), at, at);
        }
        const page = await visitSignedIn('/console/transfers/new', {
          colorScheme: 'dark',
          viewport: { width: 320, height: 800 },
          timezoneId: 'Asia/Kolkata',
        });
        const source = page.getByRole('group', { name: 'Source' });
        await source.getByLabel('Endpoint').selectOption('alpha (sftp)');
        await source.getByRole('button', { name: 'Browse alpha' }).click();
        const dialog = page.getByRole('dialog');
        const path = dialog.getByLabel('Folder', { exact: true });
        const names = () =>
          dialog.getByRole('listitem').locator('button > span:first-of-type').allInnerTexts();
        await path.fill('found//here');
        await path.press('Enter');
        const all = ['Parent folder', 'deeper/', 'big.bin', 'note-2.txt', 'note-10.txt'];
        await eventually(names).toEqual(all);
        expect(await path.inputValue()).toBe('/found/here/');
        expect(await dialog.getByRole('button', { name: 'big.bin' }).innerText()).toMatch(
          /1\.0 MiB\s+2026-01-31 14:32/,
        );
        await expectAccessible(page);
        await expectNoSidewaysScroll(page);

        const sort = dialog.getByLabel('Sort by');
        await sort.selectOption('Largest first');
        await eventually(names).toEqual(all);
        await sort.selectOption('Newest first');
        await eventually(names).toEqual([
          ...['Parent folder', 'deeper/', 'note-2.txt', 'big.bin', 'note-10.txt'],
        ]);
        const search = dialog.getByLabel('Search this folder');
        await search.fill('NOTE');
        await search.press('Enter');
        await eventually(names).toEqual(['Parent folder', 'note-2.txt', 'note-10.txt']);
        await dialog.getByText('2 of 4 entries.').waitFor();

        await path.fill('/nowhere/');
        await dialog.getByRole('button', { name: 'Open' }).click();
        await dialog.getByRole('alert').waitFor();
        await expectAccessible(page);
        pardon(404);
        await dialog.getByRole('button', { name: 'Parent folder' }).click();
        await dialog.getByRole('button', { name: 'found/' }).click();
        await dialog.getByRole('button', { name: 'here/' }).click();
        await dialog.getByRole('button', { name: 'note-10.txt' }).click();
        expect(await source.getByLabel('Path').inputValue()).toBe('/found/here/note-10.txt');
        expect(page.url()).toBe(`${console.url}/console/transfers/new`);
      });

      test('a filtered list is not reloaded for other transfers, until one matches', async () => {
        for (let count = 0; count < 51; count++)
          await appendTransfer(console.installation.store, ['cancelled']);
        writeFileSync(join(alpha.root, 'unlisted.bin'), '');
        truncateSync(join(alpha.root, 'unlisted.bin'), 512 * MiB);
        slow.throttle(16 * MiB);
        const id = await submit(
          console.installation,
          'sftp://slow/unlisted.bin',
          'sftp://beta/unlisted.bin',
        );
        const page = await visitSignedIn(`/console/transfers/${id}`);
        const lists: Page[] = [];
        const loads = [0, 0];
        for (const [k, query] of ['?status=failed', '?offset=50'].entries()) {
          const list = await page.context().newPage();
          list.on('request', (request) => {
            if (new URL(request.url()).pathname === '/v1/transfers') loads[k]!++;
          });
          await list.goto(`/console/transfers${query}`);
          await list.locator('.subtitle').getByText('Live').waitFor();
          await eventually(() => loads[k]).toBeGreaterThan(0);
          lists.push(list);
        }
        const told = new Set<string | null>();
        const progress = page.getByRole('progressbar');
        const untilTold = (count: number) =>
          eventually(
            async () => told.add(await progress.getAttribute('value')).size,
          ).toBeGreaterThan(count);
        // A list whose stream opens before its first load loads again, two seconds later at most.
        await untilTold(4);
        const settled = [...loads];
        await untilTold(8);
        expect(loads).toEqual(settled);
        await abortTransfer(console.installation.commands, id, CAUSE);
        await lists[0]!.getByRole('link', { name: 'unlisted.bin' }).waitFor();
      });

      test('a failure is shown with its remedy', async () => {
        const id = await submit(console.installation, 'sftp://alpha/nothing-there', 'sftp://beta/');
        await untilStatus(console.installation, id, 'failed');
        const page = await visitSignedIn(`/console/transfers/${id}`);
        await page.getByRole('heading', { name: 'Transfer failed' }).waitFor();
        expect(await page.locator('.notice').innerText()).toContain('source_not_found');
        await expectAccessible(page);
      });

      test('a script in a file name is shown as text', async () => {
        const name = '<img src=x onerror=alert(1)>.txt';
        writeFileSync(join(alpha.root, name), 'x');
        const uri = `sftp://alpha/${encodeURIComponent(name)}`;
        const id = await submit(console.installation, uri, 'sftp://beta/', {
          metadata: { '<b>': '<script>alert(2)</script>' },
        });
        await untilStatus(console.installation, id, 'completed');
        const page = await visitSignedIn(`/console/transfers/${id}`);
        await eventually(() => heading(page)).toBe(name);
        expect(await page.getByText('<script>alert(2)</script>').count()).toBe(1);
        await page.goto('/console/transfers');
        await page.getByRole('link', { name }).waitFor();
      });

      test('the keyboard alone suffices for a transfer', async () => {
        writeFileSync(join(alpha.root, 'by-keyboard.txt'), 'typed');
        const page = await visit('/console/transfers/new');
        const type = (text: string) => page.keyboard.type(text);
        const press = async (...keys: string[]) => {
          for (const key of keys) await page.keyboard.press(key);
        };

        await tabTo(page, page.getByLabel('API key'));
        await type(console.key);
        await press('Enter');
        await page.getByRole('heading', { name: 'New transfer' }).waitFor();
        const source = page.getByRole('group', { name: 'Source' });
        await tabTo(page, source.getByLabel('Path'));
        await press('Tab', 'Enter');
        await tabTo(page, page.getByRole('button', { name: 'by-keyboard.txt' }));
        await press('Enter');
        await eventually(() => source.getByLabel('Path').inputValue()).toBe('/by-keyboard.txt');
        // The closed dialog gives the focus back. A key that is pressed before would be lost.
        await page.getByRole('dialog').waitFor({ state: 'detached' });
        await eventually(() => source.locator('button:focus').count()).toBe(1);
        const destination = page.getByRole('group', { name: 'Destination' });
        await tabTo(page, destination.getByLabel('Path'));
        await type('typed/');
        await eventually(() => destination.getByLabel('Path').inputValue()).toBe('typed/');
        await press('Enter');
        await eventually(() => heading(page)).toBe('by-keyboard.txt');
        await page.locator('.subtitle').getByText('Completed').waitFor();
        expect(readFileSync(join(beta.root, 'typed', 'by-keyboard.txt'), 'utf8')).toBe('typed');
      });

      test.each([
        ['light', 1440],
        ['dark', 1440],
        ['light', 320],
        ['dark', 320],
      ] as const)(
        'every page of transfers is accessible in %s at %i pixels, and fits the screen',
        async (colorScheme, width) => {
          const id = await submit(
            console.installation,
            'sftp://alpha/a-name-that-is-as-long-as-names-are'.padEnd(200, 'x'),
            'sftp://beta/',
          );
          await untilStatus(console.installation, id, 'failed');
          const page = await visitSignedIn('/console/transfers', {
            colorScheme,
            viewport: { width, height: 800 },
          });
          for (const path of [
            '/console/transfers',
            '/console/transfers/new',
            `/console/transfers/${id}?as_of=0`,
            '/console/nowhere',
          ]) {
            await page.goto(path);
            await page.locator('h1').waitFor();
            await eventually(() => page.locator('[aria-busy=true]').count()).toBe(0);
            await expectAccessible(page);
            await expectNoSidewaysScroll(page);
          }
        },
      );
    },
  );
});
