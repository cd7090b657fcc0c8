import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { tryFileLock } from '../../adapters/file-lock.ts';
import { cryptoInUse } from '../../adapters/files/sftp/crypto-in-use.ts';
import { makeFolder } from '../../adapters/make-folder.ts';
import { unusableDataFolder } from '../../adapters/postgres/embedded/cluster.ts';
import { aborted } from '../../concurrency/aborted.ts';
import {
  configureDemoEndpoints,
  createDemoTransfer,
  DEMO_FILE_BYTES,
  makeDemoFile,
  provideDemoKeys,
  startDemoServers,
  transferBody,
} from '../../dev/demo.ts';
import { type DemoState, loadDemoState, saveDemoState } from '../../dev/demo-state.ts';
import { DEFAULT_ACCOUNT } from '../../domain/account.ts';
import { DomainError } from '../../domain/errors.ts';
import { type Installation, openInstallation } from '../../installation.ts';
import { PROCESS_ROLES } from '../../process-roles.ts';
import { findTransfer } from '../../processes/live/queries.ts';
import { type Service, startService } from '../../service.ts';
import { createStartUp } from '../../start-up.ts';
import { bytes, print } from '../program/output.ts';
import { createLogger, operator, readConfig } from '../program/session.ts';
import { terminal } from '../program/terminal.ts';
import { follow } from '../transfers/watch.ts';

const PROGRAM = join(import.meta.dirname, '..', '..', '..', 'bin', 'waybill');

/**
 * Runs all roles in this process, with two demo servers and a first transfer, until the signal
 * aborts. Throws what ends the service.
 */
export async function runDemo(stop: AbortSignal): Promise<void> {
  const config = readConfig('warn');
  const folder = join(config.dataDir, 'demo');
  const lock = await makeFolder(folder)
    .then(() => tryFileLock(join(folder, 'demo.lock'), 'exclusive'))
    .catch((error) => {
      throw unusableDataFolder(config.dataDir, error);
    });
  if (!lock)
    throw new DomainError(
      'limit_reached',
      `A demo runs in ${config.dataDir} already. End it, or set WAYBILL_DATA_DIR to another ` +
        'folder.',
    );
  await using closers = new AsyncDisposableStack();
  closers.defer(() => lock.release());
  const state = await loadDemoState(folder);

  await print(
    `Starting Waybill in ${config.dataDir} (SSH crypto: ` +
      `${cryptoInUse() === 'native' ? 'native' : "Node's own, which is slower"})`,
  );
  const logger = createLogger(config);
  const startUp = createStartUp(config, logger, stop);
  closers.defer(() => startUp.close());
  await startUp.listen();
  const installation = await startUp.attempt(() => openInstallation(config, logger));
  closers.defer(() => installation.close());
  for (const server of await startDemoServers(folder, state)) closers.defer(() => server.close());
  const service = await startService(installation, PROCESS_ROLES, startUp);
  closers.defer(() => service.stop());

  const shown = demonstrate(installation, service, state, folder, stop);
  await Promise.race([shown.then(() => aborted(stop)), service.failed]);
  await print('Stopping');
}

async function demonstrate(
  installation: Installation,
  service: Service,
  state: DemoState,
  folder: string,
  stop: AbortSignal,
): Promise<void> {
  const cause = operator();
  const { tls } = installation.config;
  await configureDemoEndpoints(installation, state, cause);
  await provideDemoKeys(installation, state, cause);
  await saveDemoState(folder, state);
  const { api, console } = state.keys;
  if (!service.url || !api || !console) throw new Error('the demo has no API or no keys');
  const baseUrl = `${service.url}/v1`;

  await makeDemoFile(folder);
  await print(`\nThe first transfer: ${bytes(DEMO_FILE_BYTES)} from the hospital to the bank`);
  if (!(await isThere(installation, state.firstTransfer))) {
    state.firstTransfer = await createDemoTransfer(
      baseUrl,
      api.key,
      'invoices.zip',
      tls && (await readFile(tls.certFile, 'utf8')),
    );
    await saveDemoState(folder, state);
  }
  await follow(installation, DEFAULT_ACCOUNT, state.firstTransfer as string, { signal: stop });
  if (!stop.aborted)
    await print(
      summary(service.url, { api: api.key, console: console.key }, folder, tls?.certFile),
    );
}

/** Returns whether the first transfer exists. A failed or cancelled one does not count. */
async function isThere({ sql }: Installation, id: string | null): Promise<boolean> {
  const found = id === null ? null : await findTransfer(sql, DEFAULT_ACCOUNT, id);
  return (
    found !== null && found.transfer.status !== 'failed' && found.transfer.status !== 'cancelled'
  );
}

function summary(
  url: string,
  keys: { api: string; console: string },
  folder: string,
  certFile: string | undefined,
): string {
  return `
Base URL     ${url}/v1
Docs         ${url}/docs
Console      ${url}/console
API key      ${keys.api}
Console key  ${keys.console}
Demo files   ${join(folder, 'hospital')}
             ${join(folder, 'bank')}

Create the next transfer:

  curl -sS${certFile ? ` --cacert ${quoted(certFile)}` : ''} ${quoted(`${url}/v1/transfers`)} \\
    -H ${quoted(`Authorization: Bearer ${keys.api}`)} \\
    -H 'Content-Type: application/json' \\
    -d ${quoted(transferBody('invoices-2.zip'))}

Watch it, with the id that the answer holds:

  ${command()} transfers watch txr_...

Ctrl-C stops everything; the next start continues from there.`;
}

/** Returns the command line that runs `waybill` on this installation. */
function command(): string {
  const here = relative(process.cwd(), PROGRAM);
  const program = here.startsWith('..') ? PROGRAM : here;
  const dataDir = terminal().env.WAYBILL_DATA_DIR;
  return `${dataDir ? `WAYBILL_DATA_DIR=${quoted(dataDir)} ` : ''}${quoted(program)}`;
}

/** Quotes a text for a POSIX shell. */
function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
