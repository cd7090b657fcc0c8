import { createKey, revokeKey } from '../../../../src/commands/keys.ts';
import { saveEndpoint } from '../../../../src/commands/save-endpoint.ts';
import {
  admitTransfer,
  cancelTransfer,
  endAttempt,
  loadTransfer,
  startTransfer,
} from '../../../../src/commands/transfers.ts';
import { registerWebhook, updateWebhook } from '../../../../src/commands/webhooks.ts';
import { endpointRequest } from '../../../../src/contract/endpoints/requests.ts';
import { keyRequest } from '../../../../src/contract/keys.ts';
import { streamName } from '../../../../src/domain/events/streams.ts';
import { FIGURES, VERIFICATION } from '../../../support/domain/samples.ts';
import { CAUSE, submit, type TestInstallation } from '../../../support/service/installation.ts';

/** The streams of the small log, by what they are. */
export interface SmallLog {
  claim: string;
  endpoint: string;
  key: string;
  webhook: string;
  completed: string;
  failed: string;
  cancelled: string;
  open: string;
}

const ENDPOINT = {
  ...{ name: 'archive', protocol: 's3', bucket: 'archive' },
  ...{ access_key_id: 'id', secret_access_key: 'secret' },
};

/** Writes a log with a stream of every kind, and transfers that ended in every way. */
export async function writeSmallLog(installation: TestInstallation): Promise<SmallLog> {
  const { commands } = installation;
  const { endpointId } = await saveEndpoint(commands, endpointRequest.parse(ENDPOINT), CAUSE);
  const request = { name: 'k', scopes: ['admin'], account: 'acc_default', expires_in: '1h' };
  const key = await createKey(commands, keyRequest.parse(request), CAUSE, { allowNever: false });
  const [completed, failed, cancelled, open] = (await Promise.all(
    ['a', 'b', 'c', 'd'].map((file) =>
      submit(installation, `sftp://from/${file}`, 's3://archive/'),
    ),
  )) as [string, string, string, string];
  const { webhook } = await registerWebhook(
    commands,
    'acc_default',
    { url: 'https://example.com/', events: ['transfer.completed'] },
    CAUSE,
  );
  for (const id of [completed, failed, open]) await admitTransfer(commands, id, CAUSE);
  for (const id of [completed, failed])
    await startTransfer(
      commands,
      id,
      { claimId: `clm_${id}`, source: null, destination: null },
      CAUSE,
    );
  const changed = { max_connections: 3 };
  await saveEndpoint(commands, endpointRequest.parse({ ...ENDPOINT, ...changed }), CAUSE);
  await endAttempt(
    commands,
    completed,
    `clm_${completed}`,
    {
      ...{ type: 'completed', sizeBytes: 2048, speedBps: 8000 },
      ...{ checksumSha256: 'ab'.repeat(32), verification: VERIFICATION },
    },
    CAUSE,
  );
  await cancelTransfer(
    commands,
    cancelled,
    CAUSE,
    await loadTransfer(commands, 'acc_default', cancelled),
  );
  await endAttempt(
    commands,
    failed,
    `clm_${failed}`,
    {
      type: 'failed',
      failure: { code: 'permission_denied', message: 'no', phase: 'write' },
      figures: FIGURES,
      retryDelays: [],
    },
    CAUSE,
  );
  await updateWebhook(commands, webhook.webhook_id, { enabled: false }, CAUSE);
  await revokeKey(commands, key.id, CAUSE);
  return {
    claim: streamName('endpoint_name', 'archive'),
    endpoint: streamName('endpoint', endpointId),
    key: streamName('key', key.id),
    webhook: streamName('webhook', webhook.webhook_id),
    completed: streamName('transfer', completed),
    failed: streamName('transfer', failed),
    cancelled: streamName('transfer', cancelled),
    open: streamName('transfer', open),
  };
}
