import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { heldPath } from '../../src/adapters/files/part-name.ts';
import { createTransfer, reserveTransfer } from '../../src/commands/create-transfer.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { holdRows } from '../support/postgres/row-locks.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import {
  type RunningRoles,
  type SpawnedService,
  spawnMover,
  startDispatch,
} from '../support/service/roles.ts';
import { describeTransfers, historyOf, storyOf, until } from '../support/service/transfers.ts';

vi.setConfig({ testTimeout: 90_000 });

await describeTransfers('a process that is killed after a transfer', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let dispatch: RunningRoles;

  let mover: SpawnedService | null = null;

  beforeAll(async () => {
    [installation, server] = await Promise.all([openTestInstallation(), startSftpServer()]);
    dispatch = startDispatch(installation);
    await configureSftp(installation, 'files', server);
  });
  afterAll(async () => {
    await killMover();
    await dispatch?.stop();
    await Promise.all([installation?.close(), server?.stop()]);
  });

  /** Starts a mover, unless the one of the test before still runs. */
  async function startMover(): Promise<void> {
    mover ??= await spawnMover(installation.environment);
  }

  async function killMover(): Promise<void> {
    await mover?.kill();
    mover = null;
  }

  const file = (name: string) => join(server.root, name);

  /** Lets a mover copy a file whose deletion waits. */
  async function copied(name: string): Promise<string> {
    writeFileSync(file(name), 'the file that is copied');
    const reserved = reserveTransfer();
    const id = reserved.transferId;
    await installation.sql`
      insert into work.after_steps (transfer_id, due_at) values (${id}, 'infinity')`;
    const request = transferRequest.parse({
      source_uri: `sftp://files/${name}`,
      destination_uri: `sftp://files/copies/${name}`,
      after: { source: 'delete' },
    });
    await createTransfer(installation.commands, 'acc_default', request, CAUSE, reserved);
    await untilStatus(installation, id, 'completed');
    return id;
  }

  /** Makes the steps due, also those that a dead process has claimed. */
  async function release(id: string): Promise<void> {
    await installation.sql`
      update work.after_steps set due_at = now(), lease_until = null where transfer_id = ${id}`;
    await installation.sql`select pg_notify('waybill_after', '')`;
  }

  const deleted = (id: string) =>
    until('the source is deleted', async () => {
      const last = (await historyOf(installation, id)).at(-1);
      return last?.type === 'transfer.source_deleted' && last.data;
    });

  test('between the end and the delete: the next one deletes the source', async () => {
    await startMover();
    const id = await copied('before');
    await killMover();
    expect(existsSync(file('before'))).toBe(true);
    await startMover();
    await release(id);
    expect(await deleted(id)).toMatchObject({ confirmed: true });
    expect(existsSync(file('before'))).toBe(false);
  });

  /** Kills a mover that has deleted the source and whose event is not in the log. */
  async function deletedByDead(name: string): Promise<string> {
    await startMover();
    const id = await copied(name);
    // Appends wait for this row.
    const log = await holdRows(installation.sql, (tx) => tx`select from log.head for update`);
    await release(id);
    await until('the source is gone', () => !existsSync(file(name)));
    await until('its event waits', async () => (await log.waiting('log.append')) > 0);
    await killMover();
    await log.release({ ending: 'log.append' });
    expect((await storyOf(installation, id)).at(-1)).toBe('completed');
    return id;
  }

  test('between the delete and its event: the event says that it is not confirmed', async () => {
    const { sql } = installation;
    const id = await deletedByDead('between');
    await startMover();
    await release(id);
    expect(await deleted(id)).toMatchObject({ confirmed: false });
    await until(
      'its row is gone',
      async () => (await sql`select from work.after_steps where transfer_id = ${id}`).length === 0,
    );
    const [look] = await sql`select side, state from work.late_looks where transfer_id = ${id}`;
    expect(look).toEqual({ side: 'source', state: { tried: 2 } });
    // The server carries out the rename of the dead process, and hides a newer file.
    writeFileSync(heldPath(file('between'), id), 'a newer file');
    await sql`update work.late_looks set due_at = now() where transfer_id = ${id}`;
    await until('it has its name again', () => existsSync(file('between')));
    expect(readFileSync(file('between'), 'utf8')).toBe('a newer file');
  });

  test('between the delete and its event: a newer file stays', async () => {
    const id = await deletedByDead('newer');
    writeFileSync(file('newer'), 'a newer and longer file, which no transfer has copied');
    await startMover();
    await release(id);
    const kept = await until('the last step', async () => {
      const last = (await historyOf(installation, id)).at(-1);
      return last?.type === 'transfer.source_kept' && last.data;
    });
    expect(kept).toMatchObject({
      reason: { code: 'source_changed', message: expect.stringContaining('interrupted') },
    });
    expect(readFileSync(file('newer'), 'utf8')).toContain('a newer and longer file');
  });
});
