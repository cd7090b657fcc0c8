import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { openFileEndpoint } from '../../../src/adapters/files/open.ts';
import { findFiles } from '../../../src/processes/batches/folder.ts';
import type { Found } from '../../../src/processes/batches/walk.ts';
import {
  type EndpointConnectivity,
  endpointConnectivity,
  noteObservation,
} from '../../../src/processes/endpoints/connectivity.ts';
import { noteSignIn, testEndpoint } from '../../../src/processes/endpoints/endpoint-test.ts';
import {
  accessTo,
  listFolder,
  openLister,
} from '../../../src/processes/endpoints/open-endpoint.ts';
import {
  forgetEarlierRejection,
  holdSignIn,
  noteRejection,
} from '../../../src/processes/endpoints/sign-in-holds.ts';
import {
  type ConfiguredEndpoint,
  listEndpoints,
} from '../../../src/projections/catalog/queries.ts';
import { type SftpServer, startSftpServer } from '../../support/file-servers/sftp/server.ts';
import {
  type SshSignInServer,
  startSshSignInServer,
} from '../../support/file-servers/sftp/sign-in-server.ts';
import {
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../../support/service/roles.ts';
import { describeTransfers } from '../../support/service/transfers.ts';

const REJECTED = { code: 'auth_failed', message: 'Authentication failed' };

await describeTransfers('an endpoint that rejected a sign-in', () => {
  let installation: TestInstallation;
  let server: SftpServer;
  let refusing: SshSignInServer;
  let roles: RunningRoles;

  beforeAll(async () => {
    [installation, server, refusing] = await Promise.all([
      openTestInstallation(),
      startSftpServer(),
      startSshSignInServer('password', 'another'),
    ]);
    roles = await startRoles(installation);
    await configureSftp(installation, 'server', server);
    await configure('wrong');
    writeFileSync(join(server.root, 'file'), 'file');
  });
  beforeEach(() => {
    refusing.attempts.length = 0;
  });
  afterAll(async () => {
    await roles?.stop();
    await Promise.all([installation?.close(), server?.stop(), refusing?.stop()]);
  });

  const configure = (password: string) =>
    configureSftp(
      installation,
      'refusing',
      { ...server, port: refusing.port },
      { password, host_key_sha256: refusing.hostKeySha256 },
    );
  const endpointOf = async (name: string) =>
    (await listEndpoints(installation.sql)).find(
      (endpoint) => endpoint.name === name,
    ) as ConfiguredEndpoint;
  const healthOf = async (name: string) => {
    const { endpoint_id } = await endpointOf(name);
    return (await endpointConnectivity(installation.sql)).get(endpoint_id) as EndpointConnectivity;
  };
  const errorOf = async (name: string) => (await healthOf(name))?.error ?? null;
  /** Lists a folder as a user does who chooses a file in the console. */
  const browse = async (name: string) =>
    listFolder(installation, await endpointOf(name), '/', AbortSignal.timeout(10_000));
  const tried = () => refusing.attempts.flatMap(({ password }) => password ?? []);

  async function failTen(): Promise<void> {
    const ids = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        submit(installation, 'sftp://server/file', `sftp://refusing/${i}`),
      ),
    );
    for (const id of ids) {
      const { facts } = await untilStatus(installation, id, 'failed');
      expect(facts).toMatchObject({
        retry_count: 0,
        error: {
          code: 'auth_failed',
          message: 'Authentication failed',
          phase: 'destination_sign_in',
        },
      });
    }
  }

  /** Starts the service again, so nothing that the first process kept in memory remains. */
  async function restart(): Promise<void> {
    await roles.stop();
    roles = await startRoles(installation);
  }

  test('gets one sign-in for all due transfers, then a pause of one minute', async () => {
    await failTen();
    expect(tried()).toEqual(['wrong']);
    const [hold] = await installation.sql<{ seconds: number }[]>`
      select extract(epoch from until - now())::float8 as seconds from work.sign_in_holds`;
    expect(hold?.seconds).toBeGreaterThan(0);
    expect(hold?.seconds).toBeLessThanOrEqual(60);
  });

  test('shows the rejection, which no probe hides, until it has other credentials', async () => {
    const { endpoint_id: endpointId } = await endpointOf('refusing');
    const probe = { latencyMs: 1, fingerprint: refusing.hostKeySha256 };
    await noteObservation(installation.sql, { endpointId, connected: true, error: null, probe });
    expect(await errorOf('refusing')).toEqual(REJECTED);
    await configure('new');
    expect(await errorOf('refusing')).toBeNull();
    const lister = await openLister(installation, await endpointOf('refusing'));
    await expect(lister.list('/', AbortSignal.timeout(10_000))).rejects.toThrow(REJECTED.message);
    await lister.close();
    expect(await errorOf('refusing')).toEqual(REJECTED);
    await configure('newer');
    expect(await errorOf('refusing')).toBeNull();
    await expect(browse('refusing')).rejects.toThrow(REJECTED.message);
    expect(await errorOf('refusing')).toEqual(REJECTED);
    const { error_since: since, last_success_at: reached } = await healthOf('refusing');
    expect(Date.parse(since as string)).toBeGreaterThan(Date.parse(reached as string));
    await expect(browse('refusing')).rejects.toThrow(REJECTED.message);
    await noteObservation(installation.sql, { endpointId, connected: true, error: null, probe });
    expect((await healthOf('refusing')).error_since).toBe(since);
    await configure('wrong');
    await failTen();
    refusing.attempts.length = 0;
  });

  test('shows it no longer after a transfer that has signed in since', async () => {
    const { sql } = installation;
    const server = await endpointOf('server');
    await holdSignIn(sql, server);
    expect(await forgetEarlierRejection(sql, server.endpoint_id, 0)).toBe(false);
    await sql`update work.sign_in_holds set until = now() - interval '1 second'
               where endpoint_id = ${server.endpoint_id}`;
    expect(await forgetEarlierRejection(sql, server.endpoint_id, 2_000)).toBe(false);
    expect(await errorOf('server')).toEqual(REJECTED);
    const id = await submit(installation, 'sftp://server/file', 'sftp://server/copy');
    await untilStatus(installation, id, 'completed');
    await vi.waitFor(async () => expect(await errorOf('server')).toBeNull(), 5_000);
  });

  test('shows it no longer after a test or a listing that has signed in', async () => {
    const { sql, vault } = installation;
    const server = await endpointOf('server');
    await holdSignIn(sql, server);
    const { credentials, definition } = await accessTo(vault, server);
    const endpoint = await openFileEndpoint(definition, credentials);
    await noteSignIn(sql, server, await testEndpoint({ ...server, endpoint }, () => {}));
    expect(await errorOf('server')).toBeNull();
    await noteRejection(sql, server);
    expect(await errorOf('server')).toEqual(REJECTED);
    const lister = await openLister(installation, server);
    await lister.list('/', AbortSignal.timeout(10_000));
    await lister.close();
    expect(await errorOf('server')).toBeNull();
    await noteRejection(sql, server);
    await browse('server');
    expect(await errorOf('server')).toBeNull();
  });

  test('gets no sign-in from another process during the pause', async () => {
    await restart();
    await failTen();
    expect(tried()).toEqual([]);
  });

  test('gets a sign-in at once with other credentials', async () => {
    await configure('wrong too');
    await failTen();
    expect(tried()).toEqual(['wrong too']);
  });

  test('gets one more sign-in after the minute', async () => {
    await restart();
    await installation.sql`update work.sign_in_holds set until = now() - interval '1 second'`;
    await failTen();
    expect(tried()).toEqual(['wrong too']);
  });

  /** Lists its folder as a batch or a flow does. */
  async function listInBackground() {
    const { sql, vault } = installation;
    const folder = { uri: 'sftp://refusing/', pattern: '*', recursive: true, exclude: [] };
    const endpoints = await listEndpoints(sql);
    const found: Found[] = [];
    const stop = AbortSignal.timeout(20_000);
    const files = findFiles(
      { sql, vault },
      endpoints,
      'acc_default',
      { ...folder, retries: true },
      null,
      stop,
    );
    for await (const one of files) found.push(one);
    return found;
  }

  test('gets no sign-in of a listing during the pause, which lasts longer and longer', async () => {
    const { sql } = installation;
    await configure('wrong again');
    const rejected = [{ path: '', error: REJECTED }];
    expect(await listInBackground()).toEqual(rejected);
    expect(await listInBackground()).toEqual(rejected);
    await failTen();
    expect(tried()).toEqual(['wrong again']);
    // It has been rejected for five minutes, the last time almost five minutes ago.
    await sql`update work.sign_in_holds set since = now() - interval '10 minutes',
                                            until = now() - interval '239 seconds'`;
    expect(await listInBackground()).toEqual(rejected);
    expect(tried()).toEqual(['wrong again']);
    await sql`update work.sign_in_holds set until = now() - interval '271 seconds'`;
    expect(await listInBackground()).toEqual(rejected);
    expect(tried()).toEqual(['wrong again', 'wrong again']);
    await sql`update work.sign_in_holds set since = now() - interval '9 days',
                                            until = now() - interval '841 seconds'`;
    expect(await listInBackground()).toEqual(rejected);
    expect(tried()).toHaveLength(3);
  });

  test('says why a folder is not listed whose credentials are lost', async () => {
    await configure('lost');
    const { credentials_record } = await endpointOf('refusing');
    await installation.sql`delete from work.vault where id = ${credentials_record}`;
    const message = expect.stringMatching(/no longer has the credentials/);
    expect(await listInBackground()).toEqual([
      { path: '', error: { code: 'auth_failed', message } },
    ]);
  });
});
