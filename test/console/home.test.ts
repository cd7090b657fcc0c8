import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import { loseConnectivity, pauseEndpoint, removeEndpoint } from '../../src/commands/endpoints.ts';
import { load } from '../../src/commands/handle.ts';
import { startTransfer } from '../../src/commands/transfers.ts';
import type { EndpointList } from '../../src/contract/endpoints/answers.ts';
import { endpointDecider } from '../../src/domain/endpoints/decider.ts';
import type { Endpoint } from '../../src/domain/endpoints/endpoint.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { type AttemptFailure, transferError } from '../../src/domain/transfers/errors.ts';
import { noteRejection } from '../../src/processes/endpoints/sign-in-holds.ts';
import { listEndpoints } from '../../src/projections/catalog/queries.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectAccessibleInBothThemes,
  expectGoodLooks,
  expectNoSidewaysScroll,
  provideKey,
} from '../support/console/console.ts';
import { signIn } from '../support/console/pages.ts';
import { turn, useConsole } from '../support/console/use-console.ts';
import { FIGURES, T0, TRANSFER_EVENTS, transferCreated } from '../support/domain/samples.ts';
import { startSshSignInServer } from '../support/file-servers/sftp/sign-in-server.ts';
import { freePort } from '../support/network/free-port.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureEndpoint } from '../support/service/installation.ts';
import {
  addDeliveries,
  addWebhook,
  appendEvents,
  appendTransfer,
} from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const HOME = '/console';
/** Two hours after `T0`, at which the transfers are created. */
const NOON = '2026-03-01T12:00:00.000Z';
/** On the day before, but within 24 hours. */
const EVENING = '2026-02-28T20:00:00.000Z';
const BEFORE = '2026-02-28T11:00:00.000Z';
const RECENT = 'from_date=2026-02-28T12%3A00%3A00.000Z';

/** Returns the counts of tiles that take two lines, or leave their tile. */
const BROKEN_COUNTS = `
  [...document.querySelectorAll('.tiles strong')].filter((count) => {
    const text = document.createRange();
    text.selectNodeContents(count);
    const { right } = count.parentElement.getBoundingClientRect();
    return text.getClientRects().length > 1 || text.getBoundingClientRect().right > right;
  }).map((count) => count.textContent)`;

await describeConsole('the home page of the console', () => {
  const console = useConsole();
  let endpointId: string;

  /** Opens Home at noon of the day of the transfers. */
  async function openHome(): Promise<Page> {
    const page = await console.visitSignedIn(HOME, {});
    await page.clock.setFixedTime(NOON);
    await page.goto(HOME);
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
    return page;
  }
  const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();
  const finding = (page: Page, title: string) =>
    page.locator('.notice').filter({ has: page.getByRole('heading', { name: title }) });
  const tile = (page: Page, label: string) =>
    page
      .getByRole('region', { name: 'Transfers of the last 24 hours' })
      .getByRole('link', { name: label });
  /** What a screen reader adds to a link of the navigation. */
  const described = async (page: Page, name: string) => {
    const link = page
      .getByRole('navigation', { name: 'Console' })
      .getByRole('link', { name, exact: true });
    const id = await link.getAttribute('aria-describedby');
    return id && (await page.locator(`#${id} .visually-hidden`).allTextContents()).join('');
  };

  const retry = (id: string) =>
    fetch(`${console.url}/v1/transfers/${id}/retry`, {
      method: 'POST',
      headers: { authorization: `Bearer ${console.key}` },
    });
  /** Waits until the table of transfers has them. */
  const untilShown = (ids: string[]) =>
    eventually(
      async () =>
        (await console.installation.sql`select from read.transfers where transfer_id = any(${ids})`)
          .count,
    ).toBe(ids.length);

  test('shows the first steps in a new installation, and that all is well', async () => {
    const page = await console.visitSignedIn(HOME);
    await page.getByRole('heading', { name: 'No endpoints yet' }).waitFor();
    await page.getByText('All is well').waitFor();
    expect(await page.getByRole('heading', { name: 'Needs attention' }).count()).toBe(0);
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Transfers', exact: true }).click();
    await eventually(() => heading(page)).toBe('Transfers');
    await page.getByRole('link', { name: 'Waybill' }).click();
    await eventually(() => heading(page)).toBe('Home');
    await page.route('**/v1/**', (route) => route.abort());
    await page.evaluate(turn('visible'));
    const away = page.getByRole('alert').filter({ hasText: 'Waybill does not answer' });
    await away.waitFor();
    await page.unroute('**/v1/**');
    await page.evaluate(turn('visible'));
    await away.waitFor({ state: 'detached' });
    console.pardon('lost');
    expect(await page.getByRole('link', { name: 'Home' }).getAttribute('aria-current')).toBe(
      'page',
    );
  });

  test(
    'counts the transfers of 24 hours by state, and failures by endpoint and reason',
    LONG,
    async () => {
      const { installation } = console;
      const { store, sql, commands } = installation;
      endpointId = await configureEndpoint(installation, {
        name: 'held',
        protocol: 'sftp',
        host: '127.0.0.1',
        port: await freePort(),
        username: 'nobody',
        password: 'none',
        host_key_sha256: `SHA256:${'A'.repeat(43)}`,
      });
      await pauseEndpoint(commands, endpointId, CAUSE);
      const held = { source_endpoint_id: endpointId, destination_endpoint_id: endpointId };
      const { transferId: moving } = await appendTransfer(store, [], held);
      const job = () => sql`select from work.transfer_jobs where transfer_id = ${moving}`;
      await eventually(async () => (await job()).count).toBe(1);
      const claimId = newId('clm');
      await sql`
      update work.transfer_jobs
         set claim_id = ${claimId}, claimed_by = 'test', lease_until = now() + interval '1 hour'
       where transfer_id = ${moving}`;
      await startTransfer(commands, moving, { claimId, source: null, destination: null }, CAUSE);

      // A retry of these waits at the paused endpoint.
      const [source_uri, destination_uri] = ['sftp://held/out/a.csv', 'sftp://held/in/a.csv'];
      const uris = {
        ...held,
        source: source_uri,
        source_uri,
        destination: destination_uri,
        destination_uri,
      };
      const fail = async (failure: AttemptFailure) => {
        const transferId = newId('txr');
        const error = transferError(failure, 1, T0);
        await appendEvents(store, `transfer-${transferId}`, [
          { type: 'transfer.created', data: transferCreated({ transfer_id: transferId, ...uris }) },
          TRANSFER_EVENTS.admitted,
          {
            type: 'transfer.in_progress',
            data: {
              ...TRANSFER_EVENTS.started.data,
              source_endpoint: null,
              destination_endpoint: null,
            },
          },
          { type: 'transfer.failed', data: { error, failed_at: T0, ...FIGURES } },
        ]);
        return { transferId };
      };
      const slow: AttemptFailure = { code: 'timeout', message: 'no answer', phase: 'read' };
      const others = await Promise.all([
        appendTransfer(store, ['admitted', 'started', 'completed']),
        appendTransfer(store, ['cancelled']),
        fail(slow),
        fail(slow),
        appendTransfer(store, ['cancelled'], { created_at: EVENING }),
        appendTransfer(store, ['admitted', 'started', 'failed'], { created_at: BEFORE }),
      ]);
      const { transferId: rejected } = await fail({
        code: 'auth_failed',
        message: 'Authentication failed',
        phase: 'source_sign_in',
      });
      await untilShown([moving, rejected, ...others.map(({ transferId }) => transferId)]);

      const page = await openHome();
      await eventually(() => tile(page, 'All').innerText()).toMatch(/\s7$/);
      for (const [label, count] of [
        ['Pending', 0],
        ['Queued', 0],
        ['In progress', 1],
        ['Completed', 1],
        ['Failed', 3],
        ['Cancelled', 2],
      ] as const)
        await eventually(() => tile(page, label).innerText()).toMatch(new RegExp(`\\s${count}$`));
      await eventually(() => described(page, 'Transfers')).toBe('1 moving, 3 failed in 24 hours');

      // One of the cancelled ones is from the evening before.
      const hours = page.getByRole('figure').filter({ hasText: 'in the hour from' });
      const hour = hours.getByRole('slider', { name: 'Transfers by the hour of their creation' });
      await hour.press('End');
      expect(await hour.getAttribute('aria-valuetext')).toBe(
        '10:00: 6 created: 3 failed, 1 cancelled, 1 completed, 1 in progress',
      );
      await hour.press('Home');
      expect(await hour.getAttribute('aria-valuetext')).toBe(
        '2026-02-28 20:00: 1 created: 1 cancelled',
      );
      await hours.getByRole('link', { name: '3 of 6 transfers' }).click();
      await eventually(() => page.url()).toContain('status=failed&from_date=2026-03-01T10%3A00');
      await page.getByText('1–3 of 3').waitFor();
      await page.goBack();

      const rows = page.getByRole('table', { name: /Reasons/ }).getByRole('row');
      expect(await rows.count()).toBe(3);
      expect(await rows.nth(1).innerText()).toMatch(/took too long[\s\S]*2[\s\S]*Check its load/);
      expect(await rows.nth(2).innerText()).toMatch(/Sign-in rejected[\s\S]*1[\s\S]*user name/);

      const failedAt = page.getByRole('table', { name: /Endpoints/ });
      expect(await failedAt.getByRole('row').count()).toBe(2);
      expect(await failedAt.getByRole('row').nth(1).innerText()).toMatch(
        /held[\s\S]*3[\s\S]*10:00:00[\s\S]*2 hours ago/,
      );
      await failedAt.getByRole('link', { name: 'held' }).click();
      await eventually(() => page.url()).toBe(
        `${console.url}/console/transfers?status=failed&error_endpoint_id=${endpointId}&${RECENT}`,
      );
      await page.getByText('1–3 of 3').waitFor();
      const condition = page.getByText('Failed at the endpoint held');
      await condition.waitFor();
      await page.getByLabel('State').selectOption('Completed');
      await condition.waitFor({ state: 'detached' });
      await page.getByText('1–1 of 1').waitFor();
      await page.goto(HOME);

      const list = (retried: boolean) =>
        `${console.url}/console/transfers?status=failed&retried=${retried}&${RECENT}`;
      for (const [reason, code, shown] of [
        ['The server took too long', 'timeout', '1–2 of 2'],
        ['Sign-in rejected', 'auth_failed', '1–1 of 1'],
      ] as const) {
        await page.getByRole('link', { name: reason }).click();
        await eventually(() => page.url()).toBe(
          `${console.url}/console/transfers?status=failed&error_code=${code}&${RECENT}`,
        );
        await page.getByText(shown).waitFor();
        expect(await page.getByLabel('Reason').inputValue()).toBe(code);
        await page.goBack();
      }
      const failed = finding(page, '3 transfers failed in 24 hours');
      await failed.getByText(/^First failure .*, latest /).waitFor();
      await failed.getByRole('link').click();
      await eventually(() => page.url()).toBe(list(false));
      await page.getByText('1–3 of 3').waitFor();
      await page.goBack();
      await tile(page, 'Completed').click();
      await page.getByText('1–1 of 1').waitFor();
      await page.goBack();

      // What was retried needs no more attention: the retry does, if it fails as well.
      expect((await retry(rejected)).status).toBe(201);
      await page.reload();
      await finding(page, '2 transfers failed in 24 hours')
        .getByText('1 other was retried')
        .waitFor();
      await page.getByRole('link', { name: '1 other' }).click();
      await eventually(() => page.url()).toBe(list(true));
      await page.getByText('1–1 of 1').waitFor();
      await page.getByLabel('Retries').selectOption('Not retried');
      await page.getByText('1–2 of 2').waitFor();
      // A row that is retried leaves the list.
      const [first] = others.slice(2, 4);
      await retry(first?.transferId as string);
      await page.getByText('1–1 of 1').waitFor();
      await page.goto(HOME);
      await eventually(() => described(page, 'Transfers')).toBe('1 moving, 1 failed in 24 hours');
      // And it enters the list of those that were retried.
      await page.goto(list(true));
      await page.getByText('1–2 of 2').waitFor();
      await page.locator('.subtitle').getByText('Live').waitFor();
      await retry(others[3]?.transferId as string);
      await page.getByText('1–3 of 3').waitFor();
      await page.goto(HOME);
      await page.getByText('Each transfer that failed in 24 hours was retried.').waitFor();
      await eventually(() => described(page, 'Transfers')).toBe('1 moving');
    },
  );

  test('leads to an endpoint that rejects the sign-in', LONG, async () => {
    const { sql, commands } = console.installation;
    // It answers probes, so none of them takes the place of the rejection.
    const server = await startSshSignInServer('password', 'another');
    const id = await configureEndpoint(console.installation, {
      name: 'locked',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: server.port,
      username: 'me',
      password: 'wrong',
      host_key_sha256: server.hostKeySha256,
    });
    const rejecting = (await listEndpoints(sql)).find(({ endpoint_id }) => endpoint_id === id);
    await noteRejection(sql, rejecting as NonNullable<typeof rejecting>);
    const page = await openHome();
    const rejected = finding(page, '1 endpoint rejects the sign-in');
    await rejected.getByRole('link', { name: 'locked' }).waitFor();
    await rejected.getByText(/^locked first rejected .*: check its user name/).waitFor();
    await eventually(() => described(page, 'Endpoints')).toContain('1 rejects the sign-in');
    await rejected.getByRole('link', { name: 'Show endpoints that reject it' }).click();
    await page.getByText('Shows only endpoints that reject the sign-in').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'locked' });
    await row.getByText('Sign-in rejected').waitFor();
    await row.getByText('Authentication failed').waitFor();
    await row.getByText(/^First /).waitFor();
    await expectAccessibleInBothThemes(page);
    await row.getByRole('link', { name: 'locked' }).click();
    const health = page.getByRole('region', { name: 'Health' });
    await health.getByText('First error').waitFor();
    // A probe was answered, whatever the server says to the credentials.
    const fact = health.locator('dl > div').filter({ hasText: 'Answered in' });
    await eventually(() => fact.innerText()).toMatch(/\n\d+ ms$/);
    await removeEndpoint(commands, id, CAUSE);
    await server.stop();
    console.pardonPolls(404);
  });

  test('leads to an endpoint that is down', LONG, async () => {
    const { installation } = console;
    const { state } = await load(
      installation.store,
      endpointDecider,
      streamName('endpoint', endpointId),
    );
    const error = { code: 'connection_failed', message: 'connection refused' } as const;
    await loseConnectivity(
      installation.commands,
      state as Endpoint,
      { lastSuccessAt: null, error },
      CAUSE,
    );
    const page = await openHome();
    const down = finding(page, '1 endpoint is unreachable');
    await down.getByRole('link', { name: 'held' }).waitFor();
    // Read when it changes, which the relative times in the finding do each minute.
    const told = page.getByRole('region', { name: 'Needs attention' }).getByRole('status');
    await eventually(() => told.textContent()).toContain('Problem: 1 endpoint is unreachable');
    expect(await told.textContent()).not.toContain('ago');
    await eventually(() => described(page, 'Endpoints')).toBe('1 unreachable');
    // One number for all that is wrong: two red ones would not say which is which.
    await page.route('**/v1/endpoints', async (route) => {
      const response = await route.fetch();
      const [held] = ((await response.json()) as EndpointList).data;
      const failing = (name: string, code: string) => ({
        ...held,
        name,
        unreachable_since: null,
        health: { ...held?.health, error: { code, message: '', advice: '' } },
      });
      const data = [
        held,
        failing('locked', 'auth_failed'),
        failing('foreign', 'host_key_mismatch'),
      ];
      await route.fulfill({ response, json: { data } });
    });
    await page.reload();
    const all = '1 unreachable, 1 rejects the sign-in, 1 not trusted';
    await eventually(() => described(page, 'Endpoints')).toBe(all);
    const counts = page.locator('.counts').filter({ hasText: all });
    expect(await counts.locator('.status').count()).toBe(1);
    expect(await counts.locator('[aria-hidden]').innerText()).toBe('■ 3');
    const foreign = finding(page, '1 server is not trusted');
    await foreign.getByText('foreign server not trusted').waitFor();
    await foreign.getByRole('link', { name: 'Show servers that are not trusted' }).click();
    await page.getByText('Shows only endpoints whose servers are not trusted').waitFor();
    await page.goBack();
    await page.unroute('**/v1/endpoints');
    await page.reload();
    await eventually(() => described(page, 'Endpoints')).toBe('1 unreachable');
    await down.getByRole('link', { name: 'Show unreachable endpoints' }).click();
    await page.getByText('Shows only unreachable endpoints').waitFor();
    await page.getByRole('row').getByRole('link', { name: 'held' }).waitFor();
    await page.goBack();
    await down.getByRole('link', { name: 'held' }).click();
    await eventually(() => heading(page)).toBe('held');
  });

  test('leads to what has waited for long', LONG, async () => {
    const { store } = console.installation;
    const held = { source_endpoint_id: endpointId, destination_endpoint_id: endpointId };
    const { transferId } = await appendTransfer(store, [], held);
    const row = () =>
      console.installation.sql`select status from read.transfers where transfer_id = ${transferId}`;
    await eventually(async () => (await row())[0]?.status).toBe('queued');
    const page = await openHome();
    const waiting = finding(page, '1 queued transfer has waited for more than 15 minutes');
    await waiting.getByText('created 2 hours ago. The endpoint held is paused').waitFor();
    await page.setViewportSize({ width: 320, height: 800 });
    await expectNoSidewaysScroll(page);
    await waiting.getByRole('link', { name: 'Show queued transfers, oldest first' }).click();
    // The retries of another test wait too, for less long.
    await page.getByText('1–1 of 1').waitFor();
    await page.getByText(/^Created to .*\d/).waitFor();
  });

  test('leads to an expiring key', LONG, async () => {
    await provideKey(console.installation, {
      name: 'nightly',
      scopes: ['transfers:read'],
      expires_in: '2d',
    });
    const page = await console.visitSignedIn(HOME);
    const expiring = finding(page, '1 API key expires within 7 days');
    await expiring.getByText('nightly expires in 1 day').waitFor();
    await eventually(() => described(page, 'API keys')).toBe('1 expires soon');
    await expiring.getByRole('link').click();
    await page.getByRole('row').filter({ hasText: 'nightly' }).waitFor();
    expect(await page.getByRole('row').count()).toBe(2);
    await page.getByRole('link', { name: 'Show all keys' }).click();
    await page.getByRole('row').filter({ hasText: 'Test administrator' }).waitFor();
  });

  test('leads to failed deliveries', LONG, async () => {
    const { installation } = console;
    const webhookId = await addWebhook(installation, 'https://receiver.example.com/', [
      'transfer.failed',
    ]);
    await addDeliveries(installation.sql, 3, { webhookId });
    const page = await openHome();
    await eventually(() => described(page, 'Failed deliveries')).toBe('3 failed');
    const failed = finding(page, '3 webhook deliveries failed');
    await failed.getByRole('link', { name: 'Show failed deliveries' }).click();
    await page.getByText('1–3 of 3').waitFor();
  });

  test('is accessible with all findings, and fits each screen', LONG, async () => {
    // Another test has retried all that failed before.
    await appendTransfer(console.installation.store, ['admitted', 'started', 'failed']);
    const page = await openHome();
    for (const title of [
      '1 transfer failed in 24 hours',
      'waited for more than 15 minutes',
      'endpoint is unreachable',
      'deliveries failed',
      'expires within 7 days',
    ])
      await page.getByRole('heading', { name: title }).waitFor();
    await expectGoodLooks(page);
    await page.setViewportSize({ width: 320, height: 800 });
    const menu = page.getByRole('button', { name: 'Menu' });
    await menu.click();
    await expectAccessibleInBothThemes(page);
    await expectNoSidewaysScroll(page);
    await page.getByRole('link', { name: 'API keys' }).focus();
    await page.keyboard.press('Escape');
    await eventually(() => menu.getAttribute('aria-expanded')).toBe('false');
    expect(await menu.and(page.locator(':focus')).count()).toBe(1);
  });

  test('shows a viewer no part that needs another role', LONG, async () => {
    const { key } = await provideKey(console.installation, { name: 'reader', role: 'viewer' });
    const page = await console.visit('/console/sign-in');
    const asked: string[] = [];
    page.on('request', (sent) => asked.push(new URL(sent.url()).pathname));
    await signIn(page, key);
    await finding(page, 'endpoint is unreachable').waitFor();
    await finding(page, 'deliveries failed').waitFor();
    await tile(page, 'All').waitFor();
    await page.getByText('No transfer failed in 24 hours. Every flow lists its folder.').waitFor();
    expect(await finding(page, 'expires within 7 days').count()).toBe(0);
    expect(await page.getByRole('link', { name: 'API keys' }).count()).toBe(0);
    for (const path of ['/v1/keys', '/v1/projections', '/v1/movers'])
      expect(asked).not.toContain(path);
    expect(asked).toContain('/v1/endpoints');
    await expectAccessible(page);
  });

  test('keeps the digits of large counts together', LONG, async () => {
    await configureEndpoint(console.installation, {
      name: 'large',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: await freePort(),
      username: 'nobody',
      password: 'none',
    });
    const page = await console.visitSignedIn('/console/webhooks');
    await page.route('**/v1/transfers/summary**', async (route) => {
      const summary = await (await route.fetch()).json();
      for (const status of Object.keys(summary.by_status)) summary.by_status[status] = 1_234_567;
      await route.fulfill({ json: { ...summary, total: 12_345_678 } });
    });
    await page.goto(HOME);
    await tile(page, 'All').getByText('12,345,678').waitFor();
    for (const width of [320, 1024, 1160, 1440]) {
      await page.setViewportSize({ width, height: 800 });
      const broken = await page.evaluate(BROKEN_COUNTS);
      expect(broken).toEqual([]);
    }
  });

  test('keeps the other parts if one cannot be loaded', LONG, async () => {
    const page = await console.visit('/console/sign-in');
    await page.route('**/v1/endpoints', (route) =>
      route.fulfill({
        status: 503,
        json: { title: 'Unavailable', detail: 'Postgres is away', code: 'unavailable' },
      }),
    );
    await signIn(page, console.key);
    const alarm = page.locator('.notice').filter({ hasText: 'could not check endpoints' });
    await alarm.getByText('Postgres is away').waitFor();
    await finding(page, 'deliveries failed').waitFor();
    await tile(page, 'All').waitFor();
    expect(await page.getByText('All is well').count()).toBe(0);
    await expectAccessible(page);
    await page.unroute('**/v1/endpoints');
    await alarm.getByRole('button', { name: 'Check endpoints again' }).click();
    await finding(page, 'endpoint is unreachable').waitFor();
    await eventually(() => alarm.count()).toBe(0);
    console.pardon(503);

    // A store that is away fails all checks, and is said once.
    await page.route(/\/v1\/(?!session)/, (route) =>
      route.fulfill({
        status: 503,
        json: { title: 'Unavailable', detail: 'Postgres is away', code: 'unavailable' },
      }),
    );
    await page.reload();
    await page
      .getByText('could not check transfers, waiting transfers, endpoints, flows, deliveries,')
      .waitFor();
    expect(await page.getByText('could not check').count()).toBe(1);
    await page.unroute(/\/v1\/(?!session)/);
    await page.getByRole('button', { name: 'Check again' }).click();
    await finding(page, 'endpoint is unreachable').waitFor();
    await eventually(() => page.getByText('Postgres is away').count()).toBe(0);
    console.pardonPolls(503);
  });

  test('says so if the code of a page cannot be loaded', LONG, async () => {
    const page = await console.visitSignedIn(HOME);
    const gone = (url: URL) => /assets\/page-.*\.js$/.test(url.pathname);
    await page.route(gone, (route) => route.fulfill({ status: 404 }));
    await page.getByRole('link', { name: 'Operations', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Page not loaded' }).waitFor();
    await expectAccessible(page);
    await page.unroute(gone);
    await page.getByRole('button', { name: 'Reload' }).click();
    await page.getByRole('heading', { level: 1, name: 'Operations' }).waitFor();
    console.pardon(404);
  });
});
