import { renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { createTransfer, reserveTransfer } from '../../src/commands/create-transfer.ts';
import { pauseEndpoint, removeEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { saveEndpoint } from '../../src/commands/save-endpoint.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { toDetail } from '../../src/contract/transfers/views.ts';
import { isClosed } from '../../src/domain/transfers/transfer.ts';
import { lastErrorAfter } from '../../src/processes/after/table.ts';
import {
  ENDPOINT_KINDS,
  ENDPOINT_NAMES,
  type EndpointName,
  type TestEndpoint,
  uriOf,
} from '../support/file-servers/endpoints.ts';
import { freePort } from '../support/network/free-port.ts';
import { whileTableLocked } from '../support/postgres/row-locks.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { LONG, longUnless } from '../support/run/long.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  transferInLog,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { historyOf, storyOf, until } from '../support/service/transfers.ts';

// Seven servers start at once, on machines that may be busy.
vi.setConfig({ hookTimeout: 300_000, testTimeout: 90_000 });

const COPIED = ['created', 'queued: admitted', 'in_progress', 'completed'];
const CONTENT = Buffer.from('the file that is copied');

/** Kinds of endpoints with which `npm test` tries each step. */
const SHORT: EndpointName[] = ['sftp', 's3-ceph'];

function testEach<Name extends EndpointName>(
  names: readonly Name[],
  what: string,
  run: (name: Name) => Promise<void>,
): void {
  for (const name of names)
    test(`${name}: ${what}`, longUnless(SHORT.includes(name)), () => run(name));
}

describeWithPostgres('after a transfer', () => {
  let installation: TestInstallation;
  let roles: RunningRoles;
  const endpoints = new Map<string, TestEndpoint>();
  const ids = new Map<string, string>();

  const available = ENDPOINT_NAMES.filter((name) => ENDPOINT_KINDS[name].whyNot === null);
  const readOnly = (['sftp', 'ftps'] as const).filter((name) => available.includes(name));

  beforeAll(async () => {
    [installation] = await Promise.all([
      openTestInstallation({ WAYBILL_TRANSFER_RETRY_DELAYS: '50ms' }),
      ...available.map(async (name) => endpoints.set(name, await ENDPOINT_KINDS[name].start())),
      ...readOnly.map(async (name) =>
        endpoints.set(`${name}-guarded`, await ENDPOINT_KINDS[name].start({ readOnly: true })),
      ),
    ]);
    for (const [name, { request }] of endpoints)
      ids.set(name, await configureEndpoint(installation, { ...request, name }));
    roles = await startRoles(installation);
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([
      installation?.close(),
      ...[...endpoints.values()].map(({ stop }) => stop()),
    ]);
  });

  const at = (name: string) => endpoints.get(name) as TestEndpoint;
  /** Changes an endpoint, and waits until the workers see it. */
  async function configure(request: Record<string, unknown>): Promise<void> {
    const { position } = await saveEndpoint(
      installation.commands,
      endpointRequest.parse(request),
      CAUSE,
    );
    await installation.commands.waitFor('catalog', position);
  }
  const contentAt = async (name: string, file: string) => {
    const found = await at(name).read(file);
    return found && String(await buffer(found));
  };

  /** Waits until no step is left. */
  async function untilClosed(id: string) {
    await until('the last step', async () => isClosed(await transferInLog(installation, id)));
    await until(
      'its row is gone',
      async () =>
        (await installation.sql`select from work.after_steps where transfer_id = ${id}`).length ===
        0,
    );
    const transfer = await transferInLog(installation, id);
    return { transfer, after: toDetail(transfer).after };
  }

  /** Submits a transfer whose steps wait until `go` is called. */
  async function submitHeld(source: string, destination: string, after: object) {
    const reserved = reserveTransfer();
    const id = reserved.transferId;
    await installation.sql`
      insert into work.after_steps (transfer_id, due_at) values (${id}, 'infinity')`;
    const uris = { source_uri: source, destination_uri: destination };
    const request = transferRequest.parse({ ...uris, after });
    await createTransfer(installation.commands, 'acc_default', request, CAUSE, reserved);
    const go = async () => {
      await installation.sql`update work.after_steps set due_at = now() where transfer_id = ${id}`;
      await installation.sql`select pg_notify('waybill_after', '')`;
    };
    await untilStatus(installation, id, ['completed', 'failed']);
    return { id, go };
  }

  testEach(available, 'the marker is written, then the source is deleted', async (name) => {
    await at(name).put('deleted/a b.csv', CONTENT);
    const after = { source: 'delete', destination_marker: '.done' };
    const id = await submit(installation, uriOf(name, 'deleted/a b.csv'), uriOf(name, 'copies/'), {
      after,
    });
    expect((await untilClosed(id)).after).toEqual({
      ...after,
      state: 'done',
      marker: uriOf(name, 'copies/a b.csv.done'),
      moved_to: null,
      reason: null,
      ended_at: expect.any(String),
    });
    expect(await storyOf(installation, id)).toEqual([
      ...COPIED,
      'marker_written',
      'source_deleted',
    ]);
    expect(await contentAt(name, 'deleted/a b.csv')).toBeNull();
    expect(await contentAt(name, 'copies/a b.csv')).toBe(String(CONTENT));
    expect(await contentAt(name, 'copies/a b.csv.done')).toBe('');
    const [deleted] = (await historyOf(installation, id)).slice(-1);
    expect(deleted?.data).toMatchObject({
      source_file: { size_bytes: CONTENT.length, version: expect.any(String) },
      confirmed: true,
    });
  });

  testEach(available, 'the source is moved, and nothing is overwritten', async (name) => {
    const after = { source: { move_to: 'processed' } };
    for (const [content, moved] of [
      ['first', () => 'a.csv'],
      ['the second', (id: string) => `a.${id}.csv`],
    ] as const) {
      await at(name).put('moved/a.csv', Buffer.from(content));
      const more = { after };
      const id = await submit(installation, uriOf(name, 'moved/a.csv'), uriOf(name, 'all/'), more);
      const target = `moved/processed/${moved(id)}`;
      expect((await untilClosed(id)).after).toMatchObject({
        source: { move_to: 'processed/' },
        state: 'done',
        moved_to: uriOf(name, target),
      });
      expect(await contentAt(name, target)).toBe(content);
      expect(await contentAt(name, 'moved/a.csv')).toBeNull();
    }
    expect(await contentAt(name, 'moved/processed/a.csv')).toBe('first');
  });

  testEach(available, 'a newer file in place of the source is kept', async (name) => {
    await at(name).put('newer/a.csv', CONTENT);
    const { id, go } = await submitHeld(uriOf(name, 'newer/a.csv'), uriOf(name, 'newer/copy'), {
      source: 'delete',
    });
    expect(toDetail(await transferInLog(installation, id))).toMatchObject({
      status: 'completed',
      after: { state: 'pending', ended_at: null },
    });
    await at(name).put('newer/a.csv', Buffer.from('a newer and longer file'.repeat(2)));
    await go();
    const { transfer, after } = await untilClosed(id);
    expect(transfer.status).toBe('completed');
    expect(after).toMatchObject({ state: 'not_done', reason: { code: 'source_changed' } });
    expect(await contentAt(name, 'newer/a.csv')).toBe('a newer and longer file'.repeat(2));
    expect((await at(name).names('newer')).toSorted()).toEqual(['newer/a.csv', 'newer/copy']);
  });

  testEach(readOnly, 'a server that refuses keeps the source', async (name) => {
    const guarded = `${name}-guarded` as EndpointName;
    await at(guarded).put('refused/a.csv', CONTENT);
    const source = uriOf(name, 'refused/a.csv').replace(`//${name}/`, `//${guarded}/`);
    const id = await submit(installation, source, uriOf(name, 'from-guarded/'), {
      after: { source: 'delete' },
    });
    const { after } = await untilClosed(id);
    expect(after).toMatchObject({ state: 'not_done', reason: { code: 'permission_denied' } });
    expect(await contentAt(guarded, 'refused/a.csv')).toBe(String(CONTENT));
    expect(await at(guarded).names('refused')).toEqual(['refused/a.csv']);
  });

  const folders = (['sftp', 'ftps'] as const).filter((name) => available.includes(name));

  testEach(folders, 'without its marker, the source is kept and no part is left', async (name) => {
    await at(name).put('unmarked/a.csv', CONTENT);
    await at(name).put('unmarked/copy.done/a folder in the way', CONTENT);
    const uris = [uriOf(name, 'unmarked/a.csv'), uriOf(name, 'unmarked/copy')] as const;
    const id = await submit(installation, ...uris, {
      after: { source: 'delete', destination_marker: '.done' },
    });
    expect((await untilClosed(id)).after).toMatchObject({
      state: 'not_done',
      marker: null,
      reason: { code: 'destination_exists' },
    });
    expect(await storyOf(installation, id)).toEqual([...COPIED, 'marker_failed', 'source_kept']);
    expect((await at(name).names('unmarked')).toSorted()).toEqual([
      'unmarked/a.csv',
      'unmarked/copy',
      'unmarked/copy.done/a folder in the way',
    ]);
    expect(await contentAt(name, 'unmarked/a.csv')).toBe(String(CONTENT));
  });

  testEach(folders, 'an interrupted try is finished, and hits no newer file', async (name) => {
    await at(name).put('held/a.csv', CONTENT);
    const { id, go } = await submitHeld(uriOf(name, 'held/a.csv'), uriOf(name, 'copies/held'), {
      source: 'delete',
    });
    // As a try leaves it that ended between the rename and the delete.
    const root = at(name).root as string;
    renameSync(join(root, 'held/a.csv'), join(root, `held/.a.csv.${id}.source.held`));
    await at(name).put('held/a.csv', Buffer.from('newer'));
    await go();
    expect((await untilClosed(id)).after).toMatchObject({ state: 'done' });
    expect(await at(name).names('held')).toEqual(['held/a.csv']);
    expect(await contentAt(name, 'held/a.csv')).toBe('newer');
  });

  testEach(folders, 'a newer file that was set aside gets its name back', async (name) => {
    await at(name).put('back/a.csv', CONTENT);
    const { id, go } = await submitHeld(uriOf(name, 'back/a.csv'), uriOf(name, 'copies/back'), {
      source: { move_to: 'processed/' },
    });
    const root = at(name).root as string;
    rmSync(join(root, 'back/a.csv'));
    await at(name).put(`back/.a.csv.${id}.source.held`, Buffer.from('newer'));
    await go();
    expect((await untilClosed(id)).after).toMatchObject({ reason: { code: 'source_changed' } });
    expect(await at(name).names('back')).toEqual(['back/a.csv']);
    expect(await contentAt(name, 'back/a.csv')).toBe('newer');
  });

  testEach(folders, 'a destination that is the source itself fails the transfer', async (name) => {
    const { put, request, root } = at(name);
    const host = request.host === '127.0.0.1' ? 'localhost' : '127.0.0.1';
    await configureEndpoint(installation, { ...request, name: `${name}-too`, host });
    await put('itself/a.csv', CONTENT);
    symlinkSync('itself', join(root as string, 'linked'));
    const source = uriOf(name, 'itself/a.csv');
    const destinations = [uriOf(name, 'linked/'), source.replace(`//${name}/`, `//${name}-too/`)];
    for (const destination of destinations)
      for (const action of ['delete', { move_to: 'processed/' }]) {
        const after = { source: action };
        const id = await submit(installation, source, destination, { after, preserve_mtime: true });
        const ended = await untilStatus(installation, id, ['completed', 'failed']);
        expect(toDetail(ended)).toMatchObject({
          status: 'failed',
          error: { code: 'destination_is_source' },
        });
        await until('the part is removed', async () => (await at(name).names('itself')).length < 2);
        expect(await contentAt(name, 'itself/a.csv')).toBe(String(CONTENT));
      }
    // A copy beside the source is another file, and a copy that keeps the source does no harm.
    const copy = { after: { source: 'delete' }, preserve_mtime: true };
    const beside = await submit(installation, source, uriOf(name, 'linked/b.csv'), copy);
    expect((await untilClosed(beside)).after).toMatchObject({ state: 'done' });
    const kept = await submit(
      installation,
      uriOf(name, 'itself/b.csv'),
      uriOf(name, 'linked/b.csv'),
    );
    expect(await untilStatus(installation, kept, ['completed', 'failed'])).toMatchObject({
      status: 'completed',
    });
    expect(await at(name).names('itself')).toEqual(['itself/b.csv']);
    expect(await contentAt(name, 'itself/b.csv')).toBe(String(CONTENT));
  });

  testEach(folders, 'a source that something else removed is no deleted one', async (name) => {
    await at(name).put('gone/a.csv', CONTENT);
    const { id, go } = await submitHeld(uriOf(name, 'gone/a.csv'), uriOf(name, 'copies/gone'), {
      source: 'delete',
    });
    rmSync(join(at(name).root as string, 'gone/a.csv'));
    await go();
    expect((await untilClosed(id)).after).toMatchObject({
      state: 'not_done',
      reason: { code: 'source_not_found' },
    });
  });

  test('a paused endpoint holds up the steps', async () => {
    await at('s3-strict').put('paused/a.csv', CONTENT);
    const { id, go } = await submitHeld(
      uriOf('s3-strict', 'paused/a.csv'),
      uriOf('s3-strict', 'copies/paused'),
      { source: 'delete' },
    );
    const endpointId = ids.get('s3-strict') as string;
    const paused = await pauseEndpoint(installation.commands, endpointId, CAUSE);
    await installation.commands.waitFor('catalog', paused.position);
    await go();
    await until('a worker postpones the step', async () => {
      const [row] = await installation.sql`
        select due_at > now() and lease_until is null as later from work.after_steps
         where transfer_id = ${id}`;
      return row?.later;
    });
    expect(await contentAt('s3-strict', 'paused/a.csv')).toBe(String(CONTENT));
    const resumed = await resumeEndpoint(installation.commands, endpointId, CAUSE);
    await installation.commands.waitFor('catalog', resumed.position);
    await go();
    expect((await untilClosed(id)).after).toMatchObject({ state: 'done' });
  });

  test('a step that is tried again says why', async () => {
    await at('s3-strict').put('again/a.csv', CONTENT);
    const { id, go } = await submitHeld(
      uriOf('s3-strict', 'again/a.csv'),
      uriOf('s3-strict', 'copies/again'),
      { source: 'delete' },
    );
    const request = { ...at('s3-strict').request, name: 's3-strict' };
    const port = await freePort();
    await configure({ ...request, endpoint_url: `http://127.0.0.1:${port}` });
    await go();
    const transfer = await transferInLog(installation, id);
    const afterError = await until('a try fails', () => lastErrorAfter(installation.sql, transfer));
    expect(toDetail(transfer, { moving: null, waiting: null, afterError }).after).toMatchObject({
      state: 'pending',
      reason: { code: 'connection_failed' },
    });
    await configure(request);
    await go();
    expect((await untilClosed(id)).after).toMatchObject({ state: 'done', reason: null });
  });

  test('the steps are taken at the endpoints of the copy, also if they came after the order', async () => {
    await at('s3-strict').put('replaced/a.csv', CONTENT);
    const request = { ...at('s3-strict').request, name: 's3-later' };
    const first = await configureEndpoint(installation, request);
    const { position } = await pauseEndpoint(installation.commands, first, CAUSE);
    await installation.commands.waitFor('catalog', position);
    const id = await submit(
      installation,
      uriOf('s3-strict', 'replaced/a.csv').replace('//s3-strict/', '//s3-later/'),
      uriOf('s3-strict', 'copies/replaced').replace('//s3-strict/', '//s3-later/'),
      { after: { source: 'delete', destination_marker: '.done' } },
    );
    // The order came after the look for open transfers.
    const deps = { ...installation.commands, openTransfersOf: async () => [] };
    // No mover may claim the transfer while there is no endpoint.
    await whileTableLocked(installation.sql, 'work.transfer_jobs', async () => {
      await removeEndpoint(deps, first, CAUSE);
      await configure(request);
    });
    expect((await untilClosed(id)).after).toMatchObject({ state: 'done', reason: null });
    expect(await contentAt('s3-strict', 'replaced/a.csv')).toBeNull();
    expect(await contentAt('s3-strict', 'copies/replaced.done')).toBe('');
  });

  test.each([
    ['.done', 'The endpoint of the copy matches it no longer'],
    [null, 'It may have the name /elsewhere/.a.csv.txr_'],
  ])(
    'no step is taken at another endpoint than that of the copy: marker %s',
    async (marker, why) => {
      await at('s3-strict').put('elsewhere/a.csv', CONTENT);
      const request = { ...at('s3-strict').request, name: 's3-replaced' };
      const replaced = await configureEndpoint(installation, request);
      const { id, go } = await submitHeld(
        uriOf('s3-strict', 'elsewhere/a.csv').replace('//s3-strict/', '//s3-replaced/'),
        uriOf('s3-strict', 'copies/elsewhere').replace('//s3-strict/', '//s3-replaced/'),
        { source: 'delete', destination_marker: marker },
      );
      const { commands } = installation;
      // The transfer has ended in the log. Its job ends a moment later.
      await until('no job', async () => (await commands.openTransfersOf(replaced)).length === 0);
      await removeEndpoint(commands, replaced, CAUSE);
      // A try of the source was interrupted.
      await installation.sql`update work.after_steps set begun = true where transfer_id = ${id}`;
      // It has the same files, so that only its id tells it from that of the transfer.
      await configure(request);
      await go();
      const { after } = await untilClosed(id);
      expect(after).toMatchObject({
        state: 'not_done',
        reason: { code: 'endpoint_removed', message: expect.stringContaining(why) },
      });
      expect(await contentAt('s3-strict', 'elsewhere/a.csv')).toBe(String(CONTENT));
      expect(await contentAt('s3-strict', 'copies/elsewhere.done')).toBeNull();
    },
  );

  test('a failed transfer takes no step', LONG, async () => {
    const id = await submit(
      installation,
      uriOf('s3-strict', 'missing.csv'),
      uriOf('s3-strict', 'copies/missing'),
      { after: { source: 'delete', destination_marker: '.done' } },
    );
    await untilStatus(installation, id, 'failed');
    expect((await untilClosed(id)).after).toMatchObject({ state: 'not_done', reason: null });
    expect((await storyOf(installation, id)).at(-1)).toBe('failed');
    expect(await contentAt('s3-strict', 'copies/missing.done')).toBeNull();
  });
});
