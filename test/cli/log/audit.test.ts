import { execFile } from 'node:child_process';
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from 'node:crypto';
import { mkdtemp, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import pino from 'pino';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { LOG_SIGNING_KEY } from '../../../src/adapters/vault.ts';
import { ensureSigningKey } from '../../../src/commands/log.ts';
import { parseConfig } from '../../../src/config.ts';
import type { Event, StoredEvent } from '../../../src/domain/events/event.ts';
import { checkpointText, originOf } from '../../../src/domain/proof/checkpoint.ts';
import { createFrontier } from '../../../src/domain/proof/frontier.ts';
import { leafHash } from '../../../src/domain/proof/hash.ts';
import { leafOf } from '../../../src/domain/proof/leaf.ts';
import { signNote } from '../../../src/domain/proof/note.ts';
import { openInstallation } from '../../../src/installation.ts';
import { saveTaken } from '../../../src/processes/proof/sink-table.ts';
import { changeLog } from '../../support/event-store/replace-log.ts';
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
  environmentOf,
  runClosed,
  settingsFor,
} from '../../support/service/cli.ts';
import { CAUSE } from '../../support/service/installation.ts';

vi.setConfig({ testTimeout: CLI_TIMEOUT_MS });

type LogOpened = Event<'log.opened', { log_id: string }>;

describeWithPostgres('waybill audit, projections, vault', () => {
  let database: TestDatabase;
  let settings: Record<string, string>;
  let cli: Cli;

  beforeAll(async () => {
    database = await createTestDatabase();
    settings = settingsFor(database.url);
    cli = createCli(settings);
    const file = {
      name: 'a',
      protocol: 'sftp',
      host: 'a.example.com',
      username: 'u',
      password: 'p',
    };
    const setUp = [
      await cli.run(['endpoints', 'add', '--file', '-'], JSON.stringify(file)),
      await cli.run(['endpoints', 'pause', 'a']),
      await cli.run(['keys', 'create', '--name', 'k', '--scopes', 'admin']),
    ];
    expect(
      setUp.map(({ code }) => code),
      setUp.map(({ stderr }) => stderr).join(''),
    ).toEqual([0, 0, 0]);
  });
  afterAll(() => database.drop());

  it('exports the log in its order, from any position', LONG, async () => {
    const all = (await cli.run(['audit', 'export'])).json<{
      type: string;
      position: string;
      stream: string;
    }>();
    expect(all.map(({ type }) => type)).toEqual([
      'log.opened',
      'endpoint_name.claimed',
      'endpoint.configured',
      'endpoint.paused',
      'key.created',
    ]);
    const rest = (await cli.run(['audit', 'export', '--from', all[1]!.position])).json<object>();
    expect(rest.slice(0, -1)).toEqual(all.slice(2));
    // The first export is in the log too.
    expect(rest.at(-1)).toMatchObject({
      type: 'access.exported',
      data: { export: 'log', parameters: {} },
      metadata: { actor: expect.stringMatching(/^cli:./), account_id: null },
    });
    const key = all[4]!.stream;
    expect((await cli.run(['audit', 'export', '--stream', key])).json()).toEqual([all[4]]);
    expect(await cli.run(['audit', 'export', '--from', 'start'])).toMatchObject({ code: 2 });
  });

  it('lists what people and keys did, by filters, also as CSV', async () => {
    const [page] = (await cli.run(['audit', 'list', '--subject', 'a', '--json'])).json<{
      data: { title: string; actor: string }[];
      pagination: { total: number };
    }>();
    expect(page?.data.map(({ title }) => title)).toEqual(['Endpoint paused', 'Endpoint created']);
    expect(page?.pagination.total).toBe(2);
    const actor = page?.data[0]?.actor ?? '';
    expect(actor).toMatch(/^cli:./);
    const paused = await cli.run(['audit', 'list', '--type', 'endpoint.paused']);
    expect(paused.stdout).toMatch(/^TIME .*\n\S+Z +cli:\S+ +- +Endpoint paused +end_\w+ +a\n$/);
    const csv = await cli.run([
      ...['audit', 'list', '--actor', actor.slice('cli:'.length), '--kind', 'key'],
      '--csv',
    ]);
    expect(csv.stdout.split('\r\n')[1]).toContain(',key.created,API key created,key,key_');
    expect(await cli.run(['audit', 'list', '--kind', 'file'])).toMatchObject({ code: 2 });
  });

  it('ends quietly when its reader closes the pipe', LONG, async () => {
    const program = join(import.meta.dirname, '..', '..', '..', 'bin', 'waybill');
    const script = `"${program}" audit export | head -n 1; echo "$?"; exit "\${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], {
      env: environmentOf(settings),
    });
    expect(stdout).toMatch(/^\{.*"log\.opened".*\}\n[01]\n$/);
    expect(stderr).toBe('');
  });

  it('fails if its reader takes only a part of the export', async () => {
    expect(await runClosed(settings, ['audit', 'export'])).toBe(1);
  });

  it('says that the disk of its output is full', LONG, async () => {
    const program = join(import.meta.dirname, '..', '..', '..', 'bin', 'waybill');
    const script = `exec "${program}" audit export >/dev/full`;
    const failed = promisify(execFile)('bash', ['-c', script], {
      env: environmentOf(settings),
    });
    await expect(failed).rejects.toMatchObject({
      code: 1,
      stderr:
        'waybill: A file or the output cannot be written: its disk is full. Make room. If the ' +
        'command changes something, it may have taken effect: look before you repeat it.\n',
    });
  });

  it('verifies the log in itself', async () => {
    const { code, stdout } = await cli.run(['audit', 'verify']);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^\d+ events in \d+ streams: consistent in itself(, .*)?\nOnly a checkpoint/,
    );
    expect(await runClosed(settings, ['audit', 'verify'])).toBe(0);
  });

  it.each([
    ['an empty file of checkpoints', ['--checkpoint', ''], '--checkpoint is empty'],
    ['an empty file of progress', ['--resume', ''], '--resume is empty'],
    ['an empty file of keys', ['--key', ''], '--key is empty'],
  ])('does not verify with %s', async (_, options, problem) => {
    const { code, stdout, stderr } = await cli.run(['audit', 'verify', ...options]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(problem);
  });

  it('begins no log where there is none', async () => {
    const empty = await createTestDatabase();
    const other = createCli(settingsFor(empty.url));
    const commands = [
      ['audit', 'verify'],
      ['audit', 'export'],
    ];
    try {
      for (const command of commands)
        expect(await other.run(command)).toMatchObject({
          code: 3,
          stdout: '',
          stderr: expect.stringMatching(/^waybill: There is no log here, .* Check DATABASE_URL, /),
        });
      expect(await empty.sql`select from log.events`).toEqual([]);
    } finally {
      await empty.drop();
    }
  });

  it('verifies the log with checkpoints that were kept', LONG, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waybill-checkpoints-'));
    const opened = await openInstallation(
      parseConfig(environmentOf(settings)),
      pino({ level: 'silent' }),
    );
    const { key_record } = await ensureSigningKey(opened, CAUSE);
    const sealed = await opened.vault.open<{ private_key: string }>(key_record, LOG_SIGNING_KEY);
    await opened.close();
    const privateKey = createPrivateKey(sealed.private_key);
    const publicKey = createPublicKey(privateKey);
    const pem = (key: KeyObject) => key.export({ format: 'pem', type: 'spki' }).toString();
    const lines = (await cli.run(['audit', 'export'])).json<StoredEvent<LogOpened>>();
    const origin = originOf(lines[0]!.data.log_id);
    const tree = createFrontier();
    for (const [i, event] of lines.entries()) {
      tree.append(leafHash(leafOf(event)));
      const note = checkpointText({ origin, size: i + 1, root: tree.root() });
      await writeFile(join(folder, `${i + 1}.txt`), signNote(note, origin, [privateKey]));
    }
    await writeFile(join(folder, 'log.pem'), pem(publicKey));
    const other = join(folder, 'other.pem');
    await writeFile(other, pem(generateKeyPairSync('ed25519').publicKey));
    // It is left out, and not read: it is larger than a string can be.
    await writeFile(join(folder, 'export.ndjson'), '');
    await truncate(join(folder, 'export.ndjson'), 3e9);
    // A file that was listed and is gone, as the part of a checkpoint that is being written.
    await symlink(join(folder, 'nothing'), join(folder, 'gone.new'));
    const verify = ['audit', 'verify', '--json', '--checkpoint', folder];
    const agrees = await cli.run([...verify, '--key', join(folder, 'log.pem')]);
    expect(agrees).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(
        /no checkpoints \(4\): .*export\.ndjson, .*gone\.new, .*log\.pem, /,
      ),
    });
    expect(agrees.json()).toMatchObject([
      {
        // The export of the lines is in the log too.
        events: lines.length + 1,
        broken: 0,
        checkpoints: lines.length,
        agrees_with: { source: join(folder, `${lines.length}.txt`) },
      },
    ]);
    const otherKey =
      /1\.txt: the signature of the checkpoint names the key \w{8}, and you gave \w{8}/;
    expect(await cli.run([...verify, '--key', other])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(otherKey),
    });
    // Damaged ones are faults, and the others are compared.
    const intact = await readFile(join(folder, '2.txt'), 'utf8');
    await writeFile(join(folder, '2.txt'), intact.replace('\n2\n', '\n3\n'));
    await writeFile(join(folder, '4.txt'), intact.slice(0, -40));
    const damaged = await cli.run([...verify, '--key', join(folder, 'log.pem')]);
    expect(damaged).toMatchObject({ code: 1 });
    expect(damaged.json()).toMatchObject([
      {
        check: 'checkpoint',
        problem: `${join(folder, '2.txt')}: the key did not sign the checkpoint`,
      },
      { check: 'checkpoint', problem: `${join(folder, '4.txt')}: this checkpoint is damaged` },
      { broken: 2, checkpoints: lines.length - 2, agrees_with: { size: lines.length } },
    ]);
    const both = await cli.run([...verify, '--key', join(folder, 'log.pem'), '--key', other]);
    const absent = {
      check: 'key',
      problem: expect.stringMatching(/^it does not have the key \w{8} /),
    };
    expect([both.code, both.json()]).toMatchObject([1, [{}, {}, absent, { broken: 3 }]]);
    await writeFile(other, '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n');
    expect(await cli.run([...verify, '--key', other])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/other\.pem must have Ed25519 public keys in PEM/),
    });
    await rm(folder, { recursive: true });
  });

  it('lists, verifies and rebuilds projections', async () => {
    const listed = (await cli.run(['projections', 'list', '--json'])).json();
    expect(listed).toEqual(
      expect.arrayContaining([expect.objectContaining({ name: 'catalog', position: '5' })]),
    );
    expect(await cli.run(['projections', 'verify'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^catalog matches the log/m),
    });

    await database.sql`update read.endpoints set paused = false`;
    const differs = await cli.run(['projections', 'verify', 'catalog', '--json']);
    expect(differs.code).toBe(1);
    expect(differs.json().at(-1)).toMatchObject({
      projection: 'catalog',
      agrees: false,
      differences: [expect.stringMatching(/^end_/)],
      details: [expect.stringMatching(/^end_\w+: .*paused is false, and true by the log/)],
    });
    const closed = ['projections', 'verify', 'catalog', '--json'];
    expect(await runClosed(settings, closed)).toBe(1);

    const rebuilt = await cli.run(['projections', 'rebuild', 'catalog', '--json']);
    expect(rebuilt.code).toBe(0);
    expect(rebuilt.json().at(-1)).toMatchObject({
      projection: 'catalog',
      rebuilt: true,
      events: 3,
    });
    expect(await cli.run(['projections', 'verify', 'catalog'])).toMatchObject({ code: 0 });

    await database.sql`update read.checkpoints set version = version - 1 where name = 'catalog'`;
    expect(await cli.run(['projections', 'verify', 'catalog'])).toMatchObject({
      code: 5,
      stdout: '',
      stderr: expect.stringContaining('of another version, so nothing was compared'),
    });
    const all = await cli.run(['projections', 'verify']);
    expect(all).toMatchObject({
      code: 5,
      stdout: expect.stringMatching(/^proof matches the log/m),
      stderr: expect.stringMatching(/^catalog was not compared: .* of another version/),
    });
    await database.sql`update read.audit set actor = 'cli:other'`;
    const both = await cli.run(['projections', 'verify', '--json']);
    expect(both.code).toBe(1);
    expect(both.json()).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ projection: 'audit', agrees: false }),
        expect.objectContaining({ projection: 'proof', agrees: true }),
      ]),
    );
    expect(both.json().at(-1)).toMatchObject({ projection: 'catalog', agrees: null });
    expect(await cli.run(['projections', 'rebuild', 'audit'])).toMatchObject({ code: 0 });
    await database.sql`update read.checkpoints set version = version + 1 where name = 'catalog'`;

    expect((await cli.run(['projections', 'rebuild', 'dispatch', '--json'])).json()).toEqual([
      { projection: 'dispatch', rebuilt: true },
    ]);
    expect(await cli.run(['projections', 'rebuild', 'bogus'])).toMatchObject({ code: 2 });
  });

  it('re-encrypts the vault under another master key', LONG, async () => {
    const [older, newer] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64'));
    const both = createCli({
      ...settingsFor(database.url),
      WAYBILL_MASTER_KEY: `${newer},${older}`,
    });
    const records = await database.sql`select from work.vault`;
    const rotated = await both.run(['vault', 'rotate', '--json']);
    expect(rotated.json()).toEqual([{ rewrapped: records.length }]);
    expect(await cli.run(['endpoints', 'list'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/WAYBILL_MASTER_KEY/),
    });
    settings.WAYBILL_MASTER_KEY = newer!;
    cli = createCli(settings);
    expect(await cli.run(['endpoints', 'list'])).toMatchObject({ code: 0 });
  });

  it('finds an event that was changed', async () => {
    await changeLog(
      database.sql,
      (tx) => tx`
        update log.events set data = replace(data, 'a.example.com', 'b.example.com')`,
    );
    const { code, json, stdout } = await cli.run(['audit', 'verify', '--json']);
    expect(code).toBe(1);
    expect(json()[0], stdout).toMatchObject({
      revision: 1,
      problem: expect.stringMatching(/was changed/),
      check: 'stream',
    });
    expect(await cli.run(['audit', 'verify'])).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/1 fault\nKeep/),
    });
    for (const args of [
      ['audit', 'verify'],
      ['audit', 'verify', '--json'],
    ])
      expect(await runClosed(settings, args)).toBe(1);
  });

  it('shows the keys of the log, also if their table was emptied', async () => {
    const shown = () => cli.run(['log', 'keys', '--json']);
    const [rotated] = (await cli.run(['log', 'rotate-key', '--json'])).json<{ key_id: string }>();
    const before = await shown();
    const data = before.json<{ data: { key_id: string }[] }>()[0]?.data ?? [];
    expect(data).toMatchObject([
      { until: expect.any(String), signed_by_previous: null },
      { key_id: rotated?.key_id, until: null, signed_by_previous: true },
    ]);
    await database.sql`delete from read.proof_keys`;
    expect((await shown()).stdout).toBe(before.stdout);
  });

  it('does not wait for a tree that a forged checkpoint stops', async () => {
    await cli.run(['log', 'keys']);
    await database.sql`
      with moved as (update log.head set position = position + 1 returning position)
      insert into log.events (position, stream, revision, id, type, schema_version, data, metadata)
      select moved.position, regexp_replace(stream, 'log$', 'log-checkpoints'), 0, id || 'X',
             'log.checkpoint_signed', 1, '{"size":1}', metadata
        from log.events, moved where type = 'log.opened'`;
    for (const command of ['log checkpoint', 'retention run --older-than 9d --dry-run'])
      expect(await cli.run(command.split(' '))).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^waybill: Cannot fold event .*log-checkpoints, revision 0/),
      });
  });

  it.each([
    ['append_only', 'events', 'removed'],
    ['whole_streams', 'events', 'removed'],
    ['append_only', 'events', 'disabled'],
    ['whole_streams', 'events', 'disabled'],
    ['append_only', 'removed', 'disabled'],
  ])('says that the trigger %s of log.%s was %s', async (name, table, how) => {
    const { sql } = database;
    const [trigger] = await sql<{ text: string }[]>`
      select pg_get_triggerdef(oid) as text from pg_trigger
       where tgrelid = ${`log.${table}`}::regclass and tgname = ${name}`;
    const before = await cli.run(['audit', 'verify']);
    if (how === 'removed') await sql`drop trigger ${sql(name)} on ${sql(`log.${table}`)}`;
    else await sql`alter table ${sql(`log.${table}`)} disable trigger ${sql(name)}`;
    const { code, stdout } = await cli.run(['audit', 'verify']);
    if (how === 'removed') await sql.unsafe(trigger?.text ?? '');
    else await sql`alter table ${sql(`log.${table}`)} enable trigger ${sql(name)}`;
    expect(code).toBe(1);
    const problem = how === 'removed' ? 'is missing' : 'was changed or disabled';
    const line = `the database: the trigger ${name} of log.${table} ${problem}`;
    expect(stdout).toContain(line);
    expect(before.stdout).not.toContain(line);
  });

  it('names a function that was replaced, until a process installs it again', async () => {
    const { sql } = database;
    await sql`
      create or replace function log.refuse_change() returns trigger language plpgsql as
        $$ begin return null; end $$`;
    await sql`update log.events set data = data where revision = 0`;
    const line = 'the database: the SQL function log.refuse_change was changed or disabled';
    const { code, stdout } = await cli.run(['audit', 'verify']);
    expect(code).toBe(1);
    expect(stdout).toContain(line);
    await sql`delete from work.sql_functions where name = 'log.refuse_change'`;
    expect((await cli.run(['audit', 'verify'])).stdout).not.toContain(line);
    await expect(sql`update log.events set data = data`).rejects.toThrow('append-only');
  });

  it('names a place that lost the last checkpoint that it took', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waybill-sink-'));
    const url = pathToFileURL(folder).href;
    await saveTaken(database.sql, url, 7);
    const other = createCli({ ...settings, WAYBILL_CHECKPOINT_SINKS: url });
    const line = 'the checkpoints: place 1 of WAYBILL_CHECKPOINT_SINKS lacks the checkpoint over 7';
    const { code, stdout } = await other.run(['audit', 'verify']);
    expect(code).toBe(1);
    expect(stdout).toContain(line);
    await rm(folder, { recursive: true });
    // The disk may be away.
    expect((await other.run(['audit', 'verify'])).stdout).not.toContain(line);
  });

  it(
    'verifies and exports a log without its first event, which nothing else opens',
    LONG,
    async () => {
      await changeLog(database.sql, (tx) => tx`delete from log.events where type = 'log.opened'`);
      const count = () => database.sql`select count(*) from log.events`;
      const left = await count();
      const exported = await cli.run(['audit', 'export']);
      expect(exported).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(
          /^The log begins with .* log\.opened, was removed[\s\S]* is not recorded/,
        ),
      });
      expect(left).toEqual([{ count: BigInt(exported.json().length) }]);
      expect(await count()).toEqual(left);
      expect(await cli.run(['audit', 'verify'])).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(
          /^the log: it does not begin with log\.opened[\s\S]*^the log: no event has position 1: [\s\S]*\d+ faults/m,
        ),
      });
      expect(await cli.run(['keys', 'list'])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^waybill: The log begins with .* log\.opened, was removed/),
      });
      await changeLog(database.sql, (tx) => tx`delete from log.events`);
      expect(await cli.run(['audit', 'verify'])).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(/^the log: it has no event: [\s\S]*positions 1 to \d+/),
      });
      expect(await cli.run(['keys', 'list'])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^waybill: The tables of this database follow the log \S+, /),
      });
      expect(await count()).toEqual([{ count: 0n }]);
      expect(await cli.run(['audit', 'export'])).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(/^The tables of this database follow the log \S+, /),
      });
      await database.sql`drop trigger append_only on log.events`;
      expect(await cli.run(['audit', 'export'])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^The table log\.events lacks a trigger/),
      });
      expect(await cli.run(['audit', 'verify'])).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(/^the log: it has no event: /),
      });
      expect(await cli.run(['keys', 'list'])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^waybill: The table log\.events lacks a trigger/),
      });
    },
  );
});
