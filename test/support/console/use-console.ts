import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, expect, test } from 'vitest';
import { type Chromium, startChromium } from './chromium.ts';
import { eventually, startConsole, type TestConsole } from './console.ts';
import { beginSession, type ConsolePage, leave, openPage } from './pages.ts';

export interface ConsoleInUse extends Omit<TestConsole, 'close'> {
  /** Opens a page of the console in a new window. */
  visit(path: string, options?: BrowserContextOptions): Promise<Page>;
  /**
   * The same, with a session. Tests of the sign-in page use that page. Without options, the window
   * may be the one of the test before: it has no session and no storage, but its cache.
   */
  visitSignedIn(path: string, options?: BrowserContextOptions): Promise<Page>;
  /**
   * Ignores the browser's own reports of answers with this status, or of `lost` answers; fails if
   * there were none.
   */
  pardon(status: number | 'lost'): void;
  /**
   * Ignores them also if there were none: the page polls what the test has just removed, or a
   * service whose connections are `broken`.
   */
  pardonPolls(status: number | 'broken'): void;
}

/** The test files of a worker share its browser: starting one takes a second of CPU time. */
const withChromium = test.extend<{ chromium: Chromium }>({
  chromium: [
    // biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern what it uses
    async ({}, use) => {
      const chromium = await startChromium();
      await use(chromium);
      await chromium.close();
    },
    { scope: 'worker' },
  ],
});

/**
 * Starts a console and a browser for the tests of a file. A test fails if one of its pages reported
 * a complaint.
 */
export function useConsole(settings: Record<string, string> = {}): ConsoleInUse {
  const console = {} as ConsoleInUse;
  let browser: Browser;
  let started: TestConsole;
  let pages: ConsolePage[] = [];
  /** The window that tests use in turn: opening one takes half a second of CPU time. */
  let kept: ConsolePage | null = null;

  withChromium.beforeAll(async ({ chromium }) => {
    browser = chromium.browser;
    started = await startConsole(settings);
    Object.assign(console, started);
  });
  afterEach(async ({ task }) => {
    const complaints = pages.flatMap((page) => page.complaints);
    if (task.result?.state === 'fail') kept = null;
    await Promise.all(pages.map((page) => (page === kept ? keep(page) : page.close())));
    pages = [];
    expect(complaints).toEqual([]);
  });
  afterAll(async () => {
    await kept?.close();
    await started?.close();
  });

  /** Keeps a window for the next test, unless it does not leave its page. */
  async function keep(page: ConsolePage): Promise<void> {
    try {
      await leave(page);
    } catch {
      kept = null;
      await page.close();
    }
  }

  async function open(path: string, options?: BrowserContextOptions, key?: string) {
    const visited = await openPage(browser, started, path, options, key);
    pages.push(visited);
    return visited;
  }

  async function openKept(path: string): Promise<ConsolePage> {
    if (kept === null || pages.includes(kept)) {
      const opened = await open(path, {}, started.key);
      kept ??= opened;
      return opened;
    }
    pages.push(kept);
    await beginSession(kept.page, started.url, started.key);
    await kept.page.goto(path);
    return kept;
  }

  /** Removes the complaints with this text; returns whether there were any. */
  function forget(report: string): boolean {
    let found = false;
    for (const page of pages) {
      const others = page.complaints.filter((text) => !text.includes(report));
      found ||= others.length < page.complaints.length;
      page.complaints.splice(0, Infinity, ...others);
    }
    return found;
  }

  return Object.assign(console, {
    visit: async (path: string, options?: BrowserContextOptions) =>
      (await open(path, options)).page,
    async visitSignedIn(path: string, options?: BrowserContextOptions): Promise<Page> {
      // People sign in less often: each sign-in is a few requests without a session.
      await started.installation.sql`delete from work.rate_windows`;
      const { page } = await (options ? open(path, options, started.key) : openKept(path));
      await page.getByRole('button', { name: 'Sign out', includeHidden: true }).waitFor({
        state: 'attached',
      });
      await eventually(() => page.url()).toBe(started.url + path);
      return page;
    },
    pardon(status: number | 'lost'): void {
      expect(forget(status === 'lost' ? 'net::ERR_FAILED' : `status of ${status}`)).toBe(true);
    },
    pardonPolls(status: number | 'broken'): void {
      forget(status === 'broken' ? 'net::ERR_' : `status of ${status}`);
    },
  });
}

/** A script that acts as if the tab came to the front, or went behind others. */
export const turn = (state: 'visible' | 'hidden') => `
  Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));`;

/** Presses Tab until a control has the focus; fails if the keyboard does not reach it. */
export async function tabTo(page: Page, control: Locator): Promise<void> {
  await control.waitFor();
  for (let presses = 0; presses < 60; presses++) {
    if ((await control.and(page.locator(':focus')).count()) === 1) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`the keyboard does not reach ${control}`);
}
