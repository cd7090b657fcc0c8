import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import type { SessionInfo } from '../../../src/contract/sessions.ts';

const VIEWPORT = { width: 1280, height: 720 };
/** A page of the same origin without scripts. */
const QUIET = '/health/live';

export interface ConsolePage {
  page: Page;
  /**
   * Complaints of the browser since then: console errors, exceptions, violations of the page's
   * policy.
   */
  complaints: string[];
  close(): Promise<void>;
}

/** Opens a page of the console in a new browser window, with a session of the key if given. */
export async function openPage(
  browser: Browser,
  { url }: { url: string },
  path = '/console',
  options: BrowserContextOptions = {},
  key?: string,
): Promise<ConsolePage> {
  const context = await browser.newContext({
    baseURL: url,
    locale: 'en-GB',
    timezoneId: 'UTC',
    viewport: VIEWPORT,
    ...options,
  });
  // Shorter than a test's own time limit, so the error says what it waited for.
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('dialog', (dialog) => {
    // A test leaves a page with unsent input.
    if (dialog.type() === 'beforeunload') return void dialog.accept();
    complaints.push(`a script opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  if (key !== undefined) await beginSession(page, url, key);
  await page.goto(path);
  return { page, complaints, close: () => context.close() };
}

/** Leaves a window without a session, and as it was when it opened. */
export async function leave({ page, complaints }: ConsolePage): Promise<void> {
  const context = page.context();
  const others = context.pages().filter((other) => other !== page);
  await Promise.all(others.map((other) => other.close()));
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.goto(QUIET);
  await page.evaluate('localStorage.clear(); sessionStorage.clear()');
  await context.clearCookies();
  await context.clearPermissions();
  await page.emulateMedia({ media: null, colorScheme: 'light' });
  await page.setViewportSize(VIEWPORT);
  complaints.length = 0;
}

/** Begins a session, and stores in the browser what a sign-in does. */
export async function beginSession(page: Page, url: string, key: string): Promise<void> {
  const answer = await fetch(`${url}/v1/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: key }),
  });
  const session = (await answer.json()) as SessionInfo;
  const [, name = '', value = ''] =
    /^([^=]+)=([^;]+)/.exec(answer.headers.getSetCookie()[0] ?? '') ?? [];
  if (!answer.ok) throw new Error(`no session: ${JSON.stringify(session)}`);
  await page.context().addCookies([{ name, value, url, httpOnly: true, sameSite: 'Strict' }]);
  // The storage state of a new context would do the same with one more process.
  if (page.url() !== url + QUIET) await page.goto(QUIET);
  const signedIn = JSON.stringify(`${session.key_id} ${session.account}`);
  await page.evaluate(`localStorage.setItem('waybill-signed-in', ${signedIn})`);
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
