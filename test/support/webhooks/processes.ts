import type { ProcessRole } from '../../../src/process-roles.ts';
import { openTestInstallation, type TestInstallation } from '../service/installation.ts';
import { type SpawnedService, spawnService } from '../service/roles.ts';
import { startWebhookReceiver, type WebhookReceiver } from './receiver.ts';

/** An installation with a webhook receiver and processes that can be killed. */
export interface WebhookProcesses {
  installation: TestInstallation;
  receiver: WebhookReceiver;
  start(roles?: readonly ProcessRole[]): Promise<SpawnedService>;
  /** Kills the running processes, and drops the database. */
  close(): Promise<void>;
}

export async function openWebhookProcesses(): Promise<WebhookProcesses> {
  const installation = await openTestInstallation({
    WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
    WAYBILL_LOG_LEVEL: 'info',
  });
  const receiver = await startWebhookReceiver();
  const services: SpawnedService[] = [];
  return {
    installation,
    receiver,
    async start(roles = ['webhooks']) {
      const service = await spawnService(installation.environment, roles);
      services.push(service);
      return service;
    },
    async close() {
      await Promise.all(services.map((service) => service.kill()));
      await receiver.close();
      await installation.close();
    },
  };
}
