import { afterEach, beforeEach, expect, it } from 'vitest';
import { findTransfer } from '../../src/processes/live/queries.ts';
import { prepareReadModels } from '../../src/projections/read-models.ts';
import { ABSENT_SERVER } from '../support/file-servers/sftp/absent-server.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../support/service/installation.ts';

describeWithPostgres('the schema of the read models', () => {
  let installation: TestInstallation;

  beforeEach(async () => {
    installation = await openTestInstallation();
  });
  afterEach(() => installation.close());

  it.each([
    ['drop schema read cascade'],
    // As an older version left it.
    ['alter table read.checkpoints drop column generation'],
    ['drop table read.transfer_counts'],
    ['drop table read.transfers, read.keys, read.checkpoints'],
  ])('is rebuilt from the log after: %s', async (damage) => {
    const { sql, logId, store, commands } = installation;
    await configureSftp(installation, 'files', ABSENT_SERVER as never);
    const id = await submit(installation, 'sftp://files/a', 'sftp://files/b');
    await sql.unsafe(damage);

    expect(await prepareReadModels(sql, logId)).toEqual(new Map());
    expect(await commands.waitFor('transfers', await store.head())).toBe(true);
    const position = (await store.read(`transfer-${id}`)).at(-1)?.position ?? null;
    await expect
      .poll(
        async () =>
          (await commands.waitFor('transfers', position)) && findTransfer(sql, 'acc_default', id),
      )
      .toMatchObject({
        transfer: { status: 'pending', facts: { transfer_id: id } },
      });
  });
});
