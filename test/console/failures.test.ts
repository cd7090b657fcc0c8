import type { Page, Route } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import { newId } from '../../src/domain/ids.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  provideKey,
} from '../support/console/console.ts';
import { beginSession } from '../support/console/pages.ts';
import { turn, useConsole } from '../support/console/use-console.ts';
import { freePort } from '../support/network/free-port.ts';
import { LONG } from '../support/run/long.ts';
import { configureEndpoint } from '../support/service/installation.ts';
import { spawnService } from '../support/service/roles.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const API = '**/v1/**';

/** Notes each text that a screen reader reads from an alert, from now on. */
const LISTEN = `
  globalThis.announced = [];
  const alertOf = ({ target }) =>
    (target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement).closest('[role=alert]');
  new MutationObserver((changes) => {
    for (const change of changes) {
      const alert = alertOf(change);
      const isSame = change.type === 'characterData' && change.target.data === change.oldValue;
      if (alert && !isSame) announced.push(alert.innerText);
      for (const added of change.addedNodes)
        if (added.role === 'alert') announced.push(added.innerText);
    }
  }).observe(document.body,
    { subtree: true, childList: true, characterData: true, characterDataOldValue: true });`;

await describeConsole('failures in the console', () => {
  const console = useConsole();
  const alerts = (page: Page) => page.locator('main').getByRole('alert');
  const away = (page: Page) => alerts(page).filter({ hasText: 'Waybill does not answer' });

  test('a page whose service is away says it once, and loads when it is back', async () => {
    const page = await console.visitSignedIn('/console/webhooks');
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
    await page.route(API, (route) => route.abort());
    await page.getByRole('link', { name: 'Audit log' }).click();
    await away(page).waitFor();
    await page.getByText('Loading …').waitFor();
    expect(await alerts(page).count()).toBe(1);
    await expectAccessible(page);
    await page.unroute(API);
    await page.getByRole('table', { name: 'Events, newest first' }).waitFor();
    expect(await alerts(page).count()).toBe(0);
    console.pardon('lost');

    // An answer may also break off.
    await page.route('**/v1/webhooks', (route) => route.fulfill({ body: '{"data":[' }));
    await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await away(page).waitFor();
    await page.unroute('**/v1/webhooks');
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
    expect(await alerts(page).count()).toBe(0);
  });

  test('a page whose service is frozen says so, and loads when it answers', LONG, async () => {
    const page = await console.visitSignedIn('/console/webhooks');
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
    const frozen: Route[] = [];
    await page.route(API, (route) => void frozen.push(route));
    await page.getByRole('link', { name: 'Audit log' }).click();
    await away(page).waitFor();
    await page.getByText('Loading …').waitFor();
    // The requests of before are never answered, as over a connection that broke meanwhile.
    await page.unroute(API);
    await page.getByRole('table', { name: 'Events, newest first' }).waitFor();
    expect(await alerts(page).count()).toBe(0);
    expect(frozen.length).toBeGreaterThan(1);
    await Promise.all(frozen.map((route) => route.abort().catch(() => undefined)));
  });

  test('a live page of a frozen service says since when it is not live', LONG, async () => {
    const port = await freePort();
    const service = await spawnService(
      {
        ...console.installation.environment,
        WAYBILL_LOG_LEVEL: 'info',
        WAYBILL_PORT: String(port),
      },
      ['api'],
    );
    const url = `http://127.0.0.1:${port}`;
    const page = await console.visit(`${url}/health/live`, {});
    try {
      await beginSession(page, url, console.key);
      for (const path of ['/console/transfers', '/console/operations']) {
        await page.goto(`${url}${path}`);
        const live = page.getByText('● Live', { exact: true });
        await live.waitFor();
        service.signal('SIGSTOP');
        await page.getByText(/^▲ Not live since \d{4}-/).waitFor();
        await away(page).waitFor();
        await expectAccessible(page);
        service.signal('SIGCONT');
        await live.waitFor();
        expect(await page.getByText('Not live').count()).toBe(0);
      }
    } finally {
      // Before the service ends the streams of the page.
      await page.close();
      service.signal('SIGCONT');
      await service.stop();
      // After the freeze, the service and its stores may have given up connections of before.
      console.pardonPolls('broken');
      console.pardonPolls(503);
    }
  });

  test('Home says once that the service is away, and keeps what it has shown', LONG, async () => {
    const page = await console.visitSignedIn('/console');
    await page.getByText('All is well').waitFor();
    await page.route(API, (route) => route.abort());
    await page.getByRole('link', { name: 'Flows', exact: true }).click();
    await page.getByRole('link', { name: 'Home', exact: true }).click();
    await away(page).waitFor();
    await page.getByText('No transfer failed in 24 hours.').waitFor();
    expect(await page.getByText('could not check').count()).toBe(0);
    console.pardon('lost');
  });

  test(
    'rows of the filter before are dimmed until the answer comes, which is said',
    LONG,
    async () => {
      for (const state of ['completed', 'cancelled'] as const)
        await appendTransfer(
          console.installation.store,
          state === 'completed' ? ['admitted', 'started', state] : [state],
          { file_name: `${state}.csv` },
        );
      const page = await console.visitSignedIn('/console/transfers?status=completed');
      const row = (name: string) => page.getByRole('row').filter({ hasText: name });
      const opacity = () =>
        page.evaluate("getComputedStyle(document.querySelector('.list')).opacity");
      await row('completed.csv').waitFor();
      expect(await opacity()).toBe('1');
      const held = Promise.withResolvers<void>();
      await page.route('**/v1/transfers?*', async (route) => {
        await held.promise;
        await route.continue();
      });
      await page.getByLabel('State').selectOption('Cancelled');
      await page.getByRole('status').filter({ hasText: 'Loading …' }).waitFor();
      await row('completed.csv').waitFor();
      await eventually(opacity).toBe('0.5');
      held.resolve();
      await row('cancelled.csv').waitFor();
      expect(await opacity()).toBe('1');
      expect(await row('completed.csv').count()).toBe(0);
      // A screen reader says that the answer has come.
      await page.getByRole('status').filter({ hasText: '1 found' }).waitFor({ state: 'attached' });
    },
  );

  test('an error that stays is read once, whatever the ids of its requests', LONG, async () => {
    const page = await console.visitSignedIn('/console/webhooks/failed-deliveries');
    await page.getByRole('heading', { name: 'No failed deliveries' }).waitFor();
    await page.evaluate(LISTEN);
    let requests = 0;
    const reject = (route: Route) =>
      route.fulfill({
        status: 503,
        json: {
          title: 'Unavailable',
          detail: 'Postgres is away',
          code: 'unavailable',
          request_id: `req_${requests++}`,
        },
      });
    await page.route('**/v1/deliveries**', reject);
    await alerts(page).getByText('Postgres is away').waitFor();
    const first = requests;
    await eventually(() => requests).toBeGreaterThan(first + 1);
    expect(await page.evaluate('announced.length')).toBe(1);
    await page.unroute('**/v1/deliveries**');
    await eventually(() => alerts(page).count()).toBe(0);
    console.pardon(503);
  });

  test('a request that can never succeed offers no Retry', LONG, async () => {
    const page = await console.visitSignedIn('/console/transfers?from_date=yesterday');
    await alerts(page).getByText('from_date').waitFor();
    expect(await page.getByRole('button', { name: 'Retry' }).count()).toBe(0);
    await page.getByRole('link', { name: 'Clear filters' }).click();
    await eventually(() => alerts(page).count()).toBe(0);
    console.pardon(400);
  });

  test('a transfer that is gone, or of another account, leaves the form empty', LONG, async () => {
    const page = await console.visitSignedIn(`/console/transfers/new?like=${newId('txr')}`);
    await page.getByText('There is no such transfer').waitFor();
    await page.getByRole('button', { name: 'Create transfer' }).waitFor();
    await expectAccessible(page);
    console.pardon(404);
  });

  test('a slow answer opens no page when the user has left', LONG, async () => {
    await configureEndpoint(console.installation, {
      name: 'partner',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: await freePort(),
      username: 'nobody',
      password: 'none',
    });
    const page = await console.visitSignedIn('/console/transfers/new');
    await page.getByLabel('Path').first().fill('/out/report.csv');
    let answer = () => {};
    await page.route('**/v1/transfers', async (route) => {
      if (route.request().method() === 'POST')
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
      await route.continue();
    });
    const created = page.waitForResponse((response) => response.status() === 201);
    await page.getByRole('button', { name: 'Create transfer' }).click();
    await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await page.getByRole('button', { name: 'Leave' }).click();
    await page.getByRole('heading', { level: 1, name: 'Webhooks' }).waitFor();
    answer();
    await (await created).finished();
    // A click that is later than what the answer would open.
    await page.getByRole('button', { name: 'New webhook' }).click();
    await page.getByRole('dialog', { name: 'New webhook' }).waitFor();
    expect(page.url()).toBe(`${console.url}/console/webhooks`);
  });

  test('a page whose code was not sent is opened when the service is back', LONG, async () => {
    const page = await console.visitSignedIn('/console/webhooks');
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
    const all = (url: URL) => /\/v1\/|\/assets\//.test(url.pathname);
    await page.route(all, (route) => route.abort());
    await page.getByRole('link', { name: 'Checkpoints' }).click();
    await page.getByRole('heading', { level: 1, name: 'Page not loaded' }).waitFor();
    await away(page).waitFor();
    await page.unroute(all);
    await page.getByRole('heading', { level: 1, name: 'Checkpoints' }).waitFor();
    console.pardon('lost');
  });

  test('a page says that it loads while its code, or the whole console, is on its way', async () => {
    const page = await console.visitSignedIn('/console/webhooks');
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
    const loading = page.getByRole('status').filter({ hasText: 'Loading …' });
    const isCode = (url: URL) => url.pathname.endsWith('.js');
    const whileCodeIsHeld = async (open: () => Promise<unknown>, title: string) => {
      const sent = Promise.withResolvers<void>();
      await page.route(isCode, (route) => sent.promise.then(() => route.continue()));
      await open();
      await loading.waitFor();
      sent.resolve();
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
      await eventually(() => loading.count()).toBe(0);
      await page.unroute(isCode);
    };
    const link = page.getByRole('link', { name: 'Checkpoints' });
    await whileCodeIsHeld(() => link.click(), 'Checkpoints');
    const { href } = new URL('/console/audit', console.url);
    await whileCodeIsHeld(() => page.goto(href, { waitUntil: 'commit' }), 'Audit log');
  });

  test('a form says once that its request had no answer', LONG, async () => {
    const page = await console.visitSignedIn('/console/settings/endpoints/new');
    await page.getByLabel('Name', { exact: true }).fill('partner');
    await page.route(API, (route) => route.abort());
    await page.getByRole('button', { name: 'Create endpoint' }).click();
    await alerts(page).filter({ hasText: 'No response' }).waitFor();
    await page.locator('main > .away').waitFor({ state: 'attached' });
    expect(await alerts(page).count()).toBe(1);
    await expectAccessible(page);
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('partner');
    console.pardon('lost');
  });

  test('a form in a dialog says once that its request had no answer', LONG, async () => {
    const page = await console.visitSignedIn('/console/settings/api-keys');
    await page.getByRole('button', { name: 'Create key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('nightly');
    await page.route(API, (route) => route.abort());
    await dialog.getByRole('button', { name: 'Create key' }).click();
    const alert = dialog.getByRole('alert');
    await alert.filter({ hasText: 'No response' }).waitFor();
    expect(await alert.count()).toBe(1);
    await expectAccessible(page);
    console.pardon('lost');
  });

  test('a dialog has the messages that the page behind it cannot show', LONG, async () => {
    const account = 'acc_b';
    await provideKey(console.installation, { name: 'b', scopes: ['transfers:read'], account });
    const page = await console.visitSignedIn('/console/settings/api-keys');
    const switched = Promise.withResolvers<Route>();
    await page.route('**/v1/session/account', (route) => switched.resolve(route));
    await page.getByLabel('Account').selectOption('acc_b');
    const route = await switched.promise;
    await page.getByRole('button', { name: 'Create key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await page.evaluate(`
      globalThis.inDialog = [];
      new MutationObserver((changes) => {
        for (const { addedNodes } of changes)
          for (const added of addedNodes)
            if (added.matches?.('.toasts p')) inDialog.push(added.closest('dialog:modal') !== null);
      }).observe(document.body, { subtree: true, childList: true });`);
    await route.fulfill({
      status: 503,
      json: { title: 'Unavailable', detail: 'Postgres is away', code: 'unavailable' },
    });
    await eventually(() => page.evaluate('inDialog')).toEqual([true]);
    console.pardon(503);

    await page.route(API, (route) => route.abort());
    await page.evaluate(turn('visible'));
    const notice = dialog.getByRole('alert').filter({ hasText: 'Waybill does not answer' });
    await notice.waitFor();
    await expectAccessible(page);
    await page.unroute(API);
    await notice.waitFor({ state: 'detached' });
    console.pardon('lost');
  });
});
