import { setTimeout as sleep } from 'node:timers/promises';
import type { CDPSession } from 'playwright-core';
import { expect, test } from 'vitest';
import { createTransfer } from '../../src/commands/create-transfer.ts';
import { startTransfer } from '../../src/commands/transfers.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { newId } from '../../src/domain/ids.ts';
import { startChromium } from '../support/console/chromium.ts';
import { describeConsole, eventually, startConsole } from '../support/console/console.ts';
import { openPage, signIn } from '../support/console/pages.ts';
import {
  CAUSE,
  configureEndpoint,
  type TestInstallation,
} from '../support/service/installation.ts';
import { startDispatch } from '../support/service/roles.ts';

const TRANSFERS = 10_000;
const MOVING = 50;
const AT_ONCE = 100;
const SIZE = 1_000_000_000_000;
const EVERY_MS = 500;
/** The page's rows, icons and the like, which come and go. */
const NODES_MORE = 200;
const HEAP_MORE = 3 << 20;

interface Footprint {
  nodes: number;
  listeners: number;
  heap: number;
}

/**
 * Keeps the list of 10,000 transfers open while 50 of them move, and scrolls in it. Fails if the
 * page's memory grows.
 */
async function watchList(seconds: number): Promise<void> {
  await using closers = new AsyncDisposableStack();
  const console = await startConsole({}, ['api']);
  closers.defer(() => console.close());
  const dispatch = startDispatch(console.installation);
  closers.defer(() => dispatch.stop());
  const chromium = await startChromium();
  closers.defer(() => chromium.close());
  const moving = await provideTransfers(console.installation);

  const { page, complaints } = await openPage(chromium.browser, console, '/console/transfers');
  await signIn(page, console.key);
  await page.getByText(`1–50 of ${TRANSFERS.toLocaleString('en-GB')}`).waitFor();
  await page.getByRole('link', { name: 'Last' }).click();
  await page.getByText(`9,951–${TRANSFERS.toLocaleString('en-GB')}`).waitFor();
  await page.getByRole('link', { name: 'First' }).click();

  const stopping = new AbortController();
  const pumping = move(console.installation, moving, stopping.signal);
  closers.defer(async () => {
    stopping.abort();
    await pumping;
  });
  await eventually(() => page.getByRole('progressbar').count()).toBe(MOVING);

  const session = await page.context().newCDPSession(page);
  const scrollFor = async (wanted: number) => {
    for (
      const until = performance.now() + wanted * 1_000;
      performance.now() < until;
      await sleep(100)
    ) {
      await page.mouse.wheel(0, Math.floor(performance.now() / 2_000) % 2 === 0 ? 400 : -400);
    }
  };
  const before = await page.getByRole('progressbar').first().getAttribute('value');
  await scrollFor(seconds / 6);
  const first = await footprint(session);
  await scrollFor((seconds * 5) / 6);
  const last = await footprint(session);

  expect(last.nodes).toBeLessThan(first.nodes + NODES_MORE);
  expect(last.listeners).toBeLessThan(first.listeners + NODES_MORE);
  expect(last.heap).toBeLessThan(first.heap + HEAP_MORE);
  expect(Number(await page.getByRole('progressbar').first().getAttribute('value'))).toBeGreaterThan(
    Number(before),
  );
  expect(complaints).toEqual([]);
}

/** Returns the ids of the moving transfers: the newest. */
async function provideTransfers(installation: TestInstallation): Promise<string[]> {
  await configureEndpoint(installation, {
    name: 'bank',
    protocol: 'sftp',
    host: '127.0.0.1',
    port: 1,
    username: 'nobody',
    password: 'none',
  });
  const { commands } = installation;
  const ids: string[] = [];
  for (let begun = 0; begun < TRANSFERS; begun += AT_ONCE) {
    const batch = Array.from({ length: AT_ONCE }, (_, index) => {
      const file = `report-${begun + index}.csv`;
      const body = transferRequest.parse({
        source_uri: `sftp://partner/out/${file}`,
        destination_uri: `sftp://bank/in/${file}`,
      });
      return createTransfer(commands, 'acc_default', body, CAUSE);
    });
    ids.push(...(await Promise.all(batch)).map(({ state }) => state.facts.transfer_id));
  }
  const { sql } = installation;
  const queued = async () =>
    (await sql`select from work.transfer_jobs where status = 'queued'`).count;
  await eventually(queued).toBe(TRANSFERS);

  const moving = ids.toSorted().slice(-MOVING);
  for (const id of moving) {
    const claimId = newId('clm');
    await sql`
      update work.transfer_jobs
         set claim_id = ${claimId}, claimed_by = 'test', lease_until = now() + interval '1 hour',
             size_bytes = ${SIZE}, speed_bps = 80000000
       where transfer_id = ${id}`;
    await startTransfer(commands, id, { claimId, source: null, destination: null }, CAUSE);
  }
  return moving;
}

/** Does what movers do, only faster. */
async function move({ sql }: TestInstallation, ids: string[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sql`
      update work.transfer_jobs
         set transferred_bytes =
             least(size_bytes, transferred_bytes + 1000000000 * random()::numeric)
       where transfer_id = any(${ids}::text[])`;
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function footprint(session: CDPSession): Promise<Footprint> {
  await session.send('HeapProfiler.collectGarbage');
  await session.send('Performance.enable');
  const { metrics } = await session.send('Performance.getMetrics');
  const metric = (name: string) => metrics.find((found) => found.name === name)?.value ?? 0;
  return {
    nodes: metric('Nodes'),
    listeners: metric('JSEventListeners'),
    heap: metric('JSHeapUsedSize'),
  };
}

await describeConsole('a list of 10,000 transfers of which 50 move', () => {
  test('does not grow within ten minutes', () => watchList(600));
});
