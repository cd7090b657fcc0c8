import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import type { Role } from '../../src/domain/role.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectNoSidewaysScroll,
  provideKey,
} from '../support/console/console.ts';
import { beginSession } from '../support/console/pages.ts';
import { useConsole } from '../support/console/use-console.ts';
import { TRANSFER_EVENTS } from '../support/domain/samples.ts';
import { freePort } from '../support/network/free-port.ts';
import { LONG } from '../support/run/long.ts';
import { configureEndpoint } from '../support/service/installation.ts';
import {
  addDeliveries,
  addWebhook,
  appendEvents,
  appendTransfer,
} from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const NOT_ALLOWED = 'Not allowed';
/** Each page that not every role may open. */
const RESTRICTED: [path: string, scope: string, allowed: Role[]][] = [
  ['/console/operations', 'admin', ['admin']],
  ['/console/audit', 'audit:all', ['auditor', 'admin']],
  ['/console/checkpoints', 'audit:all', ['auditor', 'admin']],
  ['/console/settings/api-keys', 'admin', ['admin']],
  ['/console/settings/endpoints/new', 'admin', ['admin']],
  ['/console/settings/endpoints/end_none/edit', 'admin', ['admin']],
  ['/console/transfers/new', 'transfers:write', ['operator', 'admin']],
];

await describeConsole('roles in the console', () => {
  const console = useConsole();

  /** Opens a page with a session of the role. */
  async function visitAs(role: Role, path: string): Promise<Page> {
    await console.installation.sql`delete from work.rate_windows`;
    const { key } = await provideKey(console.installation, { name: `The ${role}`, role });
    const page = await console.visit('/health/live');
    await beginSession(page, console.url, key);
    await page.goto(path);
    return page;
  }

  const title = (page: Page) => page.getByRole('heading', { level: 1 });

  async function expectPages(page: Page, role: Role): Promise<void> {
    for (const [path, scope, allowed] of RESTRICTED) {
      await page.goto(path);
      if (allowed.includes(role)) {
        await title(page).filter({ hasNotText: NOT_ALLOWED }).waitFor();
        continue;
      }
      await title(page).filter({ hasText: NOT_ALLOWED }).waitFor();
      await eventually(() => page.title()).toBe('Not allowed · Waybill');
      await page.getByText(`Your role ${role} does not include this page`).waitFor();
      await page.getByText(scope, { exact: true }).waitFor();
      expect(await page.locator('main').getByRole('button').count()).toBe(0);
      expect(await page.locator('main').getByRole('textbox').count()).toBe(0);
    }
  }

  test('a page that a role may not open says so, and offers nothing of it', LONG, async () => {
    const asked: string[] = [];
    const page = await visitAs('viewer', '/console');
    page.on('response', (answer) => answer.status() === 403 && asked.push(answer.url()));
    await expectPages(page, 'viewer');
    expect(asked).toEqual([]);
    await expectAccessible(page);
    await expectNoSidewaysScroll(page);
    await page.getByRole('link', { name: 'Open Home' }).click();
    await title(page).filter({ hasText: 'Home' }).waitFor();
  });

  test.for(['operator', 'auditor', 'admin'] as const)(
    'the role %s opens its own pages only',
    LONG,
    async (role) => {
      await expectPages(await visitAs(role, '/console'), role);
      console.pardonPolls(404);
    },
  );

  test('the first steps are those that the role may take', async () => {
    for (const [role, steps] of [
      ['viewer', []],
      ['operator', ['Create a transfer', 'Register a webhook']],
    ] as const) {
      const page = await visitAs(role, '/console/transfers');
      await page.getByRole('heading', { name: 'No transfers yet' }).waitFor();
      expect(await page.locator('.steps a').allInnerTexts()).toEqual(steps);
    }
  });

  test('a viewer selects no failed deliveries, and tests no endpoint', LONG, async () => {
    const { installation } = console;
    const endpointId = await configureEndpoint(installation, {
      name: 'partner',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: await freePort(),
      username: 'nobody',
      password: 'none',
    });
    const webhookId = await addWebhook(installation, 'https://receiver.example.com/', [
      'transfer.failed',
    ]);
    await addDeliveries(installation.sql, 1, { webhookId });
    for (const [role, count] of [
      ['viewer', 0],
      ['operator', 1],
    ] as const) {
      const page = await visitAs(role, '/console/webhooks/failed-deliveries');
      await page.getByRole('link', { name: 'transfer.failed' }).waitFor();
      expect(await page.getByRole('button', { name: /^Retry/ }).count()).toBe(3 * count);
      expect(await page.getByRole('checkbox').count()).toBe(2 * count);
      await page.goto(`/console/settings/endpoints/${endpointId}`);
      await page.getByRole('heading', { name: 'Configuration' }).waitFor();
      expect(await page.getByRole('heading', { name: 'Test', exact: true }).count()).toBe(count);
    }
  });

  test('an auditor learns from the audit log whose key caused an event', LONG, async () => {
    const { store } = console.installation;
    const { transferId } = await appendTransfer(store, ['admitted']);
    const actor = `key:${console.keyId}`;
    const cancelled = [TRANSFER_EVENTS.cancelled];
    await appendEvents(store, `transfer-${transferId}`, cancelled, 'acc_default', new Date(), {
      actor,
    });
    const page = await visitAs('auditor', `/console/transfers/${transferId}`);
    await page.getByRole('link', { name: actor }).click();
    await title(page).filter({ hasText: 'Audit log' }).waitFor();
    await page.getByRole('link', { name: 'Test administrator' }).first().waitFor();
  });
});
