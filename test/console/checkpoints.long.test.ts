import { generateKeyPairSync } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, expect, test, vi } from 'vitest';
import { checkpointFile } from '../../src/adapters/checkpoint-sinks/port.ts';
import { checkpointText } from '../../src/domain/proof/checkpoint.ts';
import { signNote } from '../../src/domain/proof/note.ts';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectNoSidewaysScroll,
} from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import { appendTransfer } from '../support/webhooks/webhooks.ts';

// A browser and a service share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const folder = await mkdtemp(join(tmpdir(), 'waybill-sinks-'));
const [kept, missing, foreign] = ['kept', 'missing', 'foreign'].map((name) => join(folder, name));
const WAYBILL_CHECKPOINT_SINKS = [kept, missing, foreign]
  .map((path) => pathToFileURL(path as string).href)
  .join();
for (const path of [kept, foreign]) await mkdir(path as string);
const another = { origin: 'waybill/another', size: 900, root: Buffer.alloc(32) };
await writeFile(
  join(foreign as string, checkpointFile(900)),
  signNote(checkpointText(another), another.origin, [generateKeyPairSync('ed25519').privateKey]),
);

await describeConsole('checkpoints in the console', () => {
  const console = useConsole({ WAYBILL_CHECKPOINT_SINKS });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const textOf = async (page: Page, path: string | undefined) =>
    page
      .getByRole('row')
      .filter({ hasText: `${path}` })
      .innerText();

  test('are signed on request, and show what each place outside keeps', async () => {
    await appendTransfer(console.installation.store, ['cancelled']);
    const page = await console.visitSignedIn('/console/checkpoints');
    await page.getByRole('button', { name: 'Sign now' }).click();
    const signed = page.getByRole('table', { name: 'Checkpoints, newest first' });
    await signed.getByRole('row').nth(1).waitFor();
    await eventually(() => textOf(page, kept)).toContain('Keeps the last one');
    await eventually(() => textOf(page, missing)).toContain('ENOENT');
    await eventually(() => textOf(page, foreign)).toContain('Contradicts the log');
    await page.getByRole('alert').filter({ hasText: 'A restored older log' }).waitFor();
    expect(await textOf(page, foreign)).toContain('it keeps checkpoints of waybill/another');
    await expectAccessible(page);
    await expectNoSidewaysScroll(page);
  });
});
