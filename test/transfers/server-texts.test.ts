import { afterAll, beforeAll, expect, test } from 'vitest';
import type { BatchListed } from '../../src/domain/batches/batch.ts';
import {
  type ListedEntry,
  type SshSignInServer,
  startSshSignInServer,
} from '../support/file-servers/sftp/sign-in-server.ts';
import { flowsOf } from '../support/service/flows.ts';
import { configureSftp, submit, untilStatus } from '../support/service/installation.ts';
import { startRoles } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers } from '../support/service/transfers.ts';

const PASSWORD = 'right';
/** As a server in C sends it that counts the end of its string. */
const REFUSAL = 'Permission denied\0';
const FILE: ListedEntry = {
  filename: 'a\0.csv',
  longname: '-rw-r--r-- a.csv',
  attrs: { mode: 0o100644, size: 5, mtime: 1_700_000_000 },
};

// No table of a read model can hold a NUL. One in the log would stop it for good.
await describeTransfers('a server that sends NUL characters', () => {
  const pair = useSftpPair({}, (installation) =>
    startRoles(installation, ['projector', 'mover', 'monitor']),
  );
  const flows = flowsOf(pair);
  let refusing: SshSignInServer;
  let listing: SshSignInServer;

  beforeAll(async () => {
    [refusing, listing] = await Promise.all([
      startSshSignInServer('password', PASSWORD, { refusal: REFUSAL }),
      startSshSignInServer('password', PASSWORD, [FILE]),
    ]);
    await configure('refusing', refusing);
    await configure('listing', listing);
  });
  afterAll(() => Promise.all([refusing?.stop(), listing?.stop()]));

  const configure = (name: string, { port, hostKeySha256 }: SshSignInServer) =>
    configureSftp(
      pair.installation,
      name,
      { ...pair.alpha, port, hostKeySha256 },
      { password: PASSWORD, base_path: '/' },
    );

  /** Waits until each read model shows all that the log has. */
  async function untilAllShown(): Promise<void> {
    const { commands, store } = pair.installation;
    const end = await store.head();
    for (const name of ['transfers', 'batches', 'flows', 'audit'] as const)
      await commands.waitFor(name, end);
  }

  test('in the text of an error', async () => {
    const id = await submit(pair.installation, 'sftp://refusing/x', 'sftp://beta/x');
    const failed = await untilStatus(pair.installation, id, ['failed']);
    const message = expect.stringContaining('Permission denied\ufffd');
    expect(failed).toMatchObject({ facts: { error: { code: 'permission_denied', message } } });
    await untilAllShown();
  });

  test('in the text of an error of a listing', async () => {
    const id = await flows.create('refused', { source: { uri: 'sftp://refusing/in/' } });
    expect(await flows.run(id)).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('Permission denied\ufffd') },
    });
    await untilAllShown();
  });

  test('in the name of a file', async () => {
    const id = await flows.create('named', { source: { uri: 'sftp://listing/in/' } });
    const { batch_id } = await flows.run(id);
    const events = await pair.installation.store.read(`batch-${batch_id}`);
    const items = events
      .filter(({ type }) => type === 'batch.listed')
      .flatMap(({ data }) => (data as BatchListed).items);
    expect(items).toEqual([
      expect.objectContaining({
        error: expect.objectContaining({ code: 'validation_failed' }),
      }),
    ]);
    await untilAllShown();
  });
});
