import type { Page } from 'playwright-core';
import { expect, test, vi } from 'vitest';
import { pauseEndpoint } from '../../src/commands/endpoints.ts';
import { handle } from '../../src/commands/handle.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { transferDecider } from '../../src/domain/transfers/decider.ts';
import type { TransferCreated } from '../../src/domain/transfers/transfer.ts';
import { checkpointNow } from '../../src/processes/proof/checkpoint-now.ts';
import { describeConsole, eventually, expectAccessible } from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { AFTER_EVENTS, T0, TRANSFER_EVENTS, transferCreated } from '../support/domain/samples.ts';
import { freePort } from '../support/network/free-port.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureEndpoint, submit } from '../support/service/installation.ts';
import { appendEvents, appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const FIRST_LOAD_KIB = 130;
/** Half an hour off the full hours, and another day for a third of the time. */
const IN_INDIA = { timezoneId: 'Asia/Kolkata' };

await describeConsole('what the console shows of a transfer', () => {
  const console = useConsole();
  const chooseZone = (page: Page, value: 'local' | 'utc') =>
    page.getByLabel('Time zone').selectOption({ value });
  const createCancelled = (changes: Partial<TransferCreated> & { transfer_id: string }) =>
    handle(
      console.installation.store,
      transferDecider,
      streamName('transfer', changes.transfer_id),
      { type: 'create_cancelled', now: T0, data: transferCreated(changes) },
      CAUSE,
    );

  test('times have milliseconds, in the chosen zone, which the browser keeps', LONG, async () => {
    const { transferId } = await appendTransfer(console.installation.store, ['cancelled'], {
      created_at: '2026-03-01T20:00:00.123Z',
    });
    const page = await console.visitSignedIn(`/console/transfers/${transferId}`, IN_INDIA);
    const created = page.locator('.facts div').filter({ hasText: 'Created' }).locator('time');
    await eventually(() => created.innerText()).toMatch(/^2026-03-02 01:30:00\.123\s.+ago$/);
    await chooseZone(page, 'utc');
    await eventually(() => created.innerText()).toMatch(/^2026-03-01 20:00:00\.123 UTC\s.+ago$/);
    await expectAccessible(page);
    await page.reload();
    await eventually(() => created.innerText()).toContain('2026-03-01 20:00:00.123 UTC');
    await chooseZone(page, 'local');
    await eventually(() => created.innerText()).toContain('2026-03-02 01:30:00.123');
    await page.emulateMedia({ media: 'print' });
    expect(await created.innerText()).toContain('2026-03-02 01:30:00.123 +05:30');
    await page.emulateMedia({ media: null });
    // It is not yesterday, but the day before.
    const id = newId('txr');
    const created_at = new Date(Date.now() - 47 * 3_600_000).toISOString();
    await createCancelled({ transfer_id: id, created_at });
    await page.goto(`/console/transfers/${id}`);
    await eventually(() => created.innerText()).toMatch(/\s1 day ago$/);
  });

  test('the times of files on a server name UTC if they are in it', LONG, async () => {
    await configureEndpoint(console.installation, {
      name: 'shelf',
      protocol: 'sftp',
      host: 'shelf.invalid',
      username: 'u',
      password: 'p',
    });
    const page = await console.visitSignedIn('/console/transfers/new', IN_INDIA);
    const file = { name: 'a.csv', type: 'file', size: 1, modified_at: '2026-03-01T20:00:00.000Z' };
    await page.route('**/files?*', (route) =>
      route.fulfill({ json: { path: '/', data: [file], truncated: false } }),
    );
    for (const [zone, text] of [
      ['local', /2026-03-02 01:30$/],
      ['utc', /2026-03-01 20:00 UTC$/],
    ] as const) {
      await chooseZone(page, zone);
      await page.getByRole('button', { name: 'Browse shelf' }).first().click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name: text }).waitFor();
      await dialog.getByRole('button', { name: 'Close' }).click();
    }
  });

  test('a step after a transfer is shown as done once it is', LONG, async () => {
    const { transferId } = await appendTransfer(
      console.installation.store,
      ['admitted', 'started', 'completed'],
      { file_name: 'swept.csv' },
    );
    const page = await console.visitSignedIn('/console');
    let state = 'pending';
    await page.route(`**/v1/transfers/${transferId}`, async (route) => {
      const response = await route.fetch();
      const after = { source: 'delete', destination_marker: null, state, reason: null };
      await route.fulfill({ response, json: { ...(await response.json()), after } });
    });
    await page.goto(`/console/transfers/${transferId}`);
    const steps = page.locator('.facts div').filter({ hasText: 'Afterwards' });
    await eventually(() => steps.innerText()).toContain('(pending)');
    state = 'done';
    await eventually(() => steps.innerText()).toContain('(done)');
  });

  test('the state of a retry follows it on the page of its transfer', LONG, async () => {
    const { store } = console.installation;
    const { transferId } = await appendTransfer(store, ['admitted', 'started', 'failed']);
    const page = await console.visitSignedIn('/console');
    let status = 'in_progress';
    await page.route('**/v1/transfers?retry_of=*', async (route) => {
      const response = await route.fetch({ url: `${console.url}/v1/transfers?limit=1` });
      const answer = await response.json();
      Object.assign(answer.data[0], { status, retry_of: transferId });
      await route.fulfill({ response, json: answer });
    });
    await page.goto(`/console/transfers/${transferId}`);
    const retried = page.getByRole('heading', { name: 'Retried' });
    const notice = page.locator('.notice').filter({ has: retried });
    await eventually(() => notice.innerText()).toContain('In progress');
    status = 'completed';
    await eventually(() => notice.innerText()).toContain('Completed');
  });

  test('a date filter is a day in the chosen zone', LONG, async () => {
    const file_name = 'at-night.csv';
    await appendTransfer(console.installation.store, ['cancelled'], {
      file_name,
      created_at: '2026-04-01T20:00:00.000Z',
    });
    const page = await console.visitSignedIn('/console/transfers', IN_INDIA);
    const row = page.getByRole('link', { name: file_name });
    const none = page.getByRole('heading', { name: 'No transfers match' });
    const from = page.getByLabel('Created from');
    await from.fill('2026-04-02');
    await page.getByLabel('Created to').fill('2026-04-02');
    await eventually(() => new URL(page.url()).searchParams.get('to_date')).toBe(
      '2026-04-02T18:29:59.999Z',
    );
    await row.waitFor();
    // The address has instants: the same transfers, shown as days of the other zone.
    await chooseZone(page, 'utc');
    await eventually(() => from.inputValue()).toBe('2026-04-01');
    await row.waitFor();
    await from.fill('2026-04-02');
    await none.waitFor();
  });

  test(
    'each event has its time after the one before, and keys have their names',
    LONG,
    async () => {
      const transfer_id = newId('txr');
      const stream = `transfer-${transfer_id}`;
      const { store } = console.installation;
      const at = (second: number) => new Date(Date.UTC(2026, 2, 1, 12, 0, second, 7));
      const { admitted, started, retry, completed } = TRANSFER_EVENTS;
      const created = { type: 'transfer.created', data: transferCreated({ transfer_id }) } as const;
      await appendEvents(store, stream, [created], 'acc_default', at(0), {
        actor: `console:${console.keyId}`,
      });
      await appendEvents(store, stream, [admitted, started], 'acc_default', at(2));
      await appendEvents(store, stream, [retry], 'acc_default', at(5));
      await appendEvents(store, stream, [started], 'acc_default', at(50));
      await appendEvents(store, stream, [completed], 'acc_default', at(131));

      const page = await console.visitSignedIn(`/console/transfers/${transfer_id}`);
      const events = page.locator('.timeline li');
      await eventually(() => events.count()).toBe(6);
      await eventually(() => events.first().innerText()).toContain(
        'by Test administrator (console)',
      );
      expect(await page.locator('.gap').allInnerTexts()).toEqual(
        ['+2.000 s', '+0 ms', '+3.000 s', '+45.000 s', '+1 min 21 s'].map((gap) =>
          expect.stringContaining(gap),
        ),
      );

      const attempts = page.getByRole('table', { name: 'Attempts, oldest first' }).getByRole('row');
      await eventually(() => attempts.count()).toBe(3);
      const [first, second] = [attempts.nth(1), attempts.nth(2)];
      expect(await first.innerText()).toMatch(/Failed[\s\S]*3\.000 s/);
      expect(await first.innerText()).toContain(retry.data.error.message);
      expect(await second.innerText()).toMatch(
        /Completed[\s\S]*1 min 21 s[\s\S]*1000 bytes of 1000 bytes/,
      );
      expect(await second.innerText()).toMatch(/Verified: size/);
      await expectAccessible(page);
    },
  );

  test('a transfer shows that another mover has taken it over', LONG, async () => {
    const { store } = console.installation;
    const { started, lost } = TRANSFER_EVENTS;
    const { transferId } = await appendTransfer(store, ['admitted', 'started']);
    const page = await console.visitSignedIn(`/console/transfers/${transferId}`);
    const events = page.locator('.timeline li');
    await eventually(() => events.count()).toBe(3);
    await appendEvents(store, streamName('transfer', transferId), [lost, started]);
    await eventually(() => events.count()).toBe(5);
  });

  test(
    'a transfer of hundreds of attempts shows the latest ones, and others on request',
    LONG,
    async () => {
      const transfer_id = newId('txr');
      const { admitted, started, retry, completed } = TRANSFER_EVENTS;
      await appendEvents(console.installation.store, streamName('transfer', transfer_id), [
        { type: 'transfer.created', data: transferCreated({ transfer_id }) },
        admitted,
        ...Array.from({ length: 300 }, () => [started, retry]).flat(),
        started,
        completed,
      ]);
      const address = `/console/transfers/${transfer_id}`;
      const page = await console.visitSignedIn(address);
      const more = (name: string) => page.getByRole('button', { name, exact: true });
      const focused = () => page.evaluate('document.activeElement.textContent');

      const events = page.locator('.timeline li');
      // The first three, a button, and the last forty.
      await eventually(() => events.count()).toBe(44);
      await eventually(() => events.last().innerText()).toContain('Completed');
      const attempts = page.getByRole('table', { name: 'Attempts, oldest first' }).getByRole('row');
      expect(await attempts.count()).toBe(21);
      expect(await attempts.last().innerText()).toMatch(/^301\s/);
      expect(await page.locator('.shares rect').count()).toBeLessThan(210);
      await expectAccessible(page);

      await more('Show 200 of 281 earlier attempts').press('Enter');
      await eventually(() => attempts.count()).toBe(221);
      await eventually(focused).toBe('Show 81 earlier attempts');
      await more('Show 81 earlier attempts').press('Enter');
      await eventually(() => attempts.count()).toBe(302);
      // The button is gone, and the keyboard does not begin again at the top of the page.
      await eventually(focused).not.toContain('Skip to content');
      await more('Show 200 of 561 events between').press('Enter');
      await eventually(() => events.count()).toBe(244);
      await eventually(focused).toBe('Show 200 of 361 events between');

      // A link to the state after any event shows that event among its neighbours.
      await page.goto(`${address}?as_of=100`);
      await eventually(() => events.count()).toBe(52);
      const chosen = page.locator('.timeline [aria-current="step"]');
      await chosen.getByRole('link', { name: 'Show state after revision 100' }).waitFor();
      await more('Show 94 events between').waitFor();
    },
  );

  test('a receipt says what moved, and is printed without the rest of the page', LONG, async () => {
    const { store } = console.installation;
    const after = { source: 'delete', destination_marker: null } as const;
    const { transferId } = await appendTransfer(store, ['admitted', 'started', 'completed'], {
      file_name: 'signed.csv',
      after,
    });
    await appendEvents(store, streamName('transfer', transferId), [AFTER_EVENTS.deleted]);
    const page = await console.visitSignedIn(`/console/transfers/${transferId}`);
    await page.getByRole('link', { name: 'Receipt' }).click();
    await page.getByRole('heading', { name: 'Receipt' }).waitFor();
    await checkpointNow(console.installation, CAUSE);
    await page.getByRole('heading', { name: 'signed.csv' }).waitFor();
    // Until a checkpoint covered the end, the page asked again.
    console.pardonPolls(409);
    const facts = page.locator('.receipt .facts');
    await eventually(() => facts.innerText()).toContain('sftp://to/in/a.csv');
    const shown = await facts.innerText();
    expect(shown).toMatch(/Outcome\s+completed/);
    expect(shown).toContain('1000 bytes');
    // The switch that names the zone is not on paper.
    expect(shown).toMatch(/Ended\s+\S+ \S+ \+00:00\s/);
    expect(shown).toContain('ab'.repeat(32));
    expect(shown).toContain('size, source unchanged');
    expect(await page.locator('.receipt .proof').first().innerText()).toMatch(/^waybill\//);
    await expectAccessible(page);
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download' }).click();
    expect((await download).suggestedFilename()).toBe(`${transferId}.receipt.json`);
    await page.emulateMedia({ media: 'print' });
    // Of A4 without its margins.
    await page.setViewportSize({ width: 720, height: 1_000 });
    const history = page.locator('.receipt table');
    expect(await history.getByRole('columnheader', { name: 'Actor' }).isVisible()).toBe(true);
    const cell = "getComputedStyle(document.querySelector('.receipt tbody td')).display";
    expect(await page.evaluate(cell)).toBe('table-cell');
    const ink = () => page.evaluate("getComputedStyle(document.querySelector('h1')).color");
    const inkOfLight = await ink();
    await page.evaluate("document.documentElement.dataset.theme = 'dark'");
    expect(await ink()).toBe(inkOfLight);
    expect(await page.getByRole('navigation', { name: 'Console' }).isVisible()).toBe(false);
    expect(await page.getByRole('button', { name: 'Print' }).isVisible()).toBe(false);
    expect(await facts.isVisible()).toBe(true);
  });

  test('a link to another transfer shows nothing of the one before', async () => {
    const [gone, middle, newest] = [newId('txr'), newId('txr'), newId('txr')];
    await createCancelled({ transfer_id: middle, file_name: 'middle.csv', retry_of: gone });
    await createCancelled({ transfer_id: newest, file_name: 'newest.csv', retry_of: middle });
    const page = await console.visitSignedIn(`/console/transfers/${newest}`);
    await page.getByRole('heading', { level: 1, name: 'newest.csv' }).waitFor();
    await page.getByRole('link', { name: middle }).click();
    await page.getByRole('heading', { level: 1, name: 'middle.csv' }).waitFor();
    await page.getByRole('link', { name: gone }).click();
    await page.getByRole('heading', { level: 1, name: 'Transfer not found' }).waitFor();
    expect(await page.locator('.facts').count()).toBe(0);
    expect(await page.getByRole('button', { name: 'Retry transfer' }).count()).toBe(0);
    await eventually(() => page.title()).toBe('Transfer not found · Waybill');
    console.pardon(404);
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'middle.csv' }).waitFor();
  });

  test('a form like another transfer has the values of the one in its address', LONG, async () => {
    const [first, second] = [newId('txr'), newId('txr')];
    await createCancelled({ transfer_id: first, metadata: { order: 'first' } });
    await createCancelled({ transfer_id: second, metadata: { order: 'second' } });
    const page = await console.visitSignedIn(`/console/transfers/new?like=${first}`);
    const value = page.getByLabel('Value');
    await eventually(() => value.inputValue()).toBe('first');
    await page.evaluate(
      `history.pushState(null, '', '?like=${second}'); dispatchEvent(new Event('popstate'))`,
    );
    await eventually(() => value.inputValue()).toBe('second');
    await page.goBack();
    await eventually(() => value.inputValue()).toBe('first');
  });

  test('a past state that cannot be loaded is not shown as another one', async () => {
    const { transferId } = await appendTransfer(console.installation.store, ['cancelled']);
    const page = await console.visitSignedIn(`/console/transfers/${transferId}?as_of=0`);
    await page.getByRole('heading', { name: 'State after revision 0' }).waitFor();
    await page.route('**/v1/transfers/*?as_of=1', (route) => route.abort());
    await page.evaluate(
      `history.pushState(null, '', '?as_of=1'); dispatchEvent(new Event('popstate'))`,
    );
    await page.locator('#past-state').getByRole('alert').waitFor();
    expect(await page.locator('#past-state .facts').count()).toBe(0);
    console.pardon('lost');
  });

  test(
    'a transfer leads to its endpoints, says which is in trouble, and how it ends',
    LONG,
    async () => {
      const { installation } = console;
      const [, bank = ''] = await Promise.all(
        ['hospital', 'bank'].map(async (name) =>
          configureEndpoint(installation, {
            name,
            protocol: 'sftp',
            host: '127.0.0.1',
            port: await freePort(),
            username: 'nobody',
            password: 'none',
            host_key_sha256: `SHA256:${'A'.repeat(43)}`,
          }),
        ),
      );
      await pauseEndpoint(installation.commands, bank, CAUSE);
      const id = await submit(installation, 'sftp://hospital/out/a.csv', 'sftp://bank/in/');
      const page = await console.visitSignedIn(`/console/transfers/${id}`);
      const side = (name: string) =>
        page.locator('.facts > div').filter({ hasText: name }).locator('dd');
      await side('Source').getByRole('link', { name: 'hospital' }).waitFor();
      await side('Destination').getByText('Paused').waitFor();
      await expectAccessible(page);

      // A screen reader reads the state when it changes: the element that has it stays.
      const state = page.getByRole('status').filter({ hasText: /Pending|Queued/ });
      await state.evaluate((element) => element.setAttribute('data-seen', ''));
      await page.getByRole('button', { name: 'Cancel transfer' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel transfer' }).click();
      await page.locator('[role=status][data-seen]').getByText('Cancelled').waitFor();
      // The button that had the focus is gone.
      await page.getByRole('heading', { level: 1 }).and(page.locator(':focus')).waitFor();

      await side('Destination').getByRole('link', { name: 'bank' }).click();
      await page.getByRole('heading', { level: 1, name: 'bank' }).waitFor();
    },
  );

  test('an address past the end of a list leads to its last page', LONG, async () => {
    await appendTransfer(console.installation.store, ['cancelled']);
    for (const path of ['/console/transfers', '/console/audit']) {
      const page = await console.visitSignedIn(`${path}?offset=5000`);
      await page.getByText('This page is past the end of the list').waitFor();
      expect(await page.getByRole('table').count()).toBe(0);
      await page.getByRole('link', { name: 'Previous' }).click();
      await page.getByRole('table').getByRole('row').nth(1).waitFor();
    }
  });

  test('a page for what does not exist leads back to its list', LONG, async () => {
    const page = await console.visitSignedIn('/console/webhooks');
    for (const [path, title, link, list] of [
      [`transfers/${newId('txr')}`, 'Transfer not found', 'Show transfers', 'Transfers'],
      [`batches/${newId('bat')}`, 'Batch not found', 'Show batches', 'Batches'],
      [`webhooks/${newId('whk')}`, 'Webhook not found', 'Show webhooks', 'Webhooks'],
      [`settings/endpoints/${newId('end')}`, 'Endpoint not found', 'Show endpoints', 'Endpoints'],
      [
        `settings/endpoints/${newId('end')}/edit`,
        ...['Endpoint not found', 'Show endpoints', 'Endpoints'],
      ],
      ['nowhere', 'Page not found', 'Show endpoints', 'Endpoints'],
    ] as const) {
      await page.goto(`/console/${path}`);
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
      await eventually(() => page.title()).toBe(`${title} · Waybill`);
      expect(await page.getByRole('button', { name: 'Retry' }).count()).toBe(0);
      await expectAccessible(page);
      await page.getByRole('link', { name: link }).click();
      await page.getByRole('heading', { level: 1, name: list, exact: true }).waitFor();
    }
    console.pardon(404);
  });

  test(`the first load is less than ${FIRST_LOAD_KIB} KiB, the home page included`, async () => {
    // A new window has an empty cache.
    const page = await console.visitSignedIn('/console', {});
    await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
    const bytes = await page.evaluate(`performance.getEntries()
      .filter(({ name }) => name.includes('/console'))
      .reduce((sum, { transferSize = 0 }) => sum + transferSize, 0)`);
    expect(bytes).toBeGreaterThan(10 << 10);
    expect(bytes).toBeLessThan(FIRST_LOAD_KIB << 10);
  });
});
