import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { createLocks } from '../../../src/adapters/postgres/locks.ts';
import type { ProjectionName } from '../../../src/domain/projection-name.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import { PROJECTIONS } from '../../../src/projections/read-models.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import { CLI_TIMEOUT_MS, type Cli, createCli, settingsFor } from '../../support/service/cli.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

const ENDPOINT = {
  name: 'partner',
  protocol: 'sftp',
  host: '127.0.0.1',
  port: 2222,
  host_key_sha256: null,
  username: 'waybill',
  password: 'secret',
};
const [SOURCE, TARGET] = ['sftp://partner/out/', 'sftp://partner/in/'];
const ITEMS = [{ source_uri: `${SOURCE}b.csv`, destination_uri: TARGET }];

describeWithPostgres('the read models of the command line', () => {
  let database: TestDatabase;
  let cli: Cli;
  /** Commands that find something, and what they print then. */
  let finding: [args: string[], found: RegExp][];

  beforeAll(async () => {
    database = await createTestDatabase();
    cli = createCli(settingsFor(database.url));
    const run = async (args: string[], input?: unknown) => {
      const { code, stdout, stderr } = await cli.run(args, JSON.stringify(input));
      expect({ code, stderr }).toMatchObject({ code: 0 });
      return stdout.trim();
    };
    await run(['keys', 'create', '--name', 'night job', '--scopes', 'transfers:read']);
    await run(['endpoints', 'add', '--file', '-'], ENDPOINT);
    const transfer = await run(['transfers', 'create', `${SOURCE}a.csv`, TARGET]);
    const batch = await run(['batches', 'create', '--items', '-'], ITEMS);
    const flow = await run(['flows', 'create', SOURCE, TARGET, '--name', 'orders', '--paused']);
    finding = [
      [['keys', 'list'], /night job/],
      [['endpoints', 'list'], /partner/],
      [['endpoints', 'pause', 'partner'], /^partner is paused/],
      [['transfers', 'list', '--status', 'pending'], RegExp(transfer)],
      [['transfers', 'list', '--q', 'a.csv'], RegExp(transfer)],
      [['transfers', 'list', '--csv'], RegExp(transfer)],
      [['batches', 'list'], RegExp(`${batch} +open`)],
      [['flows', 'list'], RegExp(flow)],
      [['audit', 'list'], /partner/],
      [['transfers', 'bulk', 'set-priority', '--q', 'b.csv', '--priority', 'high'], /^1 done/],
    ];
  }, CLI_TIMEOUT_MS);
  afterAll(() => database.drop());

  it('are filled from the log before a command reads them', async () => {
    for (const [args, found] of finding) {
      await database.sql`drop schema read cascade`;
      const { stdout, stderr } = await cli.run(args);
      expect({ args, stdout, stderr }).toEqual({
        args,
        stdout: expect.stringMatching(found),
        stderr: '',
      });
    }
  });

  it('prove nothing while another process fills them', LONG, async () => {
    const locks = createLocks(database.url);
    onTestFinished(() => locks.close());
    for (const name of Object.keys(PROJECTIONS) as ProjectionName[]) {
      const held = await locks.tryAcquire(lockOf(name));
      onTestFinished(() => held?.release());
    }
    await database.sql`drop schema read cascade`;
    const results = await Promise.all(finding.map(([args]) => cli.run(args)));
    for (const [i, [args]] of finding.entries())
      expect({ args, ...results[i] }).toMatchObject({
        args,
        code: 5,
        stdout: '',
        stderr: expect.stringMatching(/^waybill: The read model \w+ is behind .* caught up\n$/),
      });
  });
});
