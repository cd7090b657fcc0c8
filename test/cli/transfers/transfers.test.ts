import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { newId } from '../../../src/domain/ids.ts';
import { type Shelf, startShelf } from '../../support/file-servers/sftp/shelf.ts';
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
  runClosed,
  settingsFor,
  written,
} from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

const COPY = ['sftp://shelf/report.csv', 'sftp://shelf/copy.csv'];

describeWithPostgres('waybill transfers', () => {
  let database: TestDatabase;
  let shelf: Shelf;
  let cli: Cli;

  beforeAll(async () => {
    database = await createTestDatabase();
    cli = createCli({ ...settingsFor(database.url), WAYBILL_TRANSFER_RETRY_DELAYS: '100ms' });
    shelf = await startShelf();
    await writeFile(join(shelf.root, 'report.csv'), 'a,b\n'.repeat(100_000));
    const file = JSON.stringify(shelf.endpoint);
    expect(await cli.run(['endpoints', 'add', '--file', '-'], file)).toMatchObject({ code: 0 });
  });
  afterAll(async () => {
    await shelf.stop();
    await database.drop();
  });

  async function create(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await cli.run(['transfers', 'create', ...COPY, ...args]);
    expect(code, stderr).toBe(0);
    return stdout.trim();
  }

  it('creates, shows, lists and cancels a transfer without a running service', async () => {
    const id = await create(
      '--priority',
      'high',
      '--metadata',
      'case=4711',
      '--metadata',
      'ward=a=b',
      '--expected-sha256',
      'AB'.repeat(32),
      '--verify',
      'read_back',
      '--preserve-mtime',
      '--move-to',
      'sent',
      '--write-marker',
      '.done',
    );
    expect((await cli.run(['transfers', 'get', id, '--json'])).json()).toMatchObject([
      {
        id,
        status: 'pending',
        priority: 'high',
        metadata: { case: '4711', ward: 'a=b' },
        expected_sha256: 'ab'.repeat(32),
        verify: 'read_back',
        preserve_mtime: true,
        after: { source: { move_to: 'sent/' }, destination_marker: '.done', state: 'waiting' },
        progress_pct: 0,
      },
    ]);
    expect(
      (await cli.run(['transfers', 'list', '--json', '--status', 'pending'])).json(),
    ).toMatchObject([
      {
        data: [{ id, status: 'pending' }],
        pagination: { total: 1, limit: 25, offset: 0, has_more: false },
      },
    ]);
    const search = ['transfers', 'list', '--q'];
    const [found] = (await cli.run([...search, 'REPORT shelf', '--json'])).json();
    expect(found).toMatchObject({ data: [{ id }], pagination: { total: 1, total_is_exact: true } });
    const { stdout } = await cli.run([...search, id, '--csv', '--sort', 'created_at']);
    expect(stdout).toMatch(new RegExp(`^id,file_name,[^\\n]*\\r\\n${id},[^\\n]*\\r\\n$`));
    expect((await cli.run([...search, 'nothing'])).stderr).toBe('No transfers match\n');
    const noMover = { reason: 'no_mover', message: 'No mover is running.' };
    expect((await cli.run(['transfers', 'list', '--json'])).json()).toMatchObject([
      { data: [{ id, waiting_for: noMover }] },
    ]);
    expect((await cli.run(['transfers', 'get', id])).stdout).toMatch(
      /\nwaiting for +no_mover: No mover is running\.\n/,
    );
    expect((await cli.run(['transfers', 'list'])).stdout).toMatch(
      new RegExp(`^ID +STATUS +WAITING FOR .*\n${id}  pending +no_mover +- `),
    );
    expect(await cli.run(['transfers', 'abort', id])).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/only one in progress/),
    });
    expect(await cli.run(['transfers', 'cancel', id])).toMatchObject({
      code: 0,
      stdout: `${id} is cancelled\n`,
    });
    expect(await cli.run(['transfers', 'cancel', id])).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/The transfer is cancelled/),
    });
    expect(await cli.run(['transfers', 'watch', id])).toMatchObject({
      code: 7,
      stdout: `${id} cancelled\n`,
    });
    expect((await cli.run(['transfers', 'list'])).stdout).toMatch(
      new RegExp(`^ID .*\n${id}  cancelled `),
    );
  });

  it('changes the priority of transfers, cancels many and retries them', LONG, async () => {
    const [first, second] = [await create('--priority', 'low'), await create()];
    expect(await cli.run(['transfers', 'set-priority', first, 'high'])).toMatchObject({
      code: 0,
      stdout: `${first} has the priority high\n`,
    });
    expect(await cli.run(['transfers', 'set-priority', first, 'urgent'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/priority: /),
    });
    const bulk = (...args: string[]) => cli.run(['transfers', 'bulk', ...args]);
    const mine = ['--destination', 'sftp://shelf/copy.csv'];
    expect(await bulk('set-priority', ...mine, '--priority', 'high')).toMatchObject({
      code: 0,
      stdout: '1 done, 0 refused\n',
    });
    expect((await cli.run(['history', first])).stdout).toMatch(
      /\n1 .*transfer\.priority_changed .* high *\n[\s\S]*\npriority +high\n/,
    );
    const ids = `${first},${second},nonsense`;
    const [answer] = (await bulk('cancel', '--ids', ids, '--json')).json();
    expect(answer).toMatchObject({ done: 2, refusals: [{ id: 'nonsense', code: 'not_found' }] });
    expect(await bulk('cancel', '--ids', 'nonsense')).toMatchObject({
      code: 4,
      stdout: expect.stringMatching(
        /^0 done, 1 refused\nID .*\nnonsense +not_found +There is no such transfer\n$/,
      ),
    });
    expect(await bulk('cancel', ...mine, '--continue-from', 'nonsense')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/must be the continue_from of the previous answer/),
    });
    expect(await bulk('cancel')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/choose the transfers by '--ids', or by filters/),
    });
    expect(await cli.run(['transfers', 'set-priority', first, 'low'])).toMatchObject({ code: 4 });

    const retried = await cli.run(['transfers', 'retry', first]);
    expect(retried).toMatchObject({ code: 0, stdout: expect.stringMatching(/^txr_\w+\n$/) });
    const id = retried.stdout.trim();
    expect((await cli.run(['transfers', 'get', id])).stdout).toMatch(
      new RegExp(`\nretry of +${first}\n`),
    );
    const list = ['transfers', 'list', '--retry-of', first, '--json'];
    expect((await cli.run(list)).json()).toMatchObject([{ data: [{ id, retry_of: first }] }]);
    const cancelled = ['transfers', 'list', '--status', 'cancelled', '--json'];
    expect((await cli.run([...cancelled, '--retried'])).json()).toMatchObject([
      { data: [{ id: first }], pagination: { total: 1 } },
    ]);
    expect((await cli.run([...cancelled, '--no-retried'])).json()).toMatchObject([
      { data: expect.not.arrayContaining([expect.objectContaining({ id: first })]) },
    ]);
    expect(await bulk('retry', '--status', 'cancelled', '--retried')).toMatchObject({
      code: 0,
      stdout: '0 done, 0 refused\n',
    });
    expect(await cli.run(['transfers', 'retry', id])).toMatchObject({ code: 4 });
    expect(await cli.run(['transfers', 'cancel', id])).toMatchObject({ code: 0 });
  });

  it('replays a history up to a revision or a time', LONG, async () => {
    const id = await create();
    await cli.run(['transfers', 'cancel', id]);
    const [whole] = (await cli.run(['history', id, '--json'])).json<{
      events: { type: string; occurred_at: string }[];
      state: object;
    }>();
    expect(whole!.events.map(({ type }) => type)).toEqual([
      'transfer.created',
      'transfer.cancelled',
    ]);
    expect(whole!.state).toMatchObject({ id, status: 'cancelled' });
    for (const asOf of ['0', whole!.events[0]!.occurred_at]) {
      const [early] = (await cli.run(['history', id, '--as-of', asOf, '--json'])).json<{
        events: object[];
        state: object;
      }>();
      expect(early!.events).toHaveLength(1);
      expect(early!.state).toMatchObject({ status: 'pending' });
    }
    expect((await cli.run(['history', id])).stdout).toMatch(
      /^REVISION .*\n0 .*transfer\.created .*\n1 .*transfer\.cancelled .*\n\nid +txr_/,
    );
    expect(await cli.run(['history', id, '--as-of', 'yesterday'])).toMatchObject({ code: 2 });
    expect(await cli.run(['history', id, '--as-of', '2'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/as_of: must be a revision from 0 to 1/),
    });
  });

  it('finds the history of any account, and --account narrows it', LONG, async () => {
    const other = ['--account', 'acc_other'];
    expect(await cli.run(['transfers', 'create', ...COPY, ...other])).toMatchObject({
      code: 3,
      stdout: '',
      stderr: expect.stringMatching(/There is no account acc_other: .* once it has had a key/),
    });
    await cli.run(['keys', 'create', '--name', 'x', '--scopes', 'transfers:read', ...other]);
    const id = await create(...other);
    for (const args of [[], ['--account', 'acc_other']]) {
      const { code, stdout } = await cli.run(['history', id, ...args]);
      expect(code).toBe(0);
      expect(stdout).toMatch(/transfer\.created [\s\S]*\naccount +acc_other\n/);
    }
    expect(await cli.run(['history', id, '--account', 'acc_default'])).toMatchObject({
      code: 3,
      stdout: '',
      stderr: 'waybill: The transfer belongs to acc_other, not to acc_default\n',
    });
    for (const unknown of ['nonsense', 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H'])
      expect(await cli.run(['history', unknown])).toMatchObject({
        code: 3,
        stdout: '',
        stderr: 'waybill: There is no such transfer\n',
      });
    await cli.run(['transfers', 'cancel', id, '--account', 'acc_other']);
  });

  it('finds nothing under an unknown id, or in another account', LONG, async () => {
    const id = await create();
    const searched = '  Only the account acc_default was searched: --account names another.\n';
    for (const [args, advice] of [
      [['get', 'nonsense'], searched],
      [['watch', 'nonsense'], searched],
      [['get', id, '--account', 'acc_other'], ''],
      [['cancel', id, '--account', 'acc_other'], ''],
    ] as const) {
      expect(await cli.run(['transfers', ...args]), args.join(' ')).toMatchObject({
        code: 3,
        stdout: '',
        stderr: `waybill: There is no such transfer\n${advice}`,
      });
    }
    await cli.run(['transfers', 'cancel', id]);
  });

  it('names every wrong field of a new transfer', async () => {
    const nowhere = await cli.run(['transfers', 'create', 'sftp://shelf/a', 's3://nowhere/b']);
    expect(nowhere).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/destination_uri: must be on a configured endpoint/),
    });
    const both = await cli.run(['transfers', 'create', 'http://a/b', 'ftp://a/b']);
    expect(both.code).toBe(2);
    expect(both.stderr).toMatch(/source_uri: .*\n {2}destination_uri: /);
  });

  it('reports that no mover runs', LONG, async () => {
    const watching = cli.start([
      'transfers',
      'create',
      'sftp://shelf/report.csv',
      'sftp://shelf/copy.csv',
      '--watch',
    ]);
    const ended = once(watching, 'close');
    await written(watching.stdout!, /^txr_\w+ pending\. No mover is running\.$/m);
    await written(watching.stderr!, /No mover runs.*waybill serve/);
    watching.kill('SIGINT');
    expect(await ended).toEqual([null, 'SIGINT']);
    const [page] = (await cli.run(['transfers', 'list', '--json', '--status', 'pending'])).json<{
      data: { id: string }[];
    }>();
    expect(page!.data).toHaveLength(1);
    await cli.run(['transfers', 'cancel', page!.data[0]!.id]);
  });

  it('serves until a signal stops it, and watches a transfer', async () => {
    const service: ChildProcess = cli.start(['serve', '--roles', 'projector,mover']);
    const ended = once(service, 'close');
    try {
      await written(service.stdout!, /waybill runs/);
      const watched = await cli.run([
        'transfers',
        'create',
        'sftp://shelf/report.csv',
        'sftp://shelf/new/',
        '--watch',
        '--json',
      ]);
      expect(watched.code, watched.stderr).toBe(0);
      expect(watched.json()[0]).toMatchObject({ status: 'pending' });
      expect(watched.json().at(-1)).toMatchObject({
        status: 'completed',
        progress_pct: 100,
        size_bytes: 400_000,
      });
      expect(await readFile(join(shelf.root, 'new', 'report.csv'))).toEqual(
        await readFile(join(shelf.root, 'report.csv')),
      );

      const failed = await cli.run([
        'transfers',
        'create',
        'sftp://shelf/none.csv',
        'sftp://shelf/copy.csv',
        '--watch',
      ]);
      expect(failed.code, failed.stderr).toBe(6);
      expect(failed.stdout).toMatch(
        /^txr_\w+ failed: source_not_found in source_open: .*\n {2}Check the path of the source/m,
      );

      const closed = ['transfers', 'create', 'sftp://shelf/none.csv', 'sftp://shelf/copy.csv'];
      expect(await runClosed(settingsFor(database.url), closed)).toBe(0);
      expect(await runClosed(settingsFor(database.url), [...closed, '--watch'])).toBe(1);
      const [failedId] = failed.stdout.split('\n');
      expect((await cli.run(['transfers', 'get', failedId as string])).stdout).toMatch(
        /\nerror +source_not_found in source_open: .*none\.csv.*\nadvice +Check the path /,
      );
      expect((await cli.run(['transfers', 'list', '--status', 'failed'])).stdout).toMatch(
        /^ID +STATUS +WAITING FOR +ERROR .*\n\w+ +failed +- +source_not_found /,
      );
      const withError = (code: string) =>
        cli.run(['transfers', 'list', '--sort', 'created_at', '--json', '--error-code', code]);
      const [found] = (await withError('source_not_found')).json<{ data: object[] }>();
      expect(found!.data[0]).toMatchObject({ id: failedId, status: 'failed' });
      expect((await withError('timeout')).json()).toMatchObject([{ pagination: { total: 0 } }]);
      expect((await withError('oops')).stderr).toMatch(/Allowed choices are auth_failed, /);
      const [endpoint] = await database.sql<{ endpoint_id: string }[]>`
        select endpoint_id from read.endpoints where name = 'shelf'`;
      const listed = ['transfers', 'list', '--sort', 'created_at', '--json', '--error-endpoint'];
      const [atShelf] = (await cli.run([...listed, endpoint!.endpoint_id])).json<typeof found>();
      expect(atShelf!.data[0]).toMatchObject({ id: failedId });
      expect((await cli.run([...listed, newId('end')])).json()).toMatchObject([
        { pagination: { total: 0 } },
      ]);
      const watch = ['transfers', 'watch', failedId!];
      expect(await runClosed(settingsFor(database.url), watch)).toBe(6);

      await cli.run(['endpoints', 'pause', 'shelf']);
      const id = await create();
      expect(await cli.run(['endpoints', 'remove', 'shelf'])).toMatchObject({
        code: 4,
        stderr: expect.stringContaining(id),
      });
      expect(await cli.run(['transfers', 'get', id, '--json'])).toMatchObject({
        stdout: expect.stringMatching(/"status":"(pending|queued)"/),
      });
      expect(await cli.run(['transfers', 'cancel', id])).toMatchObject({ code: 0 });
      expect(await cli.run(['endpoints', 'remove', 'shelf'])).toMatchObject({ code: 0 });
    } finally {
      service.kill('SIGTERM');
    }
    expect(await ended).toEqual([0, null]);
  });
});
