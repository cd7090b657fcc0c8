import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

export interface ConsolePage {
  page: Page;
  /**
   * Complaints of the browser since then: console errors, exceptions, violations of the page's
   * policy.
   */
  complaints: string[];
  close(): Promise<void>;
}

/** Opens a page of the console in a new browser window. */
export async function openPage(
  browser: Browser,
  { url }: { url: string },
  path = '/console',
  options: BrowserContextOptions = {},
): Promise<ConsolePage> {
  const context = await browser.newContext({
    baseURL: url,
    locale: 'en-GB',
    timezoneId: 'UTC',
    ...options,
  });
  // Shorter than a test's own time limit, so the error says what it waited for.
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('dialog', (dialog) => {
    complaints.push(`a script opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(path);
  return { page, complaints, close: () => context.close() };
}

/** Fills in the sign-in page, and waits for the next page. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  // On a narrow screen it is in a closed menu.
  await page
    .getByRole('button', { name: 'Sign out', includeHidden: true })
    .waitFor({ state: 'attached' });
}
