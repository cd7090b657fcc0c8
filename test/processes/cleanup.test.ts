import { existsSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { asideOf, type PartState } from '../../src/adapters/files/part-name.ts';
import { pauseEndpoint, resumeEndpoint } from '../../src/commands/endpoints.ts';
import { createKey } from '../../src/commands/keys.ts';
import { abortTransfer, cancelTransfer } from '../../src/commands/transfers.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { type Service, startService } from '../../src/service.ts';
import { holdRows } from '../support/postgres/row-locks.ts';
import { LONG } from '../support/run/long.ts';
import { CAUSE, configureSftp, submit, untilStatus } from '../support/service/installation.ts';
import { MOVING } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers, filesBelow, storyOf, until } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 90_000 });

const MiB = 1 << 20;

await describeTransfers('what a transfer that ends leaves', () => {
  let service: Service;
  const pair = useSftpPair({ WAYBILL_TRANSFER_RETRY_DELAYS: '100ms' }, async (installation) => {
    service = await startService(installation, [...MOVING, 'api']);
    return service;
  });

  beforeAll(async () => {
    await configureSftp(pair.installation, 'direct', pair.alpha);
    pair.create('file', 32 * MiB);
  });
  beforeEach(() => pair.destination.throttle(4 * MiB));

  const files = (folder: string) =>
    existsSync(join(pair.beta.root, folder))
      ? filesBelow(join(pair.beta.root, folder))
      : Promise.resolve([]);
  const partOf = (id: string, folder: string) =>
    until(`the part of ${id}`, async () =>
      (await files(folder)).find((name) => name.includes(id) && name.endsWith('.part')),
    );
  const idle = () =>
    until(
      'no mover works',
      async () =>
        (await pair.installation.sql`select from work.movers where active > 0`).length === 0,
    );

  async function metrics(): Promise<string[]> {
    const request = keyRequest.parse({ name: 'metrics', scopes: ['metrics:read'] });
    const created = await createKey(pair.installation.commands, request, CAUSE, {
      allowNever: false,
    });
    const headers = { authorization: `Bearer ${created.key}` };
    const answer = await fetch(`${service.url}/metrics`, { headers });
    return (await answer.text()).split('\n');
  }

  test('an aborted transfer fails at once, its mover stops, and its part is removed', async () => {
    // Six chunks of 8 MiB are written side by side, and count only when they are complete.
    pair.create('long', 128 * MiB);
    pair.destination.throttle(16 * MiB);
    const before = pair.destination.forwarded.up;
    const id = await submit(pair.installation, 'sftp://alpha/long', 'sftp://beta/aborted/');
    await until('half of it', () => pair.destination.forwarded.up - before > 64 * MiB);
    pair.destination.stall(true);
    await until(
      'its progress is noted',
      async () => ((await pair.installation.commands.progressOf(id))?.transferred_bytes ?? 0) > 0,
    );
    await abortTransfer(pair.installation.commands, id, CAUSE);
    pair.destination.stall(false);
    const { facts } = await untilStatus(pair.installation, id, 'failed');
    expect(facts).toMatchObject({ size_bytes: 128 * MiB });
    expect(facts.transferred_bytes).toBeGreaterThan(0);
    expect(facts.error).toMatchObject({ code: 'aborted_by_operator', retryable: false });
    await idle();
    // An operator's alarm for lost leases must not go off.
    expect(await metrics()).toEqual(
      expect.arrayContaining([
        'waybill_attempt_duration_seconds_count{end="aborted"} 1',
        'waybill_leases_lost_total 0',
      ]),
    );
    await until('its part is gone', async () => (await files('aborted')).length === 0);
    expect(
      await pair.installation.sql`select from work.late_looks where transfer_id = ${id}`,
    ).toHaveLength(1);
    expect(await storyOf(pair.installation, id)).toEqual([
      'created',
      'queued: admitted',
      'in_progress',
      'failed',
    ]);
    expect(await abortTransfer(pair.installation.commands, id, CAUSE)).toMatchObject({
      state: { status: 'failed' },
      events: [],
    });
  });

  test('a part written after the clean-up is removed by its mover', LONG, async () => {
    pair.source.stall(true);
    // Leases are renewed together, in the order of their transfers. While this transfer's row is
    // locked, the mover does not learn that it lost the next one.
    const other = await submit(pair.installation, 'sftp://direct/file', 'sftp://beta/other/');
    const id = await submit(pair.installation, 'sftp://alpha/file', 'sftp://beta/late/');
    await Promise.all([untilStatus(pair.installation, id, 'in_progress'), partOf(other, 'other')]);
    const row = await holdRows(
      pair.installation.sql,
      (tx) => tx`select from work.transfer_jobs where transfer_id = ${other} for update`,
    );
    await until('its mover waits', async () => (await row.waiting('set lease_until')) > 0);
    await abortTransfer(pair.installation.commands, id, CAUSE);
    await until(
      'its job is gone',
      async () =>
        (await pair.installation.sql`select from work.transfer_jobs where transfer_id = ${id}`)
          .length === 0,
    );
    await until(
      'the clean-up',
      async () => (await pair.installation.sql`select from work.cleanups`).length === 0,
    );
    pair.source.stall(false);
    await partOf(id, 'late');
    await row.release();
    await until('the part is gone', async () => (await files('late')).length === 0);
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    expect(await untilStatus(pair.installation, other, ['completed', 'failed'])).toMatchObject({
      status: 'completed',
    });
  });

  test('a transfer cancelled before its retry loses its part, and no other does', async () => {
    const ids = await Promise.all(
      [1, 2].map(() => submit(pair.installation, 'sftp://alpha/file', 'sftp://beta/shared/')),
    );
    const [first, second] = ids as [string, string];
    await Promise.all(ids.map((id) => partOf(id, 'shared')));
    await pauseEndpoint(pair.installation.commands, pair.betaId, CAUSE);
    await pair.destination.refuse(true);
    pair.destination.cut();
    await Promise.all(ids.map((id) => untilStatus(pair.installation, id, 'queued')));
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    await pair.destination.refuse(false);
    await cancelTransfer(pair.installation.commands, first, CAUSE);
    await until('its part is gone', async () =>
      (await files('shared')).every((name) => !name.includes(first)),
    );
    expect(await files('shared')).toEqual([expect.stringContaining(second)]);

    await resumeEndpoint(pair.installation.commands, pair.betaId, CAUSE);
    expect(await untilStatus(pair.installation, second, ['completed', 'failed'])).toMatchObject({
      status: 'completed',
    });
    await until(
      'the clean-up',
      async () => (await pair.installation.sql`select from work.cleanups`).length === 0,
    );
    expect(await files('shared')).toEqual(['file']);
  });

  test('a transfer that finds its own file after a cut at the commit loses its part', async () => {
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    pair.create('same', MiB);
    await untilStatus(
      pair.installation,
      await submit(pair.installation, 'sftp://alpha/same', 'sftp://beta/twice/'),
      'completed',
    );
    const { sql } = pair.installation;
    const committing = async () =>
      (await sql`select from work.transfer_jobs where resume_record->>'committing' is not null`)
        .length > 0;
    const broken = pair.destination.cutWhen(committing, 'up');
    const id = await submit(pair.installation, 'sftp://alpha/same', 'sftp://beta/twice/');
    await broken;
    expect(await untilStatus(pair.installation, id, 'completed')).toMatchObject({
      verification: { read_back: true },
    });
    expect(await storyOf(pair.installation, id)).toEqual([
      'created',
      'queued: admitted',
      'in_progress',
      'completed',
    ]);
    await until('its part is gone', async () => (await files('twice')).length === 1);
    expect(await files('twice')).toEqual(['same']);
  });

  const recordedState = async (id: string) => {
    const [row] = await pair.installation.sql<{ state: PartState }[]>`
      select resume_record->'destination'->'state' as state
        from work.cleanups where transfer_id = ${id}`;
    return row?.state as PartState;
  };

  test('what late requests do after the clean-up is undone', async () => {
    const { sql } = pair.installation;
    const id = await submit(pair.installation, 'sftp://alpha/file', 'sftp://beta/undone/');
    await partOf(id, 'undone');
    pair.destination.cut();
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    await untilStatus(pair.installation, id, 'completed');
    await until('the clean-up', async () => (await files('undone')).length === 1);
    await until('its row is gone', async () => (await sql`select from work.cleanups`).length === 0);
    const at = (name: string) => join(pair.beta.root, 'undone', name);
    await writeFile(at(`.file.${id}.clm_1-2.part`), '');
    await writeFile(at('file'), 'newer, of another transfer');
    await rename(at('file'), at(`.file.${id}.clm_1.old`));
    await sql`update work.late_looks set due_at = now() where transfer_id = ${id}`;
    await until('a look', async () => (await files('undone')).join() === 'file');
    expect(await readFile(at('file'), 'utf8')).toBe('newer, of another transfer');
    await until('the next look is scheduled', async () => {
      const looked = await sql`
        select from work.late_looks where transfer_id = ${id} and looks = 1 and due_at > now()`;
      return looked.length === 1;
    });
  });

  test.each([
    ['an older file stays away when a consumer took the new one', 'taken', 5, []],
    ['an older file of the same size stays away, too', 'taken-alike', MiB, []],
    ['the delivered file gets its name back', 'delivered', null, ['daily']],
  ])('of what a completed transfer has set aside, %s', async (_, folder, older, left) => {
    const { sql } = pair.installation;
    pair.destination.throttle(Number.POSITIVE_INFINITY);
    pair.create('daily', MiB);
    await sql`alter table work.cleanups alter due_at set default 'infinity'`;
    await pair.destination.refuse(true);
    pair.destination.cut();
    const id = await submit(pair.installation, 'sftp://alpha/daily', `sftp://beta/${folder}/`);
    await until('a retry', async () => (await storyOf(pair.installation, id)).length > 3);
    await pair.destination.refuse(false);
    await untilStatus(pair.installation, id, 'completed');
    await until(
      'its clean-up is scheduled',
      async () => (await sql`select from work.cleanups`).length === 1,
    );
    const at = (name: string) => join(pair.beta.root, folder, name);
    const aside = at(asideOf(await recordedState(id)));
    await rename(at('daily'), aside);
    if (older !== null) await writeFile(aside, Buffer.alloc(older));
    await sql`alter table work.cleanups alter due_at set default now()`;
    await sql`update work.cleanups set due_at = now()`;
    await until('the clean-up', async () => (await sql`select from work.cleanups`).length === 0);
    expect(await files(folder)).toEqual(left);
  });
});
