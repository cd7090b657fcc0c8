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
import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { abortTransfer } from '../../src/commands/transfers.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectGoodLooks,
  expectNoSidewaysScroll,
} from '../support/console/console.ts';
import { tabTo, turn, useConsole } from '../support/console/use-console.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../support/file-servers/sftp/server.ts';
import { startTcpProxy, type TcpProxy } from '../support/network/tcp-proxy.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureSftp, submit, untilStatus } from '../support/service/installation.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser, a service and two servers share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const MiB = 1 << 20;
const noServer = await whyNoSftpServer();

await describeConsole('transfers in the Admin Console', () => {
  const console = useConsole();
  const { visit, visitSignedIn, pardon } = console;
  const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();

  describe.skipIf(noServer !== null)(
    `with SFTP servers${noServer ? ` (skipped: ${noServer})` : ''}`,
    () => {
      let alpha: SftpServer;
      let beta: SftpServer;
      let slow: TcpProxy;
      let slowId: string;

      beforeAll(async () => {
        [alpha, beta] = await Promise.all([startSftpServer(), startSftpServer()]);
        slow = await startTcpProxy(alpha);
        await configureSftp(console.installation, 'alpha', alpha);
        await configureSftp(console.installation, 'beta', beta);
        slowId = await configureSftp(console.installation, 'slow', { ...alpha, port: slow.port });
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
        // No partner is chosen for the user, and each side asks for one.
        for (const place of [source, page.getByRole('group', { name: 'Destination' })]) {
          const endpoint = place.getByLabel('Endpoint');
          expect(await endpoint.locator('option:checked').innerText()).toBe('Choose an endpoint');
          await page.getByRole('button', { name: 'Create transfer' }).click();
          await place.locator('.error').getByText('Choose an endpoint').waitFor();
          await eventually(() => endpoint.and(page.locator(':focus')).count()).toBe(1);
          await expectAccessible(page);
          if (place === source) await endpoint.selectOption('alpha (SFTP)');
        }
        await source.getByRole('button', { name: 'Browse alpha' }).click();
        await page.getByRole('button', { name: 'out box/' }).click();
        const contents = page.getByRole('list', { name: 'Contents of /out box/' });
        await eventually(() => contents.and(page.locator(':focus')).count()).toBe(1);
        await expectAccessible(page);
        await page.getByRole('button', { name: 'report 100 %.csv' }).click();
        expect(await source.getByLabel('Path').inputValue()).toBe('/out box/report 100 %.csv');

        const destination = page.getByRole('group', { name: 'Destination' });
        await destination.getByLabel('Endpoint').selectOption('beta (SFTP)');
        await destination.getByRole('button', { name: 'Browse beta' }).click();
        await page.getByRole('button', { name: 'inbox/' }).click();
        await page.getByRole('button', { name: 'Use this folder' }).click();
        const add = page.getByRole('button', { name: 'Add metadata' });
        await add.click();
        await page.getByRole('button', { name: 'Remove entry 1' }).press('Enter');
        await eventually(() => add.and(page.locator(':focus')).count()).toBe(1);
        await add.click();
        await page.getByLabel('Name 1').fill('order');
        await page.getByLabel('Value 1').fill('4711');
        // No entry is dropped: neither one without a name, nor one of two with the same name.
        await add.click();
        await page.getByLabel('Value 2').fill('4712');
        await page.getByRole('button', { name: 'Create transfer' }).click();
        await page.getByText('must not be empty').waitFor();
        pardon(400);
        await eventually(() => page.getByLabel('Name 2').getAttribute('aria-invalid')).toBe('true');
        await page.getByLabel('Name 2').fill('order');
        await page.getByRole('button', { name: 'Create transfer' }).click();
        await page.getByText('Two entries have this name').first().waitFor();
        await expectAccessible(page);
        await page.getByRole('button', { name: 'Remove order' }).last().click();
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
        // Exact, because a random checksum or id may contain these digits.
        expect(await page.getByText('4711', { exact: true }).count()).toBe(1);
        await page.getByText('Read back and compare, Keep the modification time').waitFor();
        await page.getByText('read back and hashed').waitFor();
        await page.getByText(/ from creation to end: .* in 1 attempt, .* waiting$/).waitFor();
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
        const lose = async (route: Route) => {
          await route.fetch();
          await route.abort();
        };
        await page.route('**/v1/transfers', lose, { times: 1 });
        await page.getByRole('button', { name: 'Create transfer' }).click();
        await page.getByRole('alert').getByText('The service did not respond').waitFor();
        pardon('lost');
        await page.getByRole('button', { name: 'Create transfer' }).click();
        await page.locator('.subtitle').getByText('Completed').waitFor();
        await page.goto('/console/transfers?q=report');
        await page.getByText('1–2 of 2').waitFor();
        await page.getByText('sftp://alpha/out box/report 100 %25.csv').first().waitFor();
      });

      test('a moving transfer shows its progress until it is aborted', LONG, async () => {
        writeFileSync(join(alpha.root, 'big.bin'), '');
        truncateSync(join(alpha.root, 'big.bin'), 1024 * MiB);
        slow.throttle(8 * MiB);
        const list = await visitSignedIn('/console/transfers');
        const { commands } = console.installation;
        await pauseEndpoint(commands, slowId, CAUSE);
        const id = await submit(console.installation, 'sftp://slow/big.bin', 'sftp://beta/big.bin');
        const page = await visitSignedIn(`/console/transfers/${id}`);
        await page.getByRole('button', { name: 'Cancel transfer' }).click();
        await page.getByRole('dialog', { name: 'Cancel this transfer?' }).waitFor();
        await resumeEndpoint(commands, slowId, CAUSE);
        // The open dialog must not ask for another action when the transfer starts.
        await page.getByRole('button', { name: 'Abort transfer' }).waitFor();
        expect(await page.getByRole('dialog').count()).toBe(0);

        const row = list.getByRole('row').filter({ hasText: 'big.bin' });
        await eventually(() =>
          row.getByRole('progressbar').getAttribute('value').then(Number),
        ).toBeGreaterThan(0);
        await eventually(() => row.innerText()).toMatch(/bit\/s/);
        await expectAccessible(list);

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

      test('a waiting transfer shows its reason, in the list and on its page', LONG, async () => {
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

      test('a list in a hidden tab catches up when it is shown', LONG, async () => {
        writeFileSync(join(alpha.root, 'unseen.bin'), '');
        truncateSync(join(alpha.root, 'unseen.bin'), 512 * MiB);
        slow.throttle(2 * MiB);
        const page = await visitSignedIn('/console/transfers');
        const id = await submit(
          console.installation,
          'sftp://slow/unseen.bin',
          'sftp://beta/unseen.bin',
        );
        const row = page.getByRole('row').filter({ hasText: 'unseen.bin' });
        await eventually(() => row.innerText()).toContain('In progress');
        await page.evaluate(turn('hidden'));
        await page.getByText('Not live').waitFor();
        await abortTransfer(console.installation.commands, id, CAUSE);
        await untilStatus(console.installation, id, 'failed');
        expect(await row.innerText()).toContain('In progress');
        await page.evaluate(turn('visible'));
        await eventually(() => row.innerText()).toContain('Failed');
      });

      test('a double click opens a folder once, and clears the previous one', LONG, async () => {
        mkdirSync(join(alpha.root, 'shelf', 'out'), { recursive: true });
        writeFileSync(join(alpha.root, 'shelf', 'out', 'a.csv'), 'x');
        // Reordered, its name would end in `exe.pdf`.
        writeFileSync(join(alpha.root, 'shelf', 'out', 'bill\u202efdp.exe'), 'x');
        const page = await visitSignedIn('/console/transfers/new');
        const source = page.getByRole('group', { name: 'Source' });
        const dialog = page.getByRole('dialog');
        await source.getByLabel('Endpoint').selectOption('alpha (SFTP)');
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
        await dialog.getByRole('button', { name: 'bill%E2%80%AEfdp.exe' }).waitFor();
        // If the listing is quick, the second click meets the new content.
        await file.dispatchEvent('click', { detail: 2 });
        await file.click();
        expect(await source.getByLabel('Path').inputValue()).toBe('/shelf/out/a.csv');
      });

      test(
        'a file is found by its path, a part of its name, its size and its age',
        LONG,
        async () => {
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
          await source.getByLabel('Endpoint').selectOption('alpha (SFTP)');
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
        },
      );

      test(
        'a filtered list is not reloaded for other transfers, until one matches',
        LONG,
        async () => {
          for (let count = 0; count < 51; count++)
            await appendTransfer(console.installation.store, ['cancelled']);
          writeFileSync(join(alpha.root, 'unlisted.bin'), '');
          truncateSync(join(alpha.root, 'unlisted.bin'), 1024 * MiB);
          // Some pieces of the file a second: its progress changes with each.
          slow.throttle(8 * MiB);
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
          await untilTold(6);
          expect(loads).toEqual(settled);
          await abortTransfer(console.installation.commands, id, CAUSE);
          await lists[0]!.getByRole('link', { name: 'unlisted.bin' }).waitFor();
        },
      );

      test('a failure is shown with its remedy', LONG, async () => {
        const id = await submit(console.installation, 'sftp://alpha/nothing-there', 'sftp://beta/');
        await untilStatus(console.installation, id, 'failed');
        const page = await visitSignedIn(`/console/transfers/${id}`);
        await page.getByRole('heading', { name: 'Transfer failed' }).waitFor();
        expect(await page.locator('.notice').innerText()).toContain(
          'source_not_found while the mover opened the source, after 1 attempt',
        );
        await expectAccessible(page);
      });

      test('a script in a file name is shown as text', LONG, async () => {
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
        await tabTo(page, source.getByLabel('Endpoint'));
        await type('alpha');
        await tabTo(page, source.getByLabel('Path'));
        await press('Tab', 'Enter');
        await tabTo(page, page.getByRole('button', { name: 'by-keyboard.txt' }));
        await press('Enter');
        await eventually(() => source.getByLabel('Path').inputValue()).toBe('/by-keyboard.txt');
        // The closed dialog gives the focus back. A key that is pressed before would be lost.
        await page.getByRole('dialog').waitFor({ state: 'detached' });
        await eventually(() => source.locator('button:focus').count()).toBe(1);
        const destination = page.getByRole('group', { name: 'Destination' });
        await tabTo(page, destination.getByLabel('Endpoint'));
        await type('beta');
        await tabTo(page, destination.getByLabel('Path'));
        await type('typed/');
        await eventually(() => destination.getByLabel('Path').inputValue()).toBe('typed/');
        await press('Enter');
        await eventually(() => heading(page)).toBe('by-keyboard.txt');
        await page.locator('.subtitle').getByText('Completed').waitFor();
        expect(readFileSync(join(beta.root, 'typed', 'by-keyboard.txt'), 'utf8')).toBe('typed');
      });

      test(
        'every page is accessible, and fits the screen, at each width and in each theme',
        LONG,
        async () => {
          const id = await submit(
            console.installation,
            'sftp://alpha/a-name-that-is-as-long-as-names-are'.padEnd(200, 'x'),
            'sftp://beta/',
          );
          await untilStatus(console.installation, id, 'failed');
          const page = await visitSignedIn('/console/transfers');
          for (const path of [
            // A few rows: 50 of them would look the same.
            '/console/transfers?status=failed',
            '/console/transfers/new',
            `/console/transfers/${id}?as_of=0`,
            '/console/nowhere',
          ]) {
            await page.goto(path);
            await page.locator('h1').waitFor();
            await eventually(() => page.locator('[aria-busy=true]').count()).toBe(0);
            await expectGoodLooks(page);
          }
        },
      );
    },
  );
});
