import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { connect } from '../../../src/adapters/postgres/connect.ts';
import { endpoint } from '../../../src/contract/endpoints/answers.ts';
import {
  type DemoServer,
  fingerprintOf,
  newHostKey,
  startDemoServer,
} from '../../../src/dev/sftp-server.ts';
import { noteObservation } from '../../../src/processes/endpoints/connectivity.ts';
import { noteRejection } from '../../../src/processes/endpoints/sign-in-holds.ts';
import { listEndpoints } from '../../../src/projections/catalog/queries.ts';
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

const hostKey = newHostKey();
const PINNED = { host_key_sha256: fingerprintOf(hostKey) };
const PASSWORD = 'canary-9f3b';

describeWithPostgres('waybill endpoints', () => {
  let database: TestDatabase;
  let server: DemoServer;
  let folder: string;
  let cli: Cli;

  beforeAll(async () => {
    database = await createTestDatabase();
    cli = createCli(settingsFor(database.url));
    folder = await mkdtemp(join(tmpdir(), 'waybill-endpoints-'));
    server = await startDemoServer({
      root: join(folder, 'root'),
      port: 0,
      hostKey,
      username: 'demo',
      password: PASSWORD,
    });
    await writeFile(join(folder, 'root', 'report.csv'), '1,2,3');
  });
  afterAll(async () => {
    await server.close();
    await rm(folder, { recursive: true });
    await database.drop();
  });

  const definition = (name: string, more: object = {}) =>
    JSON.stringify({
      name,
      protocol: 'sftp',
      host: '127.0.0.1',
      port: server.port,
      username: 'demo',
      password: PASSWORD,
      ...more,
    });
  const add = (name: string, more?: object) =>
    cli.run(['endpoints', 'add', '--file', '-'], definition(name, more));

  it('configures an endpoint from a file, and updates it', async () => {
    const file = join(folder, 'hospital.json');
    await writeFile(file, definition('hospital', { max_connections: 2 }));
    expect(await cli.run(['endpoints', 'add', '--file', file])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^hospital is configured \(end_/),
    });
    const updated = await cli.run(
      ['endpoints', 'add', '--file', '-', '--json'],
      definition('hospital', { max_connections: 3 }),
    );
    expect(updated.json()).toEqual([
      { id: expect.stringMatching(/^end_/), name: 'hospital', created: false },
    ]);
    const listed = await cli.run(['endpoints', 'list', '--json']);
    expect(listed.json()).toEqual([
      expect.objectContaining({
        name: 'hospital',
        max_connections: 3,
        has_credentials: 'password',
        paused: false,
      }),
    ]);
    expect(listed.json().map((line) => endpoint.parse(line))).toEqual(listed.json());
    expect(listed.stdout + (await cli.run(['audit', 'export'])).stdout).not.toContain(PASSWORD);
  });

  it('names every wrong field, and no secret', async () => {
    const { code, stderr } = await add('Not A Name', {
      port: 0,
      passwort: PASSWORD,
      private_key: 'x',
    });
    expect(code).toBe(2);
    expect(stderr).toMatch(/name: .*/);
    expect(stderr).toMatch(/port: /);
    expect(stderr).toMatch(/passwort: is not a known field/);
    expect(stderr).not.toContain(PASSWORD);
  });

  it('names the place of a JSON error, without the text there', async () => {
    const { code, stderr } = await cli.run(
      ['endpoints', 'add', '--file', '-'],
      `{"password": "${PASSWORD}" oops`,
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/^waybill: stdin is not JSON: Expected .* at position \d+ /);
    expect(stderr).not.toContain('canary');
  });

  it('says which file is missing', async () => {
    const { code, stderr } = await cli.run([
      'endpoints',
      'add',
      '--file',
      join(folder, 'none.json'),
    ]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^waybill: .*none\.json does not exist\n$/);
  });

  it('signs in nowhere before the host key is accepted', async () => {
    const added = await add('bank');
    expect(added.stderr).toMatch(/endpoints test bank/);
    const refused = await cli.run(['endpoints', 'test', 'bank']);
    expect(refused.code).toBe(1);
    expect(refused.stdout).toContain(fingerprintOf(hostKey));
    expect(refused.stderr).toMatch(/No password was sent/);
    const accepted = await cli.run(['endpoints', 'test', 'bank', '--accept-host-key']);
    expect(accepted.code).toBe(0);
    expect(accepted.stdout).toMatch(/accepted from now on/);
    expect(accepted.stdout).toMatch(/^ok +list .*has 1 entry$/m);
    expect(accepted.stdout).toMatch(/^ok +remove .*the probe file is gone$/m);
    expect((await cli.run(['endpoints', 'test', 'bank', '--json'])).json()).toMatchObject([
      { name: 'bank', ok: true, accepted: false },
    ]);
  });

  it('distinguishes a rejected sign-in from a server that is down', LONG, async () => {
    await add('locked', { ...PINNED, password: 'wrong' });
    const locked = await cli.run(['endpoints', 'test', 'locked']);
    expect(locked).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /^FAIL +sign_in .* Authentication failed\n +Check the endpoint's user name/m,
      ),
    });
    await add('away', { ...PINNED, port: 1 });
    const away = (await cli.run(['endpoints', 'test', 'away', '--json'])).json();
    expect(away).toMatchObject([
      {
        ok: false,
        steps: [
          { step: 'resolve', ok: true },
          { step: 'connect', ok: false, code: 'connection_failed' },
        ],
      },
    ]);
  });

  it('removes the probe file although its reader closes the pipe', LONG, async () => {
    await add('brief', PINNED);
    const test = cli.start(['endpoints', 'test', 'brief']);
    const [errors, closed] = [text(test.stderr!), once(test, 'close')];
    await written(test.stdout!, /^ok +list/m);
    test.stdout!.destroy();
    expect([await closed, await errors]).toEqual([[0, null], '']);
    expect(await readdir(join(folder, 'root'))).toEqual(['report.csv']);
  });

  it('lists when each endpoint was last seen', LONG, async () => {
    const { id } = (
      await cli.run(['endpoints', 'add', '--file', '-', '--json'], definition('seen', PINNED))
    ).json<{ id: string }>()[0]!;
    expect((await cli.run(['endpoints', 'list'])).stdout).toMatch(/^seen .* - {2,}ready$/m);
    const search = ['endpoints', 'list', '--q'];
    expect((await cli.run([...search, 'SEEN sftp', '--json'])).json()).toMatchObject([{ id }]);
    expect(await cli.run([...search, 'nothing'])).toMatchObject({
      code: 0,
      stderr: 'No endpoints match\n',
    });
    const sql = connect(database.url);
    await noteObservation(sql, {
      endpointId: id,
      connected: true,
      error: null,
      probe: { latencyMs: 3, fingerprint: 'SHA256:x' },
    });
    await noteObservation(sql, {
      endpointId: id,
      connected: false,
      error: { code: 'timeout', message: 'no answer' },
      probe: null,
    });
    expect((await cli.run(['endpoints', 'list'])).stdout).toMatch(
      /^seen .* \d{4}-\d\d-\d\dT\S+Z {2}no answer since 2\S+Z$/m,
    );
    const listed = (await cli.run(['endpoints', 'list', '--json'])).json<{ id: string }>();
    expect(listed.find((endpoint) => endpoint.id === id)).toMatchObject({
      health: {
        failures_in_row: 1,
        latency_ms: 3,
        fingerprint: 'SHA256:x',
        error: { code: 'timeout', message: 'no answer' },
      },
    });
    const [seen] = (await listEndpoints(sql)).filter(({ name }) => name === 'seen');
    const probe = { latencyMs: 3, fingerprint: 'SHA256:x' };
    await noteObservation(sql, { endpointId: id, connected: true, error: null, probe });
    await noteRejection(sql, seen as NonNullable<typeof seen>);
    await sql.end();
    expect((await cli.run(['endpoints', 'list'])).stdout).toMatch(
      /^seen .* Authentication failed since 2\S+Z$/m,
    );
  });

  it('limits the bandwidth of an endpoint', LONG, async () => {
    await add('narrow');
    const limit = (...args: string[]) => cli.run(['endpoints', 'limit', 'narrow', ...args]);
    const windows = [
      '--window',
      'mon-wed,sat-sun 08:00-18:00 Europe/Berlin 512KiB',
      '--window',
      '00:00-24:00 none',
    ];
    expect((await limit('5MB', ...windows, '--json')).json()).toEqual([
      {
        name: 'narrow',
        bandwidth: {
          bytes_per_second: 5_000_000,
          windows: [
            {
              days: ['mon', 'tue', 'wed', 'sat', 'sun'],
              from: '08:00',
              to: '18:00',
              time_zone: 'Europe/Berlin',
              bytes_per_second: 524_288,
            },
            {
              days: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'],
              from: '00:00',
              to: '24:00',
              time_zone: 'UTC',
              bytes_per_second: null,
            },
          ],
        },
        bandwidth_now: expect.toBeOneOf([524_288, null]),
      },
    ]);
    const wrong = await limit('fast', '--window', 'someday 1MB');
    expect(wrong).toMatchObject({ code: 2, stdout: '' });
    expect(wrong.stderr).toMatch(/rate.* must be such as 5MB, 512KiB or none: fast/s);
    expect(await limit()).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /^narrow: 5000000 bytes\/s\n {2}mon,tue,wed,sat,sun 08:00-18:00 Europe\/Berlin: 524288 bytes\/s\n/,
      ),
    });
    expect(await limit('none')).toMatchObject({ code: 0, stdout: 'narrow has no limit\n' });
  });

  it('pauses, resumes and removes an endpoint', LONG, async () => {
    await add('shelf');
    expect(await cli.run(['endpoints', 'pause', 'shelf'])).toMatchObject({
      code: 0,
      stdout: 'shelf is paused\n',
    });
    expect((await cli.run(['endpoints', 'list'])).stdout).toMatch(/^shelf .*paused/m);
    expect(await cli.run(['endpoints', 'resume', 'shelf'])).toMatchObject({
      code: 0,
      stdout: 'shelf is resumed\n',
    });
    expect(await cli.run(['endpoints', 'remove', 'shelf', '--json'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/"status":"removed"/),
    });
    expect(await cli.run(['endpoints', 'pause', 'shelf'])).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/no endpoint named shelf/),
    });
  });
});
