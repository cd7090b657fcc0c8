import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type Shelf, startShelf } from '../../support/file-servers/sftp/shelf.ts';
import { freePort } from '../../support/network/free-port.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import {
  CLI_TIMEOUT_MS,
  type Cli,
  createCli,
  settingsFor,
  written,
} from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

describeWithPostgres('waybill batches and flows', () => {
  let database: TestDatabase;
  let shelf: Shelf;
  let cli: Cli;
  let service: ChildProcess;

  beforeAll(async () => {
    database = await createTestDatabase();
    cli = createCli({ ...settingsFor(database.url), WAYBILL_TRANSFER_RETRY_DELAYS: '100ms' });
    shelf = await startShelf();
    await mkdir(join(shelf.root, 'out/sub'), { recursive: true });
    for (const name of ['a.csv', 'b.csv', 'c.tmp', 'sub/d.csv'])
      await writeFile(join(shelf.root, 'out', name), name);
    const added = await cli.run(
      ['endpoints', 'add', '--file', '-'],
      JSON.stringify(shelf.endpoint),
    );
    expect(added).toMatchObject({ code: 0 });
    service = cli.start(['serve', '--roles', 'projector,mover,monitor']);
    await written(service.stdout as NodeJS.ReadableStream, /waybill runs/);
  }, CLI_TIMEOUT_MS);
  afterAll(async () => {
    service.kill();
    await once(service, 'close');
    await shelf.stop();
    await database.drop();
  });

  it('copies a folder and follows it to its end', async () => {
    const { code, stdout } = await cli.run([
      ...['batches', 'create', 'sftp://shelf/out/', 'sftp://shelf/in/'],
      ...['--recursive', '--exclude', '*.tmp', '--watch'],
    ]);
    expect(stdout).toMatch(/^bat_\w{26}\n/);
    expect(stdout).toMatch(/^status +completed$/m);
    expect(stdout).toMatch(/^completed +3 \(19 bytes\)$/m);
    expect(code).toBe(0);
    expect((await readdir(join(shelf.root, 'in'), { recursive: true })).sort()).toEqual([
      'a.csv',
      'b.csv',
      'sub',
      'sub/d.csv',
    ]);
    const id = stdout.split('\n')[0] as string;
    const [page] = (await cli.run(['batches', 'list', '--json'])).json();
    expect(page).toMatchObject({ data: [{ id, status: 'completed' }], pagination: { total: 1 } });
    const transfers = await cli.run(['transfers', 'list', '--batch', id, '--json']);
    expect(transfers.json()[0]).toMatchObject({ pagination: { total: 3 } });
    expect(await cli.run(['batches', 'cancel', id])).toMatchObject({ code: 4 });
    expect(await cli.run(['batches', 'retry', id])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('no failed transfer'),
    });
  });

  it('copies items, and repeats what failed', async () => {
    const items = ['a.csv', 'late.csv'].map((name) => ({
      source_uri: `sftp://shelf/out/${name}`,
      destination_uri: 'sftp://shelf/items/',
    }));
    const args = ['batches', 'create', '--items', '-', '--watch', '--json'];
    const created = await cli.run(args, JSON.stringify(items));
    const [first, last] = created.json<{ id: string; status: string }>();
    expect(last).toMatchObject({ status: 'completed_with_failures', counts: { failed: 1 } });
    expect(created.code).toBe(6);
    await writeFile(join(shelf.root, 'out', 'late.csv'), 'late');
    const retried = await cli.run(['batches', 'retry', String(first?.id), '--watch', '--json']);
    expect(retried.json().at(-1)).toMatchObject({
      status: 'completed',
      retry_of: first?.id,
      counts: { items: 1, completed: 1 },
    });
    expect(retried.code).toBe(0);
    expect(await cli.run(['batches', 'retry', String(first?.id)])).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(
        /no failed transfer .* A bulk retry of transfers, .* A new batch copies what was rejected/,
      ),
    });
  });

  it('says why nothing of a batch moves', LONG, async () => {
    expect(await cli.run(['endpoints', 'pause', 'shelf'])).toMatchObject({ code: 0 });
    const items = [
      { source_uri: 'sftp://shelf/out/a.csv', destination_uri: 'sftp://shelf/paused/' },
    ];
    const created = await cli.run(['batches', 'create', '--items', '-'], JSON.stringify(items));
    const id = created.stdout.trim();
    const shown = async () => (await cli.run(['batches', 'show', id])).stdout;
    await expect
      .poll(shown, { timeout: CLI_TIMEOUT_MS })
      .toMatch(/^waiting for +endpoint_paused: .*shelf/m);
    await cli.run(['endpoints', 'resume', 'shelf']);
    await expect.poll(shown, { timeout: CLI_TIMEOUT_MS }).toMatch(/^status +completed$/m);
    expect(await shown()).not.toMatch(/^waiting for/m);
  });

  it('says why a batch cannot list its folder, and since when', LONG, async () => {
    const gone = { ...shelf.endpoint, name: 'gone', port: await freePort() };
    await cli.run(['endpoints', 'add', '--file', '-'], JSON.stringify(gone));
    const folders = ['sftp://gone/out/', 'sftp://shelf/in/'];
    const id = (await cli.run(['batches', 'create', ...folders])).stdout.trim();
    const show = async () => (await cli.run(['batches', 'show', id])).stdout;
    await vi.waitFor(
      async () => expect(await show()).toMatch(/^failing +connection_failed: .*refused/m),
      { timeout: 20_000, interval: 200 },
    );
    expect(await show()).toMatch(/^failing since +\d{4}-/m);
    const { stdout } = await cli.run(['batches', 'list']);
    expect(stdout).toMatch(new RegExp(`^${id} +failing: connection_failed `, 'm'));
    await cli.run(['batches', 'cancel', id]);
    await vi.waitFor(async () => expect(await show()).toMatch(/^ended +\d/m), { timeout: 20_000 });
    expect(await show()).not.toContain('failing');
  });

  it('says why a flow cannot list its folder, and since when', LONG, async () => {
    const flow = ['flows', 'create', 'sftp://shelf/none/', 'sftp://shelf/in/', '--name', 'lost'];
    const id = (await cli.run([...flow, '--every', '1h'])).stdout.trim();
    const shown = async () => (await cli.run(['flows', 'show', id])).stdout;
    await expect
      .poll(shown, { timeout: CLI_TIMEOUT_MS })
      .toMatch(/^failing +source_not_found: .*No such file\nfailing since +20/m);
    await cli.run(['flows', 'remove', id]);
  });

  it('creates a flow, shows what a run would take, and runs it', LONG, async () => {
    const created = await cli.run([
      ...['flows', 'create', 'sftp://shelf/out', 'sftp://shelf/flow/{flow}/', '--name', 'orders'],
      ...['--pattern', '*.csv', '--unchanged-for', '0s', '--cron', '0 6 * * 1-5'],
      ...['--exclude', 'x*', '--move-to', 'sent', '--write-marker', '.ok'],
    ]);
    expect(created).toMatchObject({ code: 0, stdout: expect.stringMatching(/^flo_\w{26}\n$/) });
    const id = created.stdout.trim();
    const dry = await cli.run(['flows', 'run', id, '--dry-run']);
    expect(dry.stdout).toMatch(/^FILE +DECISION +WHY +DESTINATION\n/);
    expect(dry.stdout).toMatch(/^a\.csv +take +New +sftp:\/\/shelf\/flow\/orders\/a\.csv$/m);
    expect(await cli.run(['flows', 'run', id])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^run_/),
    });
    const shown = async () => (await cli.run(['flows', 'show', id])).stdout;
    await expect.poll(shown, { timeout: CLI_TIMEOUT_MS }).toMatch(/^run_\w+ +completed /m);
    expect(await shown()).toMatch(/^leaves out +x\*$/m);
    expect(await shown()).toMatch(/^after +write \.ok, move the source to sent\/$/m);
    const [taken] = (await cli.run(['flows', 'files', id, '--json'])).json();
    expect(taken).toMatchObject({ data: Array(3).fill({ status: 'completed' }) });
    const page = ['flows', 'files', id, '--limit', '1', '--offset', '1'];
    expect(await cli.run(page)).toMatchObject({ stderr: '2 to 2 of 3; --offset 2 shows more\n' });
    expect(await cli.run(['flows', 'pause', id])).toMatchObject({ stdout: `${id} paused\n` });
    for (const filters of [[], ['--q', 'ORDERS shelf'], ['--status', 'paused']])
      expect((await cli.run(['flows', 'list', ...filters])).stdout).toMatch(/ orders +paused /);
    expect(await cli.run(['flows', 'list', '--q', 'nothing'])).toMatchObject({
      stderr: 'No flows match\n',
    });
    expect(await cli.run(['flows', 'remove', id])).toMatchObject({ stdout: `${id} removed\n` });
    expect(await cli.run(['flows', 'show', id])).toMatchObject({ code: 3 });
    const wrong = ['flows', 'create', 'sftp://shelf/out', 'sftp://shelf/in/{file}', '--name', 'x'];
    expect(await cli.run(wrong)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('{file}'),
    });
  });

  it('fails to show what a run would take if the folder cannot be listed', LONG, async () => {
    let connections = 0;
    const closing = createServer((socket) => {
      connections++;
      socket.destroy();
    });
    await once(closing.listen(0, '127.0.0.1'), 'listening');
    const { port } = closing.address() as AddressInfo;
    const away = { ...shelf.endpoint, name: 'away', port };
    await cli.run(['endpoints', 'add', '--file', '-'], JSON.stringify(away));
    for (const [source, code] of [
      ['sftp://away/out', 5],
      ['sftp://shelf/none', 1],
    ] as const) {
      const created = await cli.run([
        ...['flows', 'create', source, 'sftp://shelf/flow/', '--name', `dry-${code}`, '--paused'],
      ]);
      const dryRun = ['flows', 'run', created.stdout.trim(), '--dry-run'];
      expect(await cli.run(dryRun)).toMatchObject({
        code,
        stdout: '',
        stderr: expect.stringMatching(/^The folder: .+\n$/),
      });
      const inJson = await cli.run([...dryRun, '--json']);
      expect([inJson.code, inJson.json()]).toMatchObject([
        code,
        [{ data: [], error: { code: expect.any(String) } }],
      ]);
    }
    closing.close();
    // Two dry runs, and a probe may come between. Retries would make it eight.
    expect(connections).toBeLessThan(8);
  });

  it('says what is wrong', async () => {
    expect(
      await cli.run(['batches', 'create', 'sftp://shelf/out/', 'sftp://shelf/in']),
    ).toMatchObject({ code: 2, stderr: expect.stringContaining('destination_uri') });
    expect(await cli.run(['batches', 'show', 'bat_unknown'])).toMatchObject({ code: 3 });
  });
});
