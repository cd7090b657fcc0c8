import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { createLocks } from '../../../src/adapters/postgres/locks.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import { CLI_TIMEOUT_MS, type Cli, createCli, settingsFor } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

interface Exported {
  type: string;
  metadata: { actor: string };
}

describeWithPostgres('waybill keys', () => {
  let database: TestDatabase;
  let cli: Cli;

  beforeAll(async () => {
    database = await createTestDatabase();
    cli = createCli(settingsFor(database.url));
  });
  afterAll(() => database.drop());

  it('creates, lists and revokes keys', async () => {
    const created = await cli.run([
      'keys',
      'create',
      '--name',
      'night job',
      '--scopes',
      'transfers:write,audit:read',
      '--expires-in',
      '12h',
      '--json',
    ]);
    expect(created).toMatchObject({ code: 0, stderr: '' });
    const [key] = created.json<{ id: string; key: string }>() as [{ id: string; key: string }];
    expect(key).toMatchObject({
      id: expect.stringMatching(/^key_/),
      key: expect.stringMatching(/^wb_\w{38}$/),
      account: 'acc_default',
    });

    const [listed, ...others] = (await cli.run(['keys', 'list', '--json'])).json();
    expect(others).toEqual([]);
    expect(listed).toMatchObject({
      id: key.id,
      name: 'night job',
      scopes: ['transfers:write', 'audit:read'],
      last_four: key.key.slice(-4),
      status: 'active',
      expiring_soon: true,
      revoked_at: null,
      last_used_at: null,
    });
    expect(JSON.stringify(listed)).not.toContain(key.key);

    expect(await cli.run(['keys', 'revoke', key.id])).toMatchObject({
      code: 0,
      stdout: `${key.id} is revoked\n`,
    });
    expect((await cli.run(['keys', 'list'])).stdout).toMatch(
      /^ID +NAME +ACCOUNT +ACCESS +KEY +STATE\nkey_\w+ +night job .* revoked \d{4}-/,
    );

    const events = (await cli.run(['audit', 'export']))
      .json<Exported>()
      .filter(({ type }) => type.startsWith('key.'));
    expect(events.map(({ type }) => type)).toEqual(['key.created', 'key.revoked']);
    expect(events[0]!.metadata.actor).toMatch(/^cli:./);
  });

  it('creates a key with a role', async () => {
    const args = ['keys', 'create', '--name', 'watcher', '--role', 'viewer'];
    const created = await cli.run([...args, '--json']);
    expect(created.json()[0]).toMatchObject({
      role: 'viewer',
      scopes: ['transfers:read', 'flows:read', 'webhooks:read', 'observe'],
    });
    expect((await cli.run(args)).stdout).toMatch(/^access +viewer$/m);
    const both = await cli.run([...args, '--scopes', 'admin']);
    expect(both).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("cannot be used with option '--scopes"),
    });
  });

  it('shows a person the key once', async () => {
    const { code, stdout } = await cli.run(['keys', 'create', '--name', 'x', '--scopes', 'admin']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^key +wb_\w{38}$/m);
    expect(stdout).toMatch(/not shown again/);
  });

  it('names every wrong field', async () => {
    const { code, stdout, stderr } = await cli.run([
      'keys',
      'create',
      '--name',
      '',
      '--scopes',
      'everything',
      '--account',
      'A B',
    ]);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toMatch(
      /^waybill: The key is not valid:\n {2}name: .*\n {2}scopes\[0\]: .*\n {2}account: .*\n$/,
    );
  });

  it('rejects a lifetime that is too long or unlimited', async () => {
    expect(
      await cli.run(['keys', 'create', '--name', 'x', '--scopes', 'admin', '--expires-in', '366d']),
    ).toMatchObject({ code: 2 });
    expect(
      await cli.run([
        'keys',
        'create',
        '--name',
        'x',
        '--scopes',
        'admin',
        '--expires-in',
        'never',
      ]),
    ).toMatchObject({ code: 2 });
  });

  it('creates an unlimited key if the installation allows it', async () => {
    const open = createCli({ ...settingsFor(database.url), WAYBILL_ALLOW_UNLIMITED_KEYS: 'true' });
    const { code, json } = await open.run([
      'keys',
      'create',
      '--name',
      'x',
      '--scopes',
      'admin',
      '--expires-in',
      'never',
      '--json',
    ]);
    expect(code).toBe(0);
    expect(json()[0]!.expires_at).toBeNull();
  });

  it.each(['key_01JZ8Q6W3N5V4T2R1P0M9K8J7H', 'nonsense'])('does not find %s', async (id) => {
    const { code, stderr } = await cli.run(['keys', 'revoke', id]);
    expect(code).toBe(3);
    expect(stderr).toMatch(/^waybill: There is no /);
  });

  it('says that the catalog is behind the log, and shows what it has', LONG, async () => {
    const name = ['--name', 'late', '--scopes', 'transfers:read'];
    await cli.run(['keys', 'create', ...name]);
    const locks = createLocks(database.url);
    onTestFinished(() => locks.close());
    // A process that fills the catalog, and has not come far.
    const held = await locks.tryAcquire(lockOf('catalog'));
    onTestFinished(() => held?.release());
    await database.sql`update read.checkpoints set position = 0 where name = 'catalog'`;
    expect(await cli.run(['keys', 'list'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('late'),
      stderr: expect.stringMatching(/^The read model catalog is behind .* may be out of date\n$/),
    });
  });
});
