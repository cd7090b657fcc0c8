import { aborted } from '../../concurrency/aborted.ts';
import { openInstallation } from '../../installation.ts';
import type { ProcessRole } from '../../process-roles.ts';
import { startService } from '../../service.ts';
import { createStartUp } from '../../start-up.ts';
import { readConfig } from '../program/session.ts';
import { stdoutLog } from '../program/stdout-log.ts';

/** Runs these roles in this process until the signal aborts. Throws what ends the service. */
export async function runService(roles: ProcessRole[], stop: AbortSignal): Promise<void> {
  const config = readConfig('info');
  const { logger, flushed } = stdoutLog(config.logLevel);
  await using closers = new AsyncDisposableStack();
  closers.defer(flushed);
  const startUp = createStartUp(config, logger, stop);
  closers.defer(() => startUp.close());
  if (roles.includes('api')) await startUp.listen();
  const installation = await startUp.attempt(() => openInstallation(config, logger));
  closers.defer(() => installation.close());
  const service = await startService(installation, roles, startUp);
  closers.defer(() => service.stop());
  closers.defer(() => logger.info('waybill stops'));
  await Promise.race([aborted(stop), service.failed]);
}
