import { afterAll, beforeAll, expect, it } from 'vitest';
import { ENDPOINT_CREDENTIALS } from '../../src/adapters/vault.ts';
import { cancelBatch } from '../../src/commands/batches.ts';
import {
  createBatch,
  createFolderBatch,
  createRetryBatch,
  reserveBatch,
} from '../../src/commands/create-batch.ts';
import { createTransfer } from '../../src/commands/create-transfer.ts';
import {
  acceptHostKey,
  pauseEndpoint,
  removeEndpoint,
  resumeEndpoint,
} from '../../src/commands/endpoints.ts';
import { saveEndpoint } from '../../src/commands/save-endpoint.ts';
import { abortTransfer, cancelTransfer, startTransfer } from '../../src/commands/transfers.ts';
import { batchRequest } from '../../src/contract/batches/requests.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { transferRequest } from '../../src/contract/transfers/requests.ts';
import type { StoredEvent } from '../../src/domain/events/event.ts';
import { streamName } from '../../src/domain/events/streams.ts';
import { newId } from '../../src/domain/ids.ts';
import { dispatchConsumer } from '../../src/processes/dispatch/consumer.ts';
import { newEncryptedKey } from '../support/file-servers/sftp/keys.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../support/service/installation.ts';

const HOST_KEY = `SHA256:${'a'.repeat(43)}`;
const { private: PRIVATE_KEY } = newEncryptedKey('phrase');

describeWithPostgres('endpoints', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
  });
  afterAll(() => installation?.close());

  const save = (name: string, changes: Record<string, unknown> = {}) => {
    const request = {
      name,
      protocol: 'sftp',
      host: 'files.example.com',
      username: 'me',
      password: 'secret-1',
      ...changes,
    };
    return saveEndpoint(installation.commands, endpointRequest.parse(request), CAUSE);
  };
  const find = async (name: string) =>
    (await installation.commands.endpoints()).filter((endpoint) => endpoint.name === name);
  const typesOf = async (id: string) =>
    (await installation.store.read(streamName('endpoint', id))).map(({ type }) => type);

  it('are configured and found at once, with their secrets only in the vault', async () => {
    const { endpointId, created } = await save('new', { base_path: '/in' });
    expect(created).toBe(true);
    const [found] = await find('new');
    expect(found).toMatchObject({
      endpoint_id: endpointId,
      sign_in: 'password',
      settings: { base_path: '/in', port: 22 },
    });
    expect(await installation.vault.open(found!.credentials_record, ENDPOINT_CREDENTIALS)).toEqual({
      password: 'secret-1',
    });
    const [{ data }] = (await installation.store.read(streamName('endpoint', endpointId))) as [
      StoredEvent,
    ];
    expect(JSON.stringify([data, found])).not.toContain('secret-1');
  });

  it('are updated by name, with new credentials and the same host key', async () => {
    const { endpointId } = await save('again');
    await acceptHostKey(installation.commands, endpointId, HOST_KEY, CAUSE);
    const again = await save('again', {
      password: undefined,
      private_key: PRIVATE_KEY,
      passphrase: 'phrase',
      max_connections: 2,
    });
    expect(again).toMatchObject({ endpointId, created: false });
    const [found, ...others] = await find('again');
    expect(others).toEqual([]);
    expect(found).toMatchObject({
      max_connections: 2,
      sign_in: 'private_key',
      settings: { host_key_sha256: HOST_KEY },
    });
    expect(await installation.vault.open(found!.credentials_record, ENDPOINT_CREDENTIALS)).toEqual({
      private_key: PRIVATE_KEY,
      passphrase: 'phrase',
    });
    expect((await typesOf(endpointId)).slice(2)).toEqual([
      'endpoint.updated',
      'endpoint.credentials_replaced',
    ]);

    await save('again', { port: 2222 });
    expect((await find('again'))[0]?.settings).toMatchObject({ port: 2222, host_key_sha256: null });
  });

  it('stay one endpoint when several requests save one name at once', async () => {
    const saved = await Promise.all(
      [1, 2, 3].map((max_connections) => save('race', { max_connections })),
    );
    expect(new Set(saved.map(({ endpointId }) => endpointId)).size).toBe(1);
    expect(saved.filter(({ created }) => created)).toHaveLength(1);
    expect(await find('race')).toHaveLength(1);
  });

  it('are paused and resumed, and show it at once', async () => {
    const { endpointId } = await save('paused');
    expect((await pauseEndpoint(installation.commands, endpointId, CAUSE)).state.paused).toBe(true);
    expect((await find('paused'))[0]?.paused).toBe(true);
    expect((await resumeEndpoint(installation.commands, endpointId, CAUSE)).state.paused).toBe(
      false,
    );
    expect((await find('paused'))[0]?.paused).toBe(false);
  });

  it('are not removed while open transfers use them', async () => {
    const { endpointId } = await save('used');
    const request = transferRequest.parse({
      source_uri: 'sftp://elsewhere/a',
      destination_uri: 'sftp://used/a',
    });
    const { state } = await createTransfer(installation.commands, 'acc_default', request, CAUSE);
    const id = state.facts.transfer_id;
    const dispatch = async () => {
      const events = await installation.store.read(streamName('transfer', id));
      await installation.sql.begin((tx) => dispatchConsumer.apply(tx, events));
    };
    await dispatch();
    await expect(removeEndpoint(installation.commands, endpointId, CAUSE)).rejects.toMatchObject({
      code: 'endpoint_in_use',
      message: expect.stringContaining(id),
    });
    expect(await find('used')).toHaveLength(1);

    await cancelTransfer(installation.commands, id, CAUSE);
    await dispatch();
    await removeEndpoint(installation.commands, endpointId, CAUSE);
    expect(await find('used')).toEqual([]);
  });

  it('are not removed while a batch is being created with them', async () => {
    const { commands } = installation;
    const { endpointId } = await save('listed');
    await save('target');
    const request = batchRequest.parse({
      source_uri: 'sftp://listed/folder/',
      destination_uri: 'sftp://target/copies/',
    });
    const folder = reserveBatch();
    await createFolderBatch(commands, 'acc_default', request, CAUSE, folder);
    const remove = () => removeEndpoint(commands, endpointId, CAUSE);
    const isInUse = ({ batchId }: { batchId: string }) =>
      expect(remove()).rejects.toMatchObject({
        code: 'endpoint_in_use',
        message: expect.stringContaining(batchId),
      });
    await isInUse(folder);
    await cancelBatch(commands, 'acc_default', folder.batchId, CAUSE);

    const items = [{ source_uri: 'sftp://listed/a', destination_uri: 'sftp://target/a' }];
    const failed = reserveBatch();
    const { transferIds } = await createBatch(
      commands,
      'acc_default',
      batchRequest.parse({ items }),
      CAUSE,
      failed,
      false,
    );
    const [transferId = ''] = transferIds;
    const start = { claimId: newId('clm'), source: null, destination: null };
    await startTransfer(commands, transferId, start, CAUSE);
    await abortTransfer(commands, transferId, CAUSE);
    await commands.catchUp('transfers');
    const retry = reserveBatch();
    await createRetryBatch(commands, 'acc_default', failed.batchId, CAUSE, retry);
    await isInUse(retry);
    await cancelBatch(commands, 'acc_default', retry.batchId, CAUSE);
    await remove();
    expect(await find('listed')).toEqual([]);
  });

  it('free their name when they are removed, and can be removed twice', async () => {
    const first = await save('reused');
    await removeEndpoint(installation.commands, first.endpointId, CAUSE);
    await removeEndpoint(installation.commands, first.endpointId, CAUSE);
    expect(await typesOf(first.endpointId)).toEqual(['endpoint.configured', 'endpoint.removed']);
    await expect(
      pauseEndpoint(installation.commands, first.endpointId, CAUSE),
    ).rejects.toMatchObject({ code: 'not_found' });
    const second = await save('reused');
    expect(second.created).toBe(true);
    expect(second.endpointId).not.toBe(first.endpointId);
  });

  it('are not found under an unknown id', async () => {
    const id = newId('end');
    for (const command of [pauseEndpoint, resumeEndpoint, removeEndpoint]) {
      await expect(command(installation.commands, id, CAUSE)).rejects.toMatchObject({
        code: 'not_found',
      });
    }
    await expect(acceptHostKey(installation.commands, id, HOST_KEY, CAUSE)).rejects.toMatchObject({
      code: 'not_found',
    });
  });
});
