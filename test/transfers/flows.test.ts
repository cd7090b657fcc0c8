import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { loadFlow, switchFlow, updateFlow } from '../../src/commands/flows.ts';
import { abortTransfer } from '../../src/commands/transfers.ts';
import { dryRun } from '../../src/processes/flows/dry-run.ts';
import { runFlow } from '../../src/processes/flows/run.ts';
import { lastLooks } from '../../src/processes/flows/table.ts';
import { LONG } from '../support/run/long.ts';
import { flowsOf, unnameable } from '../support/service/flows.ts';
import { CAUSE, type TestInstallation } from '../support/service/installation.ts';
import { startRoles } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers, until } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const ROLES = ['projector', 'mover', 'monitor'] as const;

await describeTransfers('a flow', () => {
  const pair = useSftpPair({}, (installation: TestInstallation) => startRoles(installation, ROLES));
  const flows = flowsOf(pair);

  /** Writes a file at the source. Each write has a later time than the one before. */
  let clock = Date.now() - 86_400_000;
  function write(path: string, content: string): void {
    const file = join(pair.alpha.root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    clock += 2_000;
    utimesSync(file, new Date(clock), new Date(clock));
  }
  const arrived = (path: string) => readFileSync(join(pair.beta.root, path), 'utf8');
  const typesOf = async (id: string) => (await flows.events(id)).map(({ type }) => type);

  test('takes each version of a file once', async () => {
    write('orders/a.csv', 'first');
    write('orders/sub/b.csv', 'b');
    write('orders/c.tmp', 'left out');
    const id = await flows.create('orders', {
      source: { uri: 'sftp://alpha/orders', pattern: '*.csv', recursive: true },
      destination_uri: 'sftp://beta/in/{flow}/{path}',
    });
    expect(await flows.run(id)).toMatchObject({
      status: 'completed',
      reason: 'request',
      counts: { files: 2, completed: 2, failed: 0, cancelled: 0 },
      bytes: 6,
    });
    expect(arrived('in/orders/a.csv')).toBe('first');
    expect(arrived('in/orders/sub/b.csv')).toBe('b');
    expect(await flows.run(id)).toMatchObject({ status: 'empty', batch_id: null });

    write('orders/a.csv', 'second');
    expect(await flows.run(id)).toMatchObject({ status: 'completed', counts: { files: 1 } });
    expect(arrived('in/orders/a.csv')).toBe('second');
    expect(await flows.taken(id)).toEqual(['a.csv', 'a.csv', 'b.csv']);
  });

  test('rejects a file with the destination of another one, and keeps its source', async () => {
    for (const city of ['berlin', 'paris', 'rome']) write(`flat/${city}/sales.csv`, city);
    const id = await flows.create('flat', {
      destination_uri: 'sftp://beta/flat/{name}',
      after: { source: 'delete' },
    });
    const { state } = await loadFlow(pair.installation.commands, 'acc_default', id);
    const seen = await dryRun(pair.installation, state, new AbortController().signal);
    expect(seen.counts).toEqual({ take: 1, wait: 0, taken: 0, reject: 2 });
    expect(seen.data[1]).toMatchObject({
      path: 'paris/sales.csv',
      reason:
        'has the same destination as sftp://alpha/flat/berlin/sales.csv: ' +
        'put {path} into destination_uri',
    });
    const counts = { files: 3, completed: 1, failed: 2, cancelled: 0 };
    expect(await flows.run(id)).toMatchObject({ status: 'completed_with_failures', counts });
    expect(arrived('flat/sales.csv')).toBe('berlin');
    const isThere = (city: string) => existsSync(join(pair.alpha.root, `flat/${city}/sales.csv`));
    await until('the copied file is deleted', () => !isThere('berlin'));
    expect(['paris', 'rome'].filter(isThere)).toEqual(['paris', 'rome']);
  });

  test('moves what it has copied out of the way, and marks the copy', async () => {
    write('spool/a.csv', 'a');
    const id = await flows.create('spool', {
      source: { uri: 'sftp://alpha/spool', pattern: '*.csv' },
      destination_uri: 'sftp://beta/spooled/',
      after: { source: { move_to: 'old' }, destination_marker: '.done' },
    });
    expect(await flows.run(id)).toMatchObject({ status: 'completed', counts: { files: 1 } });
    expect(arrived('spooled/a.csv')).toBe('a');
    await until('the source is moved', async () =>
      existsSync(join(pair.alpha.root, 'spool/old/a.csv')),
    );
    expect(existsSync(join(pair.alpha.root, 'spool/a.csv'))).toBe(false);
    expect(arrived('spooled/a.csv.done')).toBe('');
    expect(await flows.run(id)).toMatchObject({ status: 'empty' });
  });

  test('does not copy or delete a file that is being rewritten after it was listed', async () => {
    write('rewritten/a.csv', 'the first version');
    const { commands } = pair.installation;
    const paused = await pauseEndpoint(commands, pair.betaId, CAUSE);
    await commands.waitFor('catalog', paused.position);
    const id = await flows.create('rewritten', {
      source: { uri: 'sftp://alpha/rewritten' },
      after: { source: 'delete' },
    });
    const runId = await flows.request(id);
    await until('the file is taken', async () => (await flows.taken(id)).length === 1);
    write('rewritten/a.csv', 'half of');
    const resumed = await resumeEndpoint(commands, pair.betaId, CAUSE);
    await commands.waitFor('catalog', resumed.position);
    expect(await flows.ended(id, runId)).toMatchObject({ counts: { files: 1, failed: 1 } });
    const [failed] = await pair.installation.sql<{ code: string }[]>`
      select state -> 'facts' -> 'error' ->> 'code' as code from read.transfers
       where status = 'failed' and state -> 'facts' ->> 'source' = 'sftp://alpha/rewritten/a.csv'`;
    expect(failed).toEqual({ code: 'source_replaced' });
    expect(existsSync(join(pair.beta.root, 'rewritten/a.csv'))).toBe(false);

    write('rewritten/a.csv', 'half of the second version, and the rest');
    expect(await flows.run(id)).toMatchObject({ counts: { files: 1, completed: 1 } });
    expect(arrived('rewritten/a.csv')).toBe('half of the second version, and the rest');
    await until(
      'the copied version is deleted',
      () => !existsSync(join(pair.alpha.root, 'rewritten/a.csv')),
    );
  });

  test('waits for files that are not ready, and says so', async () => {
    write('ready/marked.csv', 'marked');
    write('ready/marked.csv.done', '');
    write('ready/unmarked.csv', 'unmarked');
    write('ready/newer.csv.done', '');
    write('ready/newer.csv', 'newer than its marker');
    const id = await flows.create('ready', { ready: { marker: '.done' } });
    const { state } = await loadFlow(pair.installation.commands, 'acc_default', id);
    const seen = await dryRun(pair.installation, state, new AbortController().signal);
    expect(seen).toMatchObject({
      counts: { take: 1, wait: 2, taken: 0 },
      data: [
        {
          path: 'marked.csv',
          decision: 'take',
          reason: 'New',
          destination_uri: 'sftp://beta/ready/marked.csv',
        },
        { path: 'newer.csv', decision: 'wait', reason: 'Is newer than its .done file' },
        { path: 'unmarked.csv', decision: 'wait', reason: 'Waits for its .done file' },
      ],
      error: null,
      truncated: false,
    });
    expect(await flows.run(id)).toMatchObject({ counts: { files: 1, completed: 1 } });
    write('ready/unmarked.csv.done', '');
    expect(await flows.run(id)).toMatchObject({ counts: { files: 1, completed: 1 } });
    expect(await flows.taken(id)).toEqual(['marked.csv', 'unmarked.csv']);
  });

  test('takes a file when it was unchanged for long enough, without waiting for its trigger', async () => {
    write('rest/a.csv', 'half');
    const id = await flows.create('rest', {
      ready: { unchanged_for: '2s' },
      trigger: { every: '1d' },
    });
    const waits = async () => {
      const [row] = await pair.installation.sql<{ waiting: number }[]>`
        select waiting from work.flow_looks where flow_id = ${id}`;
      return row?.waiting;
    };
    await until('the file waits', async () => (await waits()) === 1);
    write('rest/a.csv', 'half and half');
    await until('it is taken', async () => (await flows.runs(id))[0]?.status === 'completed');
    expect(arrived('rest/a.csv')).toBe('half and half');
    expect(await flows.taken(id)).toEqual(['a.csv']);
    expect(await waits()).toBe(0);
  });

  test('runs at once, although the clock of the process that created it is ahead', async () => {
    write('ahead/a.csv', 'a');
    const id = await flows.create('ahead', { trigger: { every: '1d' } }, 3_600_000);
    await until('it runs', async () => (await flows.runs(id))[0]?.status === 'completed');
    expect(await flows.taken(id)).toEqual(['a.csv']);
    expect(await flows.runs(id)).toHaveLength(1);
  });

  test('skips the files that exist at its creation, if the request says so', LONG, async () => {
    write('new/old.csv', 'old');
    // Nothing in it needs to be skipped.
    mkdirSync(unnameable(join(pair.alpha.root, 'new')));
    const id = await flows.create('new', { start: 'new_only' });
    await until('the files are skipped', async () =>
      (await typesOf(id)).includes('flow.files_skipped'),
    );
    write('new/fresh.csv', 'fresh');
    expect(await flows.run(id)).toMatchObject({ status: 'completed', counts: { files: 1 } });
    write('new/old.csv', 'changed');
    await flows.run(id);
    expect(await flows.taken(id)).toEqual(['fresh.csv', 'old.csv']);
  });

  test(
    'that cannot list what it is to skip says so, and looks again after longer and longer waits',
    LONG,
    async () => {
      const id = await flows.create('nowhere', { start: 'new_only' });
      const { commands, sql } = pair.installation;
      const wait = async () => {
        const look = (await lastLooks(sql, [id])).get(id);
        return look?.look_again_at && Date.parse(look.look_again_at) - Date.parse(look.began_at);
      };
      const first = (await until('it has looked', wait)) as number;
      const { failing } = (await loadFlow(commands, 'acc_default', id)).state;
      expect(failing?.error).toMatchObject({ code: 'source_not_found', folder: '' });
      await until('it waits for longer', async () => Number(await wait()) > first);
      write('nowhere/old.csv', 'old');
      await sql`update work.flow_looks set look_again_at = now() where flow_id = ${id}`;
      await until('the files are skipped', async () =>
        (await typesOf(id)).includes('flow.files_skipped'),
      );
      write('nowhere/fresh.csv', 'fresh');
      await flows.run(id);
      expect(await flows.taken(id)).toEqual(['fresh.csv']);
    },
  );

  test('says once that its folder cannot be listed, and that it can again', async () => {
    const id = await flows.create('missing');
    expect(await flows.run(id)).toMatchObject({
      status: 'failed',
      error: { code: 'source_not_found', folder: '' },
    });
    expect(await flows.run(id)).toMatchObject({ status: 'failed' });
    write('missing/a.csv', 'there');
    expect(await flows.run(id)).toMatchObject({ status: 'completed' });
    const once = (await typesOf(id)).filter((type) =>
      ['flow.run_failed', 'flow.recovered'].includes(type),
    );
    expect(once).toEqual(['flow.run_failed', 'flow.recovered']);
  });

  test('says that a further folder fails, and has recovered when none does', async () => {
    const folder = (name: string) => unnameable(join(pair.alpha.root, 'partly'), name);
    mkdirSync(join(pair.alpha.root, 'partly'));
    const id = await flows.create('partly');
    const failed: unknown[] = [];
    for (const change of [
      () => mkdirSync(folder('a')),
      () => mkdirSync(folder('b')),
      () => undefined,
      () => rmdirSync(folder('a')),
      () => rmdirSync(folder('b')),
    ]) {
      change();
      const { error } = await flows.run(id);
      failed.push(error?.folder ?? null);
    }
    expect(failed).toEqual(['a\uFFFD/', 'b\uFFFD/', 'b\uFFFD/', 'b\uFFFD/', null]);
    const news = (await typesOf(id)).filter((type) => /run_failed|recovered/.test(type));
    expect(news).toEqual(['flow.run_failed', 'flow.run_failed', 'flow.recovered']);
  });

  test(
    'forgets files that it has not seen for days, although its listing fails',
    LONG,
    async () => {
      const { sql } = pair.installation;
      for (const name of ['old.csv', 'recent.csv']) write(`unseen/${name}`, name);
      const id = await flows.create('unseen', { ready: { unchanged_for: '1d' } });
      const seen = async () => {
        const rows = await sql<{ file_key: string }[]>`
        select file_key from work.flow_sightings where flow_id = ${id} order by 1`;
        return rows.map(({ file_key }) => file_key);
      };
      await flows.run(id);
      const [old, recent, ...others] = await seen();
      expect([old, recent, others]).toEqual([expect.any(String), expect.any(String), []]);
      await sql`
      update work.flow_sightings set seen_at = now() - interval '3 days'
       where flow_id = ${id} and file_key = ${old as string}`;
      rmSync(join(pair.alpha.root, 'unseen'), { recursive: true });
      expect(await flows.run(id)).toMatchObject({ status: 'failed' });
      await until('the old one is forgotten', async () => !(await seen()).includes(old as string));
      expect(await seen()).toContain(recent);
      mkdirSync(join(pair.alpha.root, 'unseen'));
      expect(await flows.run(id)).toMatchObject({ status: 'empty' });
      await until('both are forgotten', async () => (await seen()).length === 0);
    },
  );

  test('reports a failed file, takes the others, and takes it again later', LONG, async () => {
    write('failed/a.csv', 'a');
    write('failed/b\nc.csv', 'no URI can have this name');
    write('failed/taken.csv', 'a folder has this name');
    mkdirSync(join(pair.beta.root, 'failed', 'taken.csv'), { recursive: true });
    const id = await flows.create('failed');
    const { state } = await loadFlow(pair.installation.commands, 'acc_default', id);
    const seen = await dryRun(pair.installation, state, new AbortController().signal);
    expect(seen.counts).toEqual({ take: 2, wait: 0, taken: 0, reject: 1 });
    const reason = expect.stringContaining('must not contain control characters');
    expect(seen.data[1]).toMatchObject({ path: 'b\nc.csv', decision: 'reject', reason });
    const counts = { files: 3, completed: 1, failed: 2, cancelled: 0 };
    expect(await flows.run(id)).toMatchObject({ status: 'completed_with_failures', counts });
    expect(arrived('failed/a.csv')).toBe('a');
    expect(await flows.run(id)).toMatchObject({ status: 'empty' });

    rmSync(join(pair.beta.root, 'failed', 'taken.csv'), { recursive: true });
    // As if the failure were an hour old.
    await pair.installation.sql`
      update read.transfers
         set state = jsonb_set(state::jsonb, '{failed_at}', '"2026-01-01T00:00:00.000Z"')::json
       where status = 'failed' and state -> 'facts' ->> 'file_name' = 'taken.csv'`;
    expect(await flows.run(id)).toMatchObject({ status: 'completed', counts: { files: 1 } });
    expect(arrived('failed/taken.csv')).toBe('a folder has this name');
    expect(await flows.taken(id)).toEqual(['a.csv', 'taken.csv', 'taken.csv']);
  });

  test('takes a failed file again without waiting for its trigger', async () => {
    write('later/taken.csv', 'a folder has this name');
    const folder = join(pair.beta.root, 'later/taken.csv');
    mkdirSync(folder, { recursive: true });
    const { sql } = pair.installation;
    const id = await flows.create('later', { trigger: { every: '1d' } });
    const last = async () => (await flows.runs(id))[0];
    await until('it fails', async () => (await last())?.status === 'completed_with_failures');
    const looksAfter = async () => {
      const look = (await lastLooks(sql, [id])).get(id);
      return look?.look_again_at
        ? Date.parse(look.look_again_at) - Date.parse(look.began_at)
        : Number.NaN;
    };
    expect(await looksAfter()).toBeGreaterThanOrEqual(60_000);
    expect(await looksAfter()).toBeLessThan(3_600_000);

    // As if that time had come before the file may be taken.
    await sql`update work.flow_looks set look_again_at = now() where flow_id = ${id}`;
    await until('it has looked', async () => (await looksAfter()) > 0);
    rmSync(folder, { recursive: true });
    await sql`
      update read.transfers
         set state = jsonb_set(state::jsonb, '{failed_at}', '"2026-01-01T00:00:00.000Z"')::json
       where status = 'failed' and state -> 'facts' ->> 'file_name' = 'taken.csv'`;
    await sql`update work.flow_looks set look_again_at = now() where flow_id = ${id}`;
    await until('it arrives', async () => (await last())?.status === 'completed');
    expect(await flows.taken(id)).toEqual(['taken.csv', 'taken.csv']);
  });

  test('does not take a file again whose transfer an operator has ended', async () => {
    write('aborted/a.csv', 'a'.repeat(4_000_000));
    const { commands, sql } = pair.installation;
    pair.destination.throttle(100_000);
    const id = await flows.create('aborted');
    const runId = await flows.request(id);
    const transfer = (await until('the file moves', async () => {
      const [row] = await sql<{ transfer_id: string }[]>`
        select transfer_id from read.flow_files join read.transfers t using (transfer_id)
         where flow_id = ${id} and t.status = 'in_progress'`;
      return row?.transfer_id;
    })) as string;
    await abortTransfer(commands, transfer, CAUSE);
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    expect(await flows.ended(id, runId)).toMatchObject({ counts: { files: 1, failed: 1 } });
    await sql`
      update read.transfers
         set state = jsonb_set(state::jsonb, '{failed_at}', '"2026-01-01T00:00:00.000Z"')::json
       where transfer_id = ${transfer}`;
    expect(await flows.run(id)).toMatchObject({ status: 'empty' });
  });

  test('runs once if two processes list it at the same time', async () => {
    for (let i = 0; i < 20; i++) write(`race/${i}.csv`, String(i));
    const id = await flows.create('race', { enabled: false });
    const { installation } = pair;
    const known = await loadFlow(installation.commands, 'acc_default', id);
    const { signal } = new AbortController();
    await Promise.all([runFlow(installation, known, signal), runFlow(installation, known, signal)]);
    const [run] = await flows.runs(id);
    await flows.ended(id, run?.run_id as string);
    expect(await flows.runs(id)).toHaveLength(1);
    const names = await flows.taken(id);
    expect(names).toHaveLength(20);
    expect(new Set(names).size).toBe(20);
  });

  test(
    'runs by its trigger, not while it is paused, and finishes its runs after its removal',
    LONG,
    async () => {
      write('every/a.csv', 'a');
      const id = await flows.create('every', { trigger: { every: '5s' } });
      const isTaken = (count: number) =>
        until(`${count} files are taken`, async () => (await flows.taken(id)).length === count);
      await isTaken(1);
      write('every/b.csv', 'b');
      await isTaken(2);
      const { commands } = pair.installation;
      const { position } = await switchFlow(commands, 'acc_default', id, 'pause', CAUSE);
      await commands.waitFor('flows', position);
      write('every/c.csv', 'c');
      // A paused flow still runs on request.
      expect(await flows.run(id)).toMatchObject({ reason: 'request', counts: { files: 1 } });
      await updateFlow(commands, 'acc_default', id, { name: 'other' }, CAUSE);
      const removed = await switchFlow(commands, 'acc_default', id, 'remove', CAUSE);
      await commands.waitFor('flows', removed.position);
      await expect(loadFlow(commands, 'acc_default', id)).rejects.toMatchObject({
        code: 'not_found',
      });
      expect(await flows.taken(id)).toEqual(['a.csv', 'b.csv', 'c.csv']);
    },
  );
});
