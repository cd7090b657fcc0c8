import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectNoSidewaysScroll,
} from '../support/console/console.ts';
import { turn, useConsole } from '../support/console/use-console.ts';
import {
  startIdentityProvider,
  type TestIdentityProvider,
} from '../support/http/identity-provider.ts';
import { LONG } from '../support/run/long.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

await describeConsole('people in the console', () => {
  let provider: TestIdentityProvider;
  const settings: Record<string, string> = {};
  beforeAll(async () => {
    provider = await startIdentityProvider();
    Object.assign(settings, provider.settings, {
      WAYBILL_OIDC_ROLES: 'groups:watchers=viewer@acc_default,groups:ops=operator@acc_default',
    });
  });
  const console = useConsole(settings);
  beforeAll(() => provider.register(console.url));
  afterAll(() => provider?.close());
  beforeEach(() => {
    provider.setDown(false);
    for (const [subject, groups] of [
      ['ann', ['ops']],
      ['bob', ['watchers']],
      ['eve', []],
    ] as const)
      provider.people.set(subject, {
        email: `${subject}@example.com`,
        email_verified: true,
        groups,
      });
  });

  const link = (page: Page) => page.getByRole('link', { name: /^Sign in with 127\.0\.0\.1/ });
  const place = (page: Page, name: string) => page.getByRole('link', { name, exact: true });
  const age = (minutes: number) =>
    console.installation.sql`
      update work.console_sessions set confirmed_at = now() - ${minutes} * interval '1 minute'`;

  /** Opens a page of the console, and signs in at the provider. */
  async function signIn(subject: string, path = '/console/webhooks'): Promise<Page> {
    const page = await console.visit(path);
    await link(page).click();
    await page.getByLabel('Subject').fill(subject);
    await page.getByRole('button', { name: 'Continue' }).click();
    return page;
  }

  test('sign in, see what their role allows, and sign out at the provider too', async () => {
    const page = await console.visit('/console/webhooks', {
      viewport: { width: 320, height: 700 },
    });
    await link(page).waitFor();
    await expectAccessible(page);
    await expectNoSidewaysScroll(page);
    await page.setViewportSize({ width: 1440, height: 900 });
    await link(page).click();
    await page.getByLabel('Subject').fill('ann');
    await page.getByRole('button', { name: 'Continue' }).click();

    await page.getByRole('heading', { name: 'Webhooks', exact: true }).waitFor();
    await eventually(() => page.url()).toBe(`${console.url}/console/webhooks`);
    await page.getByText('Signed in as ann@example.com (operator)').waitFor();
    await page.getByRole('button', { name: 'New webhook' }).waitFor();
    for (const name of ['Transfers', 'Endpoints', 'Failed deliveries'])
      expect(await place(page, name).count()).toBe(1);
    for (const name of ['API keys', 'Operations']) expect(await place(page, name).count()).toBe(0);
    await expectAccessible(page);
    await place(page, 'Transfers').click();
    await page.locator('.subtitle').getByText('Live').waitFor();
    await page.reload();
    await page.getByRole('link', { name: 'New transfer' }).waitFor();

    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Yes, sign me out' }).click();
    await page.getByRole('heading', { name: 'Sign in', exact: true }).waitFor();
    expect(page.url()).toMatch(`${console.url}/console/sign-in`);
  });

  test('only read with the role viewer, and leave when it is removed', LONG, async () => {
    const page = await signIn('bob');
    await page.getByText('Signed in as bob@example.com (viewer)').waitFor();
    expect(await page.getByRole('button', { name: 'New webhook' }).count()).toBe(0);
    await place(page, 'Transfers').click();
    await page.locator('.subtitle').getByText('Live').waitFor();
    expect(await page.getByRole('link', { name: 'New transfer' }).count()).toBe(0);

    provider.people.set('bob', { email: 'bob@example.com', groups: [] });
    await age(4);
    // The stream of the list may ask first.
    await page.evaluate(turn('visible'));
    const reason = page.getByRole('alert').filter({ hasText: 'no longer gives you a role' });
    await reason.waitFor();
    await expectAccessible(page);

    // A later answer knows only that the session has ended.
    const later = page.waitForResponse((answer) => answer.url().endsWith('/v1/session'));
    await page.evaluate(turn('visible'));
    expect(await (await later).text()).not.toContain('no longer gives you a role');
    await page.waitForTimeout(500);
    expect(await reason.count()).toBe(1);
    console.pardon(401);
  });

  test('sign in again in another tab, and continue with what they typed', LONG, async () => {
    const page = await signIn('ann');
    await page.getByRole('button', { name: 'New webhook' }).click();
    const field = page.getByLabel('URL');
    await field.fill('https://receiver.example.com/half-typed');
    await console.installation.sql`delete from work.console_sessions`;
    await page.getByRole('button', { name: 'Register' }).click();
    const again = page.getByRole('dialog', { name: 'Sign in again' });
    const opened = page.context().waitForEvent('page');
    await link(page).click();
    const tab = await opened;
    await tab.getByRole('heading', { level: 1, name: 'Home' }).waitFor();
    await again.waitFor({ state: 'detached' });
    expect(await field.inputValue()).toBe('https://receiver.example.com/half-typed');
    console.pardon(401);
  });

  test('read why a sign-in failed, and use a key meanwhile', LONG, async () => {
    const page = await signIn('eve');
    await page.getByRole('alert').filter({ hasText: 'You have no role here' }).waitFor();
    provider.setDown(true);
    // A new sign-in starts at the provider, whose addresses are known: its page does not open.
    await page.goto('/console/sign-in?error=unreachable&return=%2Fconsole%2Fwebhooks');
    await page.getByRole('alert').filter({ hasText: 'Sign in with an API key' }).waitFor();
    await expectAccessible(page);
    await page.getByLabel('API key').fill(console.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Webhooks', exact: true }).waitFor();
    await page.getByText('Signed in with Test administrator').waitFor();
  });
});
