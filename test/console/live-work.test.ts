import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  describeConsole,
  eventually,
  expectAccessible,
  expectNoSidewaysScroll,
} from '../support/console/console.ts';
import { useConsole } from '../support/console/use-console.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../support/file-servers/sftp/server.ts';
import { LONG } from '../support/run/long.ts';
import { configureSftp, submit, untilStatus } from '../support/service/installation.ts';

// A browser, a service and a server share the machine with other test files.
vi.setConfig({ testTimeout: 120_000 });

const noServer = await whyNoSftpServer();

await describeConsole('work that the console shows as it happens', () => {
  const console = useConsole();
  let server: SftpServer;

  beforeAll(async () => {
    if (noServer !== null) return;
    server = await startSftpServer();
    await configureSftp(console.installation, 'files', server);
  });
  afterAll(() => server?.stop());

  const move = (file: string) =>
    submit(console.installation, `sftp://files/${file}`, `sftp://files/moved/${file}`);

  test.skipIf(noServer !== null)(
    'small files and immediate failures appear in the list, however short they take',
    async () => {
      writeFileSync(join(server.root, 'first.txt'), 'small');
      await untilStatus(console.installation, await move('first.txt'), 'completed');
      const page = await console.visitSignedIn('/console/transfers');
      await page.locator('.subtitle').getByText('Live').waitFor();
      const row = (file: string) => page.getByRole('row').filter({ hasText: file });
      await row('first.txt').waitFor();

      const files = ['a.txt', 'b.txt', 'c.txt'];
      for (const file of files) writeFileSync(join(server.root, file), 'small');
      await Promise.all([...files, 'missing.txt'].map(move));
      for (const file of files) await row(file).getByText('Completed').waitFor();
      await row('missing.txt').getByText('Failed').waitFor();
      expect(await page.getByRole('row').count()).toBe(1 + 5);
    },
  );

  test.skipIf(noServer !== null)(
    'the graphs have values, which the keyboard reaches, and a peak leads to its transfers',
    LONG,
    async () => {
      const { sql } = console.installation;
      await sql`
        insert into work.samples
          (at, created, completed, failed, cancelled, waiting, moving, moved_bytes)
        values (now() - interval '5 minutes', 0, 0, 0, 0, 0, 0, 0)`;
      writeFileSync(join(server.root, 'seen.bin'), Buffer.alloc(1 << 20));
      await untilStatus(console.installation, await move('seen.bin'), 'completed');
      await eventually(async () => {
        const [row] = await sql`select bytes from work.moved_bytes`;
        return Number(row?.bytes);
      }).toBeGreaterThanOrEqual(1 << 20);

      const page = await console.visitSignedIn('/console/operations', {
        viewport: { width: 320, height: 800 },
      });
      await page.getByRole('heading', { name: 'Last hour' }).waitFor();
      const graph = page.getByRole('figure').filter({
        has: page.getByRole('img', { name: 'Throughput, last hour' }),
      });
      await graph.getByText(/1\.0 MiB moved, peak/).waitFor();
      const values = graph.getByRole('slider');
      await values.focus();
      for (const key of ['End', 'ArrowLeft', 'Home']) await page.keyboard.press(key);
      expect(await values.getAttribute('aria-valuetext')).toMatch(
        /^\d\d:\d\d: .* bit\/s|bit\/s \(/,
      );
      await graph.locator('.chart-tip').waitFor();
      await expectAccessible(page);
      await expectNoSidewaysScroll(page);

      await page.getByRole('link', { name: /^peak .*%/ }).waitFor();
      await graph.getByRole('link', { name: /^peak .*bit\/s at/ }).click();
      await page.getByRole('link', { name: 'seen.bin' }).waitFor();
      await page.getByText('Show all times').click();
      await page.getByRole('link', { name: 'first.txt' }).waitFor();
    },
  );
});
