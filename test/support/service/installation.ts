import { randomBytes } from 'node:crypto';
import pino from 'pino';
import { createTransfer } from '../../../src/commands/create-transfer.ts';
import { saveEndpoint } from '../../../src/commands/save-endpoint.ts';
import { parseConfig } from '../../../src/config.ts';
import { endpointRequest } from '../../../src/contract/endpoints/requests.ts';
import { transferRequest } from '../../../src/contract/transfers/requests.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import { transferDecider } from '../../../src/domain/transfers/decider.ts';
import type { Transfer } from '../../../src/domain/transfers/transfer.ts';
import { type Installation, openInstallation } from '../../../src/installation.ts';
import type { SftpServer } from '../file-servers/sftp/server.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/test-database.ts';
import { NO_LOG } from '../run/global-setup.ts';
import { createPauses } from './pauses.ts';

export const CAUSE = { actor: 'test', correlationId: 'test' };

export interface TestInstallation extends Installation {
  /** What another process needs to open the same installation. */
  environment: Record<string, string>;
}

/**
 * An installation on its own database. `close` drops the database too. Its read models are clones:
 * creating them takes a hundred statements.
 */
export async function openTestInstallation(
  settings: Record<string, string> = {},
): Promise<TestInstallation> {
  const database: TestDatabase = await createTestDatabase('prepared');
  const environment = {
    DATABASE_URL: database.url,
    WAYBILL_MASTER_KEY: randomBytes(32).toString('base64'),
    WAYBILL_PORT: '0',
    WAYBILL_LOG_LEVEL: 'silent',
    ...settings,
  };
  const config = parseConfig(environment);
  const installation = await openInstallation(
    config,
    pino({ level: process.env.TEST_LOG_LEVEL ?? 'silent' }),
  );
  const { sql, logId } = installation;
  await sql`update read.checkpoints set log_id = ${logId} where log_id = ${NO_LOG}`;
  return {
    ...installation,
    environment,
    async close() {
      await installation.close();
      await database.drop();
    },
  };
}

/** Configures an endpoint for a test server, with sign-in by key. `changes` override that. */
export async function configureSftp(
  installation: Installation,
  name: string,
  server: SftpServer,
  changes: Record<string, unknown> = {},
): Promise<string> {
  const { host, port, username, privateKey, hostKeySha256, root } = server;
  return configureEndpoint(installation, {
    name,
    protocol: 'sftp',
    host,
    port,
    base_path: root,
    username,
    private_key: 'password' in changes ? undefined : privateKey,
    host_key_sha256: hostKeySha256,
    ...changes,
  });
}

/** Configures an endpoint from a request, and returns its id. */
export async function configureEndpoint(
  installation: Installation,
  request: Record<string, unknown>,
): Promise<string> {
  return (await saveEndpoint(installation.commands, endpointRequest.parse(request), CAUSE))
    .endpointId;
}

/** Creates a transfer and returns its id. */
export async function submit(
  installation: Installation,
  source: string,
  destination: string,
  more: Record<string, unknown> = {},
): Promise<string> {
  const request = transferRequest.parse({
    source_uri: source,
    destination_uri: destination,
    ...more,
  });
  const { state } = await createTransfer(installation.commands, 'acc_default', request, CAUSE);
  return state.facts.transfer_id;
}

/** The state of a transfer, folded from the log. */
export async function transferInLog(installation: Installation, id: string): Promise<Transfer> {
  const events = await installation.store.read(streamName('transfer', id));
  return events.reduce(transferDecider.evolve, transferDecider.initialState()) as Transfer;
}

/**
 * Waits until the log has this status for a transfer. Fails after `seconds`, with the actual
 * status.
 */
export async function untilStatus<S extends Transfer['status']>(
  installation: Installation,
  id: string,
  status: S | readonly S[],
  seconds = 60,
): Promise<Extract<Transfer, { status: S }>> {
  const wanted: readonly string[] = typeof status === 'string' ? [status] : status;
  const pause = createPauses();
  for (const deadline = Date.now() + seconds * 1_000; ; await pause()) {
    const found = await transferInLog(installation, id);
    if (wanted.includes(found.status)) return found as Extract<Transfer, { status: S }>;
    if (Date.now() > deadline)
      throw new Error(
        `${id} is ${found.status}, not ${wanted.join(' or ')}: ${JSON.stringify(found)}`,
      );
  }
}
