import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  loseConnectivity,
  pauseEndpoint,
  removeEndpoint,
  restoreConnectivity,
} from '../../src/commands/endpoints.ts';
import { load } from '../../src/commands/handle.ts';
import { cancelTransfer } from '../../src/commands/transfers.ts';
import { endpointDecider } from '../../src/domain/endpoints/decider.ts';
import type { Endpoint } from '../../src/domain/endpoints/endpoint.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { listEndpoints } from '../../src/projections/catalog/queries.ts';
import { describeConsole, eventually, expectAccessible } from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../support/file-servers/sftp/server.ts';
import { freePort } from '../support/network/free-port.ts';
import { LONG, longUnless } from '../support/run/long.ts';
import {
  CAUSE,
  configureEndpoint,
  configureSftp,
  submit,
} from '../support/service/installation.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser, a service and two servers share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const LIST = '/console/settings/endpoints';
const noServer = await whyNoSftpServer();

await describeConsole('endpoints in the console', () => {
  const console = useConsole();
  const heading = (page: Page) => page.getByRole('heading', { level: 1 }).innerText();
  /** The states beside the name, each with its mark. */
  /** The button that sends the form of a new endpoint, or of one that is edited. */
  const save = (page: Page) =>
    page.getByRole('button', { name: /^(Create endpoint|Save changes)$/ });
  const states = async (page: Page) =>
    (await page.locator('.subtitle .status').allInnerTexts()).map((text) =>
      text.replace(/\s+/, ' '),
    );
  const saved = async (name: string) =>
    (await listEndpoints(console.installation.sql)).find((endpoint) => endpoint.name === name);

  test('show what to do if there are none', LONG, async () => {
    const page = await console.visitSignedIn(LIST);
    await page.getByRole('heading', { name: 'No endpoints yet' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('link', { name: 'New endpoint' }).first().click();
    await eventually(() => heading(page)).toBe('New endpoint');
  });

  test('are found among many by name and host', LONG, async () => {
    const { installation } = console;
    await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        configureEndpoint(installation, {
          name: `partner-${at}`,
          protocol: 'sftp',
          host: `files-${at}.example.com`,
          username: 'me',
          password: 'secret',
        }),
      ),
    );
    const page = await console.visitSignedIn(LIST);
    const rows = page.locator('tbody tr');
    const search = page.getByRole('searchbox', { name: 'Search' });
    await eventually(() => rows.count()).toBe(40);
    for (const [text, found] of [
      ['PARTNER-7', 1],
      ['files-17.example', 1],
      ['example', 40],
    ] as const) {
      await search.fill(text);
      await search.press('Enter');
      await eventually(() => rows.count()).toBe(found);
      expect(new URL(page.url()).searchParams.get('q')).toBe(text);
    }
    await search.fill('nobody');
    await search.press('Enter');
    await page.getByRole('heading', { name: 'No endpoints match' }).waitFor();
    await expectAccessible(page);
    await page.goto(`${LIST}?state=unreachable&q=partner`);
    await page.getByText('There are no unreachable endpoints').waitFor();
    await page.getByRole('link', { name: 'Show endpoints' }).click();
    await eventually(() => rows.count()).toBe(40);
    for (const { endpoint_id } of await listEndpoints(installation.sql))
      await removeEndpoint(installation.commands, endpoint_id, CAUSE);
  });

  const COMMON = [
    'Name',
    'Protocol',
    'Connections at once',
    'Accounts',
    'Replace an existing destination file',
    'Bytes per second',
  ];
  const FORMS: [protocol: string, fields: string[], values: Record<string, string>][] = [
    [
      'SFTP',
      [
        'Host',
        'Port',
        'Base path',
        'Host keys',
        'User name',
        'Connect through',
        'Sign in with',
        'Password',
      ],
      { Host: 'h', 'User name': 'u', Password: 'p' },
    ],
    [
      'FTPS',
      ['Host', 'TLS', 'Port', 'Base path', 'User name', 'Password', 'CA certificate'],
      { Host: 'h', 'User name': 'u', Password: 'p' },
    ],
    [
      'S3',
      [
        'Bucket',
        'Prefix',
        'Region',
        'Service URL',
        'Access key id',
        'Secret access key',
        'The bucket is in the path, not in the host name',
        'Storage class',
        'Encryption at rest',
        'KMS key id',
        'CA certificate',
        'Connect through',
      ],
      { Bucket: 'b', 'Access key id': 'a', 'Secret access key': 's' },
    ],
    [
      'Azure Blob',
      [
        'Storage account',
        'Container',
        'Prefix',
        'Service URL',
        'Sign in with',
        'Account key',
        'CA certificate',
        'Connect through',
      ],
      { 'Storage account': 'a', Container: 'c', 'Account key': 'a2V5' },
    ],
  ];
  for (const [protocol, fields, values] of FORMS)
    test(
      `of ${protocol} have the necessary fields, and no others`,
      longUnless(protocol === 'SFTP'),
      async () => {
        const name = `some-${protocol.toLowerCase().replace(' ', '-')}`;
        const page = await console.visitSignedIn(`${LIST}/new`);
        await page.getByLabel('Protocol').selectOption(protocol);
        await page.getByText('More options').click();
        const labels = await page.locator('main label').allInnerTexts();
        expect(labels.map((label) => label.trim()).toSorted()).toEqual(
          [...COMMON, ...fields].toSorted(),
        );
        await expectAccessible(page);

        await save(page).click();
        await eventually(() =>
          page.getByLabel('Name', { exact: true }).getAttribute('aria-invalid'),
        ).toBe('true');
        await eventually(() => page.locator('[aria-invalid]').count()).toBeGreaterThan(
          Object.keys(values).length - 1,
        );
        await expectAccessible(page);
        console.pardon(400);

        await page.getByLabel('Name', { exact: true }).fill(name);
        for (const [label, value] of Object.entries(values))
          await page.getByLabel(label, { exact: true }).fill(value);
        await save(page).click();
        await eventually(() => heading(page)).toBe(name);
        await page.goto(LIST);
        expect(await page.getByRole('row').filter({ hasText: name }).innerText()).toContain(
          protocol,
        );
      },
    );

  test(
    'have a host without the blanks around it, and the form says where another is',
    LONG,
    async () => {
      const page = await console.visitSignedIn(`${LIST}/new`);
      const host = page.getByLabel('Host', { exact: true });
      await page.getByLabel('Name', { exact: true }).fill(' blanks ');
      await page.getByLabel('User name').fill('u');
      await page.getByRole('textbox', { name: 'Password' }).fill('p');
      await host.fill(' files. example.com ');
      await save(page).click();
      await page.getByText('must not contain a blank: remove the one after "files."').waitFor();
      expect(await host.and(page.locator(':focus')).count()).toBe(1);
      console.pardon(400);
      await host.fill(' files.example.com ');
      await save(page).click();
      await eventually(() => heading(page)).toBe('blanks');
      expect(await saved('blanks')).toMatchObject({ settings: { host: 'files.example.com' } });
    },
  );

  test('have host keys until a time, which the form does not cut to its day', LONG, async () => {
    const page = await console.visitSignedIn(`${LIST}/new`);
    const keys = page.getByLabel('Host keys');
    const values = { Name: 'until', Host: 'until.invalid', 'User name': 'u' };
    for (const [label, value] of Object.entries(values))
      await page.getByLabel(label, { exact: true }).fill(value);
    await page.getByRole('textbox', { name: 'Password' }).fill('p');
    const key = `SHA256:${'a'.repeat(42)}A`;
    await keys.fill(`${key} 2099-06-30 18:00`);
    await save(page).click();
    await eventually(() => keys.getAttribute('aria-invalid')).toBe('true');
    console.pardon(400);
    await keys.fill(`${key} 2099-06-30T18:00:00Z`);
    await save(page).click();
    await eventually(() => heading(page)).toBe('until');
    await page.getByRole('link', { name: 'Edit' }).click();
    await keys.fill(' ');
    await save(page).click();
    await page.getByText('Enter the key that takes the place of those accepted so far').waitFor();
    await eventually(() => keys.getAttribute('aria-invalid')).toBe('true');
    await page.getByLabel('Host', { exact: true }).fill('another.invalid');
    // The password must not go to another server.
    await save(page).click();
    await page.getByRole('textbox', { name: 'Password' }).fill('p');
    console.pardon(400);
    await save(page).click();
    await eventually(() => heading(page)).toBe('until');
    await page.getByText('another.invalid').first().waitFor();
  });

  test('keep their credentials, unless these would go to another server', LONG, async () => {
    const id = await configureEndpoint(console.installation, {
      name: 'kept',
      protocol: 'sftp',
      host: 'old.invalid',
      username: 'u',
      password: 'a password',
    });
    const before = await saved('kept');
    const page = await console.visitSignedIn(`${LIST}/${id}/edit`);
    await page.getByText('Password: the saved value is never shown').waitFor();
    await page.getByLabel('User name').fill('another');
    await save(page).click();
    await eventually(() => heading(page)).toBe('kept');
    expect(await saved('kept')).toMatchObject({
      settings: { username: 'another' },
      credentials_record: before?.credentials_record,
    });

    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('Host', { exact: true }).fill('new.invalid');
    await save(page).click();
    const password = page.getByRole('textbox', { name: 'Password' });
    await eventually(() => password.getAttribute('aria-invalid')).toBe('true');
    await page.getByText('the stored credentials are for another server').waitFor();
    console.pardon(400);
    await password.fill('a new password');
    await save(page).click();
    await eventually(() => heading(page)).toBe('kept');
    const after = await saved('kept');
    expect(after).toMatchObject({ settings: { host: 'new.invalid' } });
    expect(after?.credentials_record).not.toBe(before?.credentials_record);
    expect(await page.content()).not.toContain('a new password');
  });

  test('are not overwritten by a form that is older than another change', LONG, async () => {
    const request = { name: 'shared', protocol: 'sftp', host: 'shared.invalid', password: 'p' };
    const id = await configureEndpoint(console.installation, { ...request, username: 'first' });
    const page = await console.visitSignedIn(`${LIST}/${id}/edit`);
    await page.getByLabel('User name').fill('mine');
    await configureEndpoint(console.installation, { ...request, username: 'theirs' });
    await save(page).click();
    await page.getByText('has changed').waitFor();
    console.pardon(412);
    expect(await saved('shared')).toMatchObject({ settings: { username: 'theirs' } });
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Load the current version' }).click();
    await eventually(() => page.getByLabel('User name').inputValue()).toBe('theirs');
  });

  test('have a limit of their bandwidth with windows, which other changes keep', LONG, async () => {
    const id = await configureEndpoint(console.installation, {
      name: 'narrow',
      protocol: 'sftp',
      host: 'narrow.invalid',
      username: 'u',
      password: 'p',
    });
    const page = await console.visitSignedIn(`${LIST}/${id}/edit`);
    await page.getByText('More options').click();
    await page.getByLabel('Bytes per second', { exact: true }).fill('5 MB');
    await page.getByRole('button', { name: 'Add a window' }).click();
    const values = { Days: 'mon, Tue', From: '00:00', To: '24:00', 'Time zone': 'Asia/Tokio' };
    for (const [label, value] of Object.entries(values))
      await page.getByLabel(label, { exact: true }).fill(value);
    await expectAccessible(page);
    await save(page).click();
    await page.getByText('must be the name of a time zone').waitFor();
    await eventually(() => page.locator('[aria-invalid]').count()).toBe(2);
    console.pardon(400);

    await page.getByLabel('Bytes per second', { exact: true }).fill('5242880');
    await page.getByRole('textbox', { name: 'Time zone' }).fill('Asia/Tokyo');
    await save(page).click();
    await eventually(() => heading(page)).toBe('narrow');
    const card = page.getByRole('region', { name: 'Bandwidth' });
    await card.getByText('mon, tue 00:00–24:00 (Asia/Tokyo): No limit').waitFor();
    // As the page shows speeds, and as the form takes it.
    await card.getByText('42 Mbit/s (5,242,880 bytes/s)').last().waitFor();
    await expectAccessible(page);
    const bandwidth = {
      bytes_per_second: 5_242_880,
      windows: [
        {
          days: ['mon', 'tue'],
          from: '00:00',
          to: '24:00',
          time_zone: 'Asia/Tokyo',
          bytes_per_second: null,
        },
      ],
    };
    expect(await saved('narrow')).toMatchObject({ bandwidth });

    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('User name').fill('another');
    await save(page).click();
    await eventually(() => heading(page)).toBe('narrow');
    expect(await saved('narrow')).toMatchObject({ bandwidth, settings: { username: 'another' } });

    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByText('More options').click();
    await page.getByRole('button', { name: 'Remove window 1' }).click();
    await page.getByLabel('Bytes per second', { exact: true }).fill('');
    await save(page).click();
    await eventually(() => heading(page)).toBe('narrow');
    expect(await saved('narrow')).toMatchObject({ bandwidth: null });
    expect(await card.count()).toBe(0);
  });

  test('show a server that is not there in words, and only what is wrong', LONG, async () => {
    const id = await configureEndpoint(console.installation, {
      name: 'closed',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: await freePort(),
      username: 'u',
      password: 'p',
    });
    const page = await console.visitSignedIn(`${LIST}/${id}`);
    const start = page.getByRole('button', { name: 'Test' });
    await start.focus();
    await page.keyboard.press('Enter');
    const health = page.getByRole('region', { name: 'Health' });
    await health.getByText('connection refused: nothing listens at this address').waitFor();
    expect(await page.locator('main').innerText()).not.toContain('ECONNREFUSED');
    expect(await start.and(page.locator(':focus')).count()).toBe(1);
    await eventually(() => states(page)).toEqual(['▲ Host key not accepted']);
    await page.getByRole('button', { name: 'Pause', exact: true }).focus();
    await page.keyboard.down('Enter');
    await eventually(() => states(page)).toEqual(['▲ Host key not accepted', '▲ Paused']);
    // The second click of a double click comes when the button already has its other meaning, and so
    // does Enter that is held.
    const resume = page.getByRole('button', { name: 'Resume', exact: true });
    const resumed: string[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/resume')) resumed.push(request.url());
    });
    await page.keyboard.down('Enter');
    await page.keyboard.up('Enter');
    await resume.dispatchEvent('click', { detail: 2 });
    await eventually(() => states(page)).toEqual(['▲ Host key not accepted', '▲ Paused']);
    expect(await resume.getAttribute('aria-busy')).toBe('false');
    expect(resumed).toEqual([]);
    await expectAccessible(page);
    await page.goto(LIST);
    const row = page.getByRole('row').filter({ hasText: 'closed' });
    await row.getByText('connection refused: nothing listens at this address').waitFor();
  });

  test('say that a test is about the settings before, once one is edited', LONG, async () => {
    const page = await console.visitSignedIn(`${LIST}/new`);
    await page.getByLabel('Name', { exact: true }).fill('edited');
    const host = page.getByLabel('Host', { exact: true });
    await host.fill('127.0.0.1');
    await page.getByLabel('Port', { exact: true }).fill(String(await freePort()));
    await page.getByLabel('User name', { exact: true }).fill('u');
    await page.getByLabel('Password', { exact: true }).fill('p');
    const endpointTest = page.getByRole('region', { name: 'Test' });
    const outdated = endpointTest.getByText('You have changed the settings since this test');
    await page.getByRole('button', { name: 'Test' }).click();
    await endpointTest.getByText('nothing listens at this address').waitFor();
    expect(await outdated.count()).toBe(0);
    await host.fill('127.0.0.2');
    await outdated.waitFor();
    await expectAccessible(page);
    await host.fill('127.0.0.1');
    await eventually(() => outdated.count()).toBe(0);
    await page.getByLabel('User name', { exact: true }).fill('v');
    await outdated.waitFor();
    await page.getByRole('button', { name: 'Test' }).click();
    await eventually(() => outdated.count()).toBe(0);
    await endpointTest.getByText('nothing listens at this address').waitFor();
  });

  test('show their outages, and who changed what', LONG, async () => {
    const { installation, keyId } = console;
    const { commands, store } = installation;
    const id = await configureEndpoint(installation, {
      name: 'flaky',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: await freePort(),
      username: 'me',
      password: 'secret',
    });
    const { state } = await load(store, endpointDecider, streamName('endpoint', id));
    const error = { code: 'connection_failed', message: '<b>refused</b>' } as const;
    const outage = { lastSuccessAt: null, error };
    await loseConnectivity(commands, state as Endpoint, outage, CAUSE);
    await restoreConnectivity(commands, id, CAUSE);
    await pauseEndpoint(commands, id, { ...CAUSE, actor: `console:${keyId}` });
    expect(await commands.catchUp('audit')).toBe(true);

    const page = await console.visitSignedIn(`${LIST}/${id}`);
    const history = page.getByRole('region', { name: 'History' });
    await history
      .getByText(/^Unreachable for \d+ s of .* since its creation, in 1 outage$/)
      .waitFor();
    expect(await history.locator('.shares .bad').count()).toBe(1);
    const row = (text: string) => history.getByRole('row').filter({ hasText: text });
    expect(await row('Endpoint paused').innerText()).toContain('Test administrator');
    expect(await row('Endpoint unreachable').innerText()).toContain('<b>refused</b>');
    await expectAccessible(page);
    await row('Endpoint unreachable')
      .getByRole('button', { name: /^Details/ })
      .click();
    await page.getByRole('dialog').getByText('connection_failed').waitFor();
    await page.keyboard.press('Escape');
    // What this page changes joins the list, and the oldest events leave it.
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await row('Endpoint resumed').waitFor();
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await history.getByRole('link', { name: 'Show all 6 events' }).click();
    await page.getByRole('heading', { level: 1, name: 'Audit log' }).waitFor();
    await page.getByText('1–6 of 6').waitFor();
  });

  test('lead to their transfers that failed, where they are retried', async () => {
    const { installation } = console;
    const id = await configureEndpoint(installation, {
      name: 'partner',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: await freePort(),
      username: 'u',
      password: 'p',
    });
    for (const source of ['sftp://partner/out/a.csv', 'sftp://partner/out/b.csv'])
      await appendTransfer(installation.store, ['admitted', 'started', 'failed'], { source });
    await appendTransfer(installation.store, ['admitted', 'started', 'completed'], {
      source: 'sftp://partner/out/c.csv',
    });
    const page = await console.visitSignedIn(`${LIST}/${id}`);
    const transfers = page.getByRole('region', { name: 'Transfers from or to this endpoint' });
    await transfers.getByText('The server took too long').first().waitFor();
    await expectAccessible(page);
    await transfers.getByRole('link', { name: 'Show failed transfers (2)' }).click();
    await eventually(() => page.locator('tbody tr').count()).toBe(2);
    await page.getByRole('button', { name: 'Retry all' }).waitFor();
  });

  describe.skipIf(noServer !== null)(
    `with SFTP servers${noServer ? ` (skipped: ${noServer})` : ''}`,
    () => {
      let alpha: SftpServer;
      let beta: SftpServer;
      beforeAll(async () => {
        [alpha, beta] = await Promise.all([
          startSftpServer({ hostKeys: ['ed25519', 'ecdsa'] }),
          startSftpServer(),
        ]);
      });
      afterAll(async () => {
        await Promise.all([alpha?.stop(), beta?.stop()]);
      });

      test('wrong credentials are corrected after the test explains them', async () => {
        const page = await console.visitSignedIn(`${LIST}/new`);
        const endpointTest = page.getByRole('region', { name: 'Test' });
        for (const [label, value] of Object.entries({
          Name: 'bank',
          Host: alpha.host,
          Port: String(alpha.port),
          'Base path': alpha.root,
          'User name': alpha.username,
        })) {
          await page.getByLabel(label, { exact: true }).fill(value);
        }
        await page.getByLabel('Sign in with').selectOption('Private key');
        await page.getByRole('textbox', { name: 'Private key' }).fill(beta.privateKey);

        await page.getByRole('button', { name: 'Test' }).click();
        await endpointTest.getByText('No host key is accepted yet.').waitFor();

        const codes = await endpointTest.locator('code').allInnerTexts();
        expect(codes).toEqual([
          'waybill endpoints test NAME --accept-host-key',
          alpha.hostKeySha256,
        ]);
        await expectAccessible(page);
        await endpointTest.getByRole('button', { name: 'Accept host key' }).click();
        const dialog = page.getByRole('dialog');
        expect(await dialog.innerText()).toContain(alpha.hostKeySha256);
        await expectAccessible(page);
        await dialog.getByRole('button', { name: 'Accept host key' }).click();

        await endpointTest.getByText('Authentication failed').waitFor();
        expect(await endpointTest.innerText()).toContain(
          "that the server's authorized_keys has the key",
        );
        expect(await endpointTest.getByRole('listitem').allInnerTexts()).toEqual([
          expect.stringMatching(/Done\s+Look up the address\s+\d+ ms/),
          expect.stringMatching(/Done\s+Connect\s+\d+ ms/),
          expect.stringMatching(/Failed\s+Sign in\s+\d+ ms/),
        ]);
        await expectAccessible(page);

        await page.getByRole('textbox', { name: 'Private key' }).fill(alpha.privateKey);
        await page.getByRole('button', { name: 'Test' }).click();
        await endpointTest.getByText('The endpoint works').waitFor();
        expect(await endpointTest.getByText('Done').count()).toBe(8);
        expect(await saved('bank')).toBeUndefined();

        await save(page).click();
        await eventually(() => heading(page)).toBe('bank');
        expect(await saved('bank')).toMatchObject({
          settings: { host_key_sha256: alpha.hostKeySha256 },
          sign_in: 'private_key',
        });
        await page.getByRole('button', { name: 'Test' }).click();
        await page.getByText('The endpoint works').waitFor();
        await eventually(() => states(page)).toEqual(['● Reachable']);
        await page.getByText('acc_default has no transfers from or to').waitFor();
        await expectAccessible(page);
        await page.goto(`${LIST}/${(await saved('bank'))?.endpoint_id}/edit`);
        await page.getByRole('button', { name: 'Replace credentials' }).click();
        expect(await page.getByRole('textbox', { name: 'Private key' }).inputValue()).toBe('');

        await page.getByLabel('Sign in with').selectOption('Private key and password');
        await page.getByRole('textbox', { name: 'Private key' }).fill(alpha.privateKey);
        await page.getByLabel('Password', { exact: true }).fill('a second secret');
        await page.getByRole('button', { name: 'Save changes' }).click();
        await eventually(() => heading(page)).toBe('bank');
        expect(await saved('bank')).toMatchObject({ sign_in: 'private_key_and_password' });
        await page.getByText('Private key and password').waitFor();
      });

      test('a changed host key is shown beside the accepted one', async () => {
        const id = await configureSftp(console.installation, 'moved', alpha, {
          host_key_sha256: beta.hostKeySha256,
        });
        const page = await console.visitSignedIn(`${LIST}/${id}`);
        await page.getByRole('button', { name: 'Test' }).click();
        await page.getByText('The server shows a host key that is not accepted.').waitFor();
        await page.getByRole('button', { name: 'Accept host key' }).click();
        const question = await page.getByRole('dialog').innerText();
        expect(question).toContain(beta.hostKeySha256);
        expect(question).toContain('It takes its place.');
        await page.getByRole('dialog').getByRole('button', { name: 'Accept host key' }).click();
        await page.getByText('The endpoint works').waitFor();
        expect(await saved('moved')).toMatchObject({
          settings: { host_key_sha256: alpha.hostKeySha256 },
        });
      });

      test(
        'a new host key that the server announced is accepted beside the other',
        LONG,
        async () => {
          const id = await configureSftp(console.installation, 'rotating', alpha, {
            host_keys: [{ sha256: alpha.hostKeySha256, expires_at: '2999-01-31T00:00:00Z' }],
            host_key_sha256: null,
          });
          const page = await console.visitSignedIn(`${LIST}/${id}`);
          await page.getByRole('button', { name: 'Test' }).click();
          const keys = page.getByRole('region', { name: 'New host keys' });
          await keys.getByText('ecdsa-sha2-nistp256').waitFor();
          const sha256 = alpha.hostKeysSha256[1] as string;
          expect(await keys.locator('code').innerText()).toBe(sha256);
          await expectAccessible(page);
          await keys.getByRole('button', { name: 'Accept host key' }).click();
          const dialog = page.getByRole('dialog');
          expect(await dialog.innerText()).toContain(sha256);
          await expectAccessible(page);
          await dialog.getByRole('button', { name: 'Accept host key' }).click();
          await eventually(() => keys.count()).toBe(0);
          expect(await page.getByRole('main').innerText()).toMatch(/expires .*2999/);

          await page.getByRole('link', { name: 'Edit' }).click();
          const field = page.getByRole('textbox', { name: 'Host keys' });
          expect(await field.inputValue()).toBe(
            `${alpha.hostKeySha256} 2999-01-31T00:00:00.000Z\n${sha256}`,
          );
          await field.fill(`${sha256} tomorrow`);
          await save(page).click();
          await page.getByText('host_keys[0].expires_at must be an RFC 3339 time').waitFor();
          await expectAccessible(page);
          await field.fill(`${sha256} 2999-12-31\n${alpha.hostKeySha256}`);
          await save(page).click();
          await eventually(() => heading(page)).toBe('rotating');
          expect(await saved('rotating')).toMatchObject({
            settings: {
              host_key_sha256: sha256,
              host_keys: [
                { sha256, expires_at: '2999-12-31T00:00:00.000Z' },
                { sha256: alpha.hostKeySha256, expires_at: null },
              ],
            },
          });
          console.pardon(400);
        },
      );

      test('an endpoint behind a jump host is configured, tested and shown', LONG, async () => {
        const page = await console.visitSignedIn(`${LIST}/new`);
        const fill = async (fields: Record<string, string>) => {
          for (const [label, value] of Object.entries(fields))
            await page.getByLabel(label, { exact: true }).fill(value);
        };
        await fill({
          Name: 'behind',
          Host: alpha.host,
          Port: String(alpha.port),
          'Base path': alpha.root,
          'Host keys': alpha.hostKeySha256,
          'User name': alpha.username,
        });
        await page.getByLabel('Sign in with').selectOption('Private key');
        await page
          .getByRole('textbox', { name: 'Private key', exact: true })
          .fill(alpha.privateKey);
        await page.getByLabel('Connect through').selectOption('SSH jump host');
        await fill({
          'SSH jump host': beta.host,
          'Port of the SSH jump host': String(beta.port),
          'User name at the SSH jump host': beta.username,
          'Private key for the jump host': beta.privateKey,
        });
        await expectAccessible(page);

        const endpointTest = page.getByRole('region', { name: 'Test' });
        await page.getByRole('button', { name: 'Test' }).click();
        await endpointTest.getByText(`${beta.hostKeySha256}, and none has been accepted`).waitFor();
        // Only the server's own key can be accepted here.
        expect(await endpointTest.getByRole('button', { name: 'Accept' }).count()).toBe(0);
        await fill({ 'Host keys of the jump host': beta.hostKeySha256 });
        await page.getByRole('button', { name: 'Test' }).click();
        await endpointTest.getByText('The endpoint works').waitFor();
        expect(await endpointTest.innerText()).toContain('Connect through the hop');

        await save(page).click();
        await eventually(() => heading(page)).toBe('behind');
        const shown = await page.getByRole('main').innerText();
        expect(shown).toContain(`SSH jump host ${beta.username}@${beta.host}:${beta.port}`);
        const via = {
          type: 'ssh',
          host: beta.host,
          port: beta.port,
          username: beta.username,
          host_keys: [{ sha256: beta.hostKeySha256, expires_at: null }],
        };
        expect(await saved('behind')).toMatchObject({ settings: { via } });
        await page.getByRole('link', { name: 'Edit' }).click();
        await fill({ 'Base path': '/elsewhere' });
        await save(page).click();
        await eventually(() => heading(page)).toBe('behind');
        expect(await saved('behind')).toMatchObject({ settings: { base_path: '/elsewhere', via } });
      });

      test('an endpoint in use is paused, resumed and finally removed', LONG, async () => {
        const id = await configureSftp(console.installation, 'busy', alpha);
        const page = await console.visitSignedIn(`${LIST}/${id}`);
        const pause = page.getByRole('button', { name: 'Pause', exact: true });
        const paused = page.getByText('no new transfer starts on it');
        await pause.waitFor();
        const asked = Promise.withResolvers<void>();
        const held = Promise.withResolvers<void>();
        await page.route(`**/v1/endpoints/${id}`, async (route) => {
          const response = await route.fetch();
          asked.resolve();
          await held.promise;
          await route.fulfill({ response }).catch(() => undefined);
        });
        await asked.promise;
        await pause.click();
        await paused.waitFor();
        // What the page had asked before comes after the answer to the change.
        held.resolve();
        await page.evaluate('new Promise((resolve) => setTimeout(resolve, 500))');
        expect(await paused.count()).toBe(1);
        await page.unrouteAll({ behavior: 'ignoreErrors' });
        const transferId = await submit(
          console.installation,
          'sftp://busy/file',
          'sftp://busy/copy',
        );
        await page.getByRole('button', { name: 'Resume', exact: true }).waitFor();
        await expectAccessible(page);

        const dialog = page.getByRole('dialog');
        const remove = async () => {
          await page.getByRole('button', { name: 'Remove' }).click();
          await dialog.getByRole('button', { name: 'Remove' }).click();
        };
        await remove();
        await dialog.getByRole('link', { name: transferId }).waitFor();
        await expectAccessible(page);
        console.pardon(409);
        await dialog.getByRole('link', { name: transferId }).click();
        await eventually(() => heading(page)).toBe('file');
        await page.goto(`${LIST}/${id}`);
        const transfers = page.getByRole('region', { name: 'Transfers from or to this endpoint' });
        await transfers.getByRole('link', { name: 'file' }).waitFor();
        await transfers.getByRole('link', { name: 'Show all transfers' }).click();
        await eventually(() => page.getByLabel('Search').inputValue()).toBe('sftp://busy/');
        await page.getByRole('link', { name: 'file' }).waitFor();
        await cancelTransfer(console.installation.commands, transferId, CAUSE);

        await page.goto(`${LIST}/${id}`);
        await page.getByRole('button', { name: 'Resume', exact: true }).click();
        await pause.waitFor();
        await remove();
        await eventually(() => heading(page)).toBe('Endpoints');
        await eventually(() => page.getByRole('link', { name: 'busy' }).count()).toBe(0);
        expect(await saved('busy')).toBeUndefined();
        console.pardonPolls(404);
      });
    },
  );
});
