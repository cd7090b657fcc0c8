import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults, RunOptions } from 'axe-core';
import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import type { z } from 'zod';
import { buildConsole } from '../../../scripts/build-console.ts';
import { type CreatedKey, createKey } from '../../../src/commands/keys.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import { PROCESS_ROLES, type ProcessRole } from '../../../src/process-roles.ts';
import { type Service, startService } from '../../../src/service.ts';
import { describeWithPostgres } from '../postgres/test-database.ts';
import { CAUSE, openTestInstallation, type TestInstallation } from '../service/installation.ts';
import { whyNoChromium } from './chromium.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export interface TestConsole {
  installation: TestInstallation;
  service: Service;
  /** Base URL of the service, without `/console`. */
  url: string;
  /** A key of the scope `admin`. */
  key: string;
  keyId: string;
  close(): Promise<void>;
}

/**
 * `describe` for tests of the Admin Console in a real browser. Skips them, with the reason in their
 * name, if no browser can run.
 */
export async function describeConsole(name: string, tests: () => void): Promise<void> {
  const reason = await whyNoChromium();
  if (reason === null) describeWithPostgres(name, tests);
  else describe.skip(`${name} (skipped, no Chromium: ${reason})`, tests);
}

/**
 * Starts a whole service with its own installation, and the console built from the current sources.
 */
export async function startConsole(
  settings: Record<string, string> = {},
  roles: readonly ProcessRole[] = PROCESS_ROLES,
): Promise<TestConsole> {
  await buildConsole();
  const installation = await openTestInstallation(settings);
  const service = await startService(installation, roles);
  const { id, key } = await provideKey(installation, {
    name: 'Test administrator',
    scopes: ['admin'],
  });
  return {
    installation,
    service,
    url: service.url as string,
    key,
    keyId: id,
    async close() {
      await service.stop();
      await installation.close();
    },
  };
}

/** Creates a key from the body of a request. By default it is not one that expires soon. */
export function provideKey(
  { commands }: TestInstallation,
  body: z.input<typeof keyRequest>,
): Promise<CreatedKey> {
  return createKey(commands, keyRequest.parse(body), CAUSE, { allowNever: false });
}

/** `expect` for a state that takes a moment to appear, however busy the machine is. */
export const eventually = <T>(read: () => T | Promise<T>) => expect.poll(read, { timeout: 30_000 });

/** Fails if axe finds a violation of WCAG 2.2 AA, or of good practice, on the current page. */
export function expectAccessible(page: Page): Promise<void> {
  return expectNoViolation(page, {});
}

/** The rules of axe that judge colours: all others find the same in both themes. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

/** Does so in the light theme, and checks the colours of the dark one. Leaves the page light. */
export async function expectAccessibleInBothThemes(page: Page): Promise<void> {
  const colour = () => page.evaluate('getComputedStyle(document.body).color');
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await colour();
  await expectNoViolation(page, { runOnly: { type: 'rule', values: COLOUR_RULES } });
  await page.emulateMedia({ colorScheme: 'light' });
  expect(await colour()).not.toBe(dark);
  await expectAccessible(page);
}

/**
 * Fails if the current page is not accessible, or does not fit the screen, at two widths, and at
 * one of them in both themes. It must also fit a phone and a laptop with letters of twice the size.
 * Only styles tell these apart, so the page needs no reload.
 */
export async function expectGoodLooks(page: Page): Promise<void> {
  await page.evaluate("document.documentElement.style.fontSize = '200%'");
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    await expectNoSidewaysScroll(page);
  }
  await page.evaluate("document.documentElement.style.fontSize = ''");
  await page.setViewportSize({ width: 320, height: 800 });
  await expectAccessible(page);
  await expectNoSidewaysScroll(page);
  await page.setViewportSize({ width: 1440, height: 800 });
  await expectAccessibleInBothThemes(page);
  await expectNoSidewaysScroll(page);
}

async function expectNoViolation(page: Page, options: RunOptions): Promise<void> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(AXE);
  const run = JSON.stringify({
    // Else axe also describes every element that passes, which takes most of its time.
    resultTypes: ['violations'],
    // Of WCAG 2.2, and off by default.
    rules: { 'target-size': { enabled: true } },
    ...options,
  });
  const { violations } = (await page.evaluate(`axe.run(${run})`)) as AxeResults;
  expect(
    violations.map(({ id, help, nodes }) => ({
      id,
      help,
      at: nodes.map(({ target }) => target.join(' ')),
    })),
  ).toEqual([]);
}

/** Fails if an element extends beyond the window, or the text of a button beyond the button. */
export async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const beyond = `[...document.querySelectorAll('body *')]
    .filter((element) => !element.closest('.visually-hidden') &&
      (element.getBoundingClientRect().right > document.documentElement.clientWidth ||
        (element.matches('button, .button') && element.scrollWidth > element.clientWidth)))
    .map((element) => element.outerHTML.slice(0, 120))`;
  expect(await page.evaluate(beyond)).toEqual([]);
}
