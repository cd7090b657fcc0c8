import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test, vi } from 'vitest';
import { pauseEndpoint } from '../../src/commands/endpoints.ts';
import { revokeKey } from '../../src/commands/keys.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectGoodLooks,
  provideKey,
} from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureEndpoint, submit } from '../support/service/installation.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const AUDIT = '/console/audit';

await describeConsole('the audit log in the console', () => {
  const console = useConsole();
  let endpoint: string;
  let revoked: string;

  const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text });

  beforeAll(async () => {
    const { installation, keyId } = console;
    const { commands } = installation;
    endpoint = await configureEndpoint(installation, {
      name: 'bank',
      protocol: 's3',
      bucket: 'bucket',
      access_key_id: 'id',
      secret_access_key: 'secret',
    });
    await pauseEndpoint(commands, endpoint, { ...CAUSE, actor: `console:${keyId}` });
    revoked = (await provideKey(installation, { name: 'leaked', scopes: ['transfers:read'] })).id;
    await revokeKey(commands, revoked, {
      ...CAUSE,
      actor: 'person:ann@example.com (248289761001)',
    });
    expect(await commands.catchUp('audit')).toBe(true);
  });

  test('finds who paused an endpoint, and links to it', LONG, async () => {
    const page = await console.visitSignedIn('/console/transfers');
    await page.getByRole('link', { name: 'Audit log' }).click();
    await page.getByRole('heading', { level: 1, name: 'Audit log' }).waitFor();
    await page.getByLabel('Subject: name or id').fill('bank');
    await page.getByLabel('Subject: name or id').press('Enter');
    await page.getByLabel('Event').selectOption('Endpoint paused');
    await eventually(() => page.url()).toContain('?subject=bank&type=endpoint.paused');
    await eventually(() => page.getByRole('row').count()).toBe(2);
    await eventually(() => rowOf(page, 'Endpoint paused').innerText()).toContain(
      'Test administrator',
    );
    await rowOf(page, 'Endpoint paused').getByRole('link', { name: 'bank' }).click();
    await page.getByRole('heading', { level: 1, name: 'bank' }).waitFor();
    expect(page.url()).toContain(endpoint);
  });

  test('shows who read the history of a transfer, and from where', LONG, async () => {
    const id = await submit(console.installation, 'sftp://bank/out/read.csv', 's3://bank/in/');
    const page = await console.visitSignedIn(`/console/transfers/${id}`);
    await page.getByRole('heading', { name: 'read.csv' }).first().waitFor();
    await page.goto(`${console.url}${AUDIT}?kind=access&subject=${id}`);
    const row = rowOf(page, 'History read');
    // The event appears about a second after the read.
    await expect
      .poll(async () => {
        await page.reload();
        await page.getByRole('heading', { level: 1, name: 'Audit log' }).waitFor();
        return row.count();
      })
      .toBe(1);
    expect(await row.innerText()).toMatch(/Test administrator[\s\S]*127\.0\.0\.1/);
    await row.getByRole('link', { name: 'read.csv' }).click();
    await page.getByRole('heading', { name: 'read.csv' }).first().waitFor();
  });

  test(
    "finds who revoked a key, the event's data, and all that this person did",
    LONG,
    async () => {
      const page = await console.visitSignedIn(`${AUDIT}?type=key.revoked`);
      const row = rowOf(page, 'API key revoked');
      await row.waitFor();
      expect(await row.innerText()).toContain('leaked');
      expect(await row.innerText()).toMatch(/\d{4}-\d{2}-\d{2}\s+\d{2}:\d{2}:\d{2}\.\d{3}/);
      await row.getByRole('button', { name: 'Details of API key revoked' }).click();
      const dialog = page.getByRole('dialog');
      for (const text of ['person:ann@example.com (248289761001)', `key-${revoked}`, 'revoked_at'])
        await dialog.getByText(text).first().waitFor();
      await expectAccessible(page);
      await dialog.getByRole('button', { name: 'Close' }).click();
      await page.getByLabel('Event').selectOption('All');
      await eventually(() => page.getByRole('row').count()).toBeGreaterThan(2);
      await row.getByRole('link', { name: 'ann@example.com' }).click();
      await eventually(() => page.getByRole('row').count()).toBe(2);
      expect(page.url()).toContain('actor=person');
      await page.getByLabel('Actor').fill('nobody');
      await page.getByLabel('Actor').press('Enter');
      await page.getByRole('heading', { name: 'No events match' }).waitFor();
      expect(await page.getByRole('button', { name: 'Export CSV' }).isDisabled()).toBe(true);
      const ofFile = page.getByRole('link', { name: 'Search the transfers for it' });
      expect(await ofFile.count()).toBe(0);
      await page.goto('/console/audit?subject=a%20file.csv');
      expect(await ofFile.getAttribute('href')).toBe('/console/transfers?q=a+file.csv');
      await page.getByRole('heading', { name: 'No events match' }).waitFor();
      await page.getByRole('link', { name: 'Show all' }).click();
      await row.waitFor();
    },
  );

  test('is exported as filtered', async () => {
    const page = await console.visitSignedIn(`${AUDIT}?kind=endpoint`);
    await rowOf(page, 'Endpoint paused').waitFor();
    const saving = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export CSV' }).click();
    const saved = await saving;
    expect(saved.suggestedFilename()).toBe('audit.csv');
    const lines = (await readFile(await saved.path(), 'utf8')).trim().split('\r\n');
    expect(lines.map((line) => line.split(',')[4])).toEqual([
      'title',
      'Endpoint paused',
      'Endpoint created',
    ]);
  });

  test('has links that are large enough to hit', LONG, async () => {
    const page = await console.visitSignedIn(AUDIT);
    await rowOf(page, 'API key revoked').waitFor();
    const small = `[...document.querySelectorAll('tbody a')].filter((link) => {
      link.scrollIntoView({ block: 'center' });
      const { left, top, height } = link.getClientRects()[0];
      return [-11.5, 11.5].some((distance) =>
        document.elementFromPoint(left + 4, top + height / 2 + distance) !== link);
    }).map((link) => link.outerHTML)`;
    for (const width of [1280, 320]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await page.evaluate(small)).toEqual([]);
    }
  });

  test('shows the examples in empty fields in the colour of other quiet text', async () => {
    const page = await console.visitSignedIn(AUDIT);
    await page.emulateMedia({ colorScheme: 'dark' });
    const colours = `[
      getComputedStyle(document.querySelector('[placeholder]'), '::placeholder').color,
      getComputedStyle(document.querySelector('.subtitle')).color]`;
    const [example, quiet] = (await page.evaluate(colours)) as string[];
    expect(example).toBe(quiet);
  });

  test('is accessible, and fits the screen, at each width and in each theme', LONG, async () => {
    const page = await console.visitSignedIn(AUDIT);
    await rowOf(page, 'API key revoked').waitFor();
    await expectGoodLooks(page);
  });
});
