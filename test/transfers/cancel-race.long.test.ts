import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cancelTransfer } from '../../src/commands/transfers.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { findTransfer } from '../../src/processes/live/queries.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  transferInLog,
  untilStatus,
} from '../support/service/installation.ts';
import {
  type RunningRoles,
  type SpawnedService,
  spawnMover,
  startDispatch,
} from '../support/service/roles.ts';
import {
  describeTransfers,
  filesBelow,
  storyOf,
  until,
  untilCleanedUp,
} from '../support/service/transfers.ts';

const CANCELLED_EACH = 25;
const LET_BE = 10;

await describeTransfers('cancelling while movers start', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let beta: SftpServer;
  let dispatch: RunningRoles;
  let movers: SpawnedService[] = [];

  beforeAll(async () => {
    [installation, alpha, beta] = await Promise.all([
      openTestInstallation(),
      startSftpServer(),
      startSftpServer(),
    ]);
    dispatch = startDispatch(installation);
    await configureSftp(installation, 'alpha', alpha);
    await configureSftp(installation, 'beta', beta);
    movers = await Promise.all(
      ['3', '3', '2'].map((count) =>
        spawnMover(installation.environment, { WAYBILL_MOVERS: count }),
      ),
    );
  });
  afterAll(async () => {
    await Promise.all(movers.map((mover) => mover.kill()));
    await dispatch?.stop();
    await Promise.all([installation?.close(), alpha?.stop(), beta?.stop()]);
  });

  /** Returns the status that prevented the cancel; null if it succeeded. */
  const cancel = (id: string): Promise<string | null> =>
    cancelTransfer(installation.commands, id, CAUSE).then(
      () => null,
      (error: unknown) => {
        if (!(error instanceof DomainError) || error.code !== 'transfer_not_cancellable')
          throw error;
        return (error.details as { current_status: string }).current_status;
      },
    );

  const queued = async (id: string) => (await transferInLog(installation, id)).status !== 'pending';
  const started = async (id: string) =>
    !['pending', 'queued'].includes((await transferInLog(installation, id)).status);
  const claimed = async (id: string) =>
    (
      await installation.sql`
        select from work.transfer_jobs where transfer_id = ${id} and claim_id is not null`
    ).length > 0 || started(id);
  const moments: Record<string, (id: string) => Promise<boolean>> = {
    created: async () => true,
    queued,
    claimed,
    started,
  };

  test('each of 110 transfers ends once, with the same end in all records', async () => {
    const all: { id: string; name: string; refused?: string | null }[] = [];
    const submitted = async (name: string) => {
      writeFileSync(join(alpha.root, name), `${name}\n`.repeat(1_000));
      const entry: (typeof all)[number] = {
        name,
        id: await submit(installation, `sftp://alpha/${name}`, 'sftp://beta/in/'),
      };
      all.push(entry);
      return entry;
    };
    const cancelled = Object.entries(moments).flatMap(([moment, reached]) =>
      Array.from({ length: CANCELLED_EACH }, async (_, i) => {
        const entry = await submitted(`${moment}-${i}`);
        await until(`${entry.name} is ${moment}`, () => reached(entry.id), 60);
        entry.refused = await cancel(entry.id);
      }),
    );
    await Promise.all([
      ...cancelled,
      ...Array.from({ length: LET_BE }, (_, i) => submitted(`let-be-${i}`)),
    ]);

    for (const { id, name, refused } of all) {
      const { status } = await untilStatus(
        installation,
        id,
        ['completed', 'failed', 'cancelled'],
        60,
      );
      expect({ name, status }).toEqual({
        name,
        status: refused === null ? 'cancelled' : 'completed',
      });
      const story = await storyOf(installation, id);
      expect(story.filter((step) => ['completed', 'failed', 'cancelled'].includes(step))).toEqual([
        status,
      ]);
      expect(story.at(-1)).toBe(status);
      const file = join(beta.root, 'in', name);
      if (status === 'cancelled') expect(existsSync(file)).toBe(false);
      else expect(readFileSync(file).equals(readFileSync(join(alpha.root, name)))).toBe(true);
    }
    const refusedOf = (moment: string) =>
      all.filter(({ name, refused }) => name.startsWith(moment) && refused);
    expect(refusedOf('started')).toHaveLength(CANCELLED_EACH);
    expect(all.filter(({ refused }) => refused === null).length).toBeGreaterThan(0);

    await installation.commands.waitFor('transfers', await installation.store.head());
    for (const { id } of all) {
      expect(await findTransfer(installation.sql, 'acc_default', id)).toMatchObject({
        transfer: await transferInLog(installation, id),
      });
    }
    await until(
      'no job is left',
      async () => (await installation.sql`select from work.transfer_jobs`).length === 0,
    );
    await untilCleanedUp(installation);
    expect((await filesBelow(beta.root)).filter((name) => name.endsWith('.part'))).toEqual([]);
  }, 120_000);

  test('of several cancels of one transfer, one succeeds', async () => {
    await Promise.all(movers.map((mover) => mover.stop()));
    const id = await submit(installation, 'sftp://alpha/let-be-0', 'sftp://beta/never');
    const answers = await Promise.all(Array.from({ length: 20 }, () => cancel(id)));
    expect(answers.filter((answer) => answer === null)).toHaveLength(1);
    expect(answers.filter((answer) => answer === 'cancelled')).toHaveLength(19);
    expect((await storyOf(installation, id)).filter((step) => step === 'cancelled')).toHaveLength(
      1,
    );
  });
});
