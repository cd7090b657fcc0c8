import { announceHostKeys } from '../../src/commands/endpoints.ts';
import { changeFlow } from '../../src/commands/flows.ts';
import { abortTransfer, startTransfer } from '../../src/commands/transfers.ts';
import { newId } from '../../src/domain/ids.ts';
import type { Answer, TestApi } from '../support/http/api.ts';
import { CAUSE } from '../support/service/installation.ts';

/** Operations that append no event, or one that changes nothing. */
export const NOT_TESTED = [
  // They change only what is delivered again. Each delivery may come more than once.
  'pingWebhook',
  'redeliver',
  'replayWebhook',
  'retryAllFailedDeliveries',
  'retryDelivery',
  'retryFailedDeliveries',
  // They read the log and change no state of it.
  'rebuildProjection',
  'verifyProjection',
  // The signer appends another checkpoint every minute.
  'signCheckpoint',
];

export interface Request {
  path: string;
  json?: unknown;
}

export interface Operation {
  operationId: string;
  prepare(client: Client): Promise<Request>;
  /** What the client does after the answer. */
  follow(client: Client, answer: Answer, request: Request): Promise<unknown>;
  /** The types of the events since `prepare`. */
  events: string[];
}

export interface Client {
  api: TestApi;
  /** Sends a request as an administrator. Throws if it is rejected. */
  ask(method: string, path: string, json?: unknown): Promise<Answer['body']>;
}

const source_uri = 'sftp://files.example.com/out/report.csv';
const destination_uri = 's3://archive/in/';
const TRANSFER = { source_uri, destination_uri };
const WEBHOOK = { url: 'https://receiver.example.com/', events: ['transfer.completed'] };
const HOST_KEYS = ['a', 'b'].map((letter) => `SHA256:${letter.repeat(43)}`) as [string, string];
const sftp = () => ({
  name: `sftp-${newId('req').slice(-8).toLowerCase()}`,
  protocol: 'sftp',
  host: 'files.example.com',
  username: 'me',
  host_keys: [{ sha256: HOST_KEYS[0], expires_at: null }],
});

const newTransfer = async ({ ask }: Client): Promise<string> =>
  (await ask('POST', '/v1/transfers', TRANSFER)).id;
const newFlow = async ({ ask }: Client): Promise<string> => {
  const flow = { name: newId('req'), source: { uri: 's3://archive/out/' }, destination_uri };
  return (await ask('POST', '/v1/flows', flow)).id;
};
export const newEndpoint = async ({ ask }: Client): Promise<string> =>
  (await ask('POST', '/v1/endpoints', { ...sftp(), password: 'secret-1' })).id;
const newWebhook = async ({ ask }: Client): Promise<string> =>
  (await ask('POST', '/v1/webhooks', WEBHOOK)).id;
const newKey = async ({ ask }: Client): Promise<string> =>
  (await ask('POST', '/v1/keys', { name: 'nightly', scopes: ['transfers:read'] })).id;

async function started({ api }: Client, id: string): Promise<void> {
  const { commands } = api.installation;
  const claim = { claimId: newId('clm'), source: null, destination: null };
  const { position } = await startTransfer(commands, id, claim, CAUSE);
  await commands.waitFor('transfers', position);
}
async function aborted(client: Client, id: string): Promise<void> {
  const { commands } = client.api.installation;
  await started(client, id);
  await commands.waitFor('transfers', (await abortTransfer(commands, id, CAUSE)).position);
}

/** Returns what undoes the request: a request to the thing that its answer names. */
const removing =
  (path: string) =>
  ({ ask }: Client, { body }: Answer) =>
    ask('DELETE', `${path}/${body.id}`);
/** Returns another request to the thing that the request changed. */
const after =
  (method: string, action: string, json?: unknown) =>
  ({ ask }: Client, _answer: Answer, { path }: Request) =>
    ask(method, path.replace(/\/[^/]+$/, action), json);
const nothing = async () => undefined;

export const OPERATIONS: Operation[] = [
  {
    operationId: 'createTransfer',
    prepare: async () => ({ path: '/v1/transfers', json: TRANSFER }),
    follow: removing('/v1/transfers'),
    events: ['transfer.created', 'transfer.cancelled'],
  },
  {
    operationId: 'retryTransfer',
    async prepare(client) {
      const id = await newTransfer(client);
      await client.ask('DELETE', `/v1/transfers/${id}`);
      return { path: `/v1/transfers/${id}/retry` };
    },
    follow: removing('/v1/transfers'),
    events: ['transfer.created', 'transfer.cancelled'],
  },
  {
    operationId: 'abortTransfer',
    async prepare(client) {
      const id = await newTransfer(client);
      await started(client, id);
      return { path: `/v1/transfers/${id}/abort` };
    },
    follow: after('POST', '/retry'),
    events: ['transfer.failed', 'transfer.created'],
  },
  {
    operationId: 'changeTransfers',
    prepare: async (client) => ({
      path: '/v1/transfers/bulk',
      json: { action: 'set_priority', priority: 'high', ids: [await newTransfer(client)] },
    }),
    follow: ({ ask }, _answer, { json }) =>
      ask('PATCH', `/v1/transfers/${(json as { ids: string[] }).ids[0]}`, { priority: 'low' }),
    events: ['transfer.priority_changed', 'transfer.priority_changed'],
  },
  {
    operationId: 'changeTransfers',
    prepare: async (client) => ({
      path: '/v1/transfers/bulk',
      json: { action: 'cancel', ids: [await newTransfer(client)] },
    }),
    follow: nothing,
    events: ['transfer.cancelled'],
  },
  {
    operationId: 'changeTransfers',
    async prepare(client) {
      const id = await newTransfer(client);
      await client.ask('DELETE', `/v1/transfers/${id}`);
      return { path: '/v1/transfers/bulk', json: { action: 'retry', ids: [id] } };
    },
    follow: ({ ask }, { body }) => ask('DELETE', `/v1/transfers/${body.retries[0].id}`),
    events: ['transfer.created', 'transfer.cancelled'],
  },
  {
    operationId: 'createBatch',
    prepare: async () => ({ path: '/v1/batches', json: { items: [TRANSFER] } }),
    follow: removing('/v1/batches'),
    events: [
      'batch.created',
      'batch.listed',
      'transfer.created',
      'batch.opened',
      'batch.cancelled',
      'transfer.cancelled',
    ],
  },
  {
    operationId: 'createBatch',
    prepare: async () => ({
      path: '/v1/batches',
      json: { source_uri: 's3://archive/out/', destination_uri },
    }),
    follow: removing('/v1/batches'),
    events: ['batch.created', 'batch.cancelled'],
  },
  {
    operationId: 'retryBatch',
    async prepare(client) {
      const batch = await client.ask('POST', '/v1/batches', { items: [TRANSFER] });
      await aborted(client, batch.transfer_ids[0]);
      return { path: `/v1/batches/${batch.id}/retry` };
    },
    follow: removing('/v1/batches'),
    events: ['batch.created', 'batch.cancelled'],
  },
  {
    operationId: 'createFlow',
    prepare: async () => ({
      path: '/v1/flows',
      json: { name: newId('req'), source: { uri: 's3://archive/out/' }, destination_uri },
    }),
    follow: removing('/v1/flows'),
    events: ['flow.created', 'flow.removed'],
  },
  {
    operationId: 'pauseFlow',
    prepare: async (client) => ({ path: `/v1/flows/${await newFlow(client)}/pause` }),
    follow: after('POST', '/resume'),
    events: ['flow.paused', 'flow.resumed'],
  },
  {
    operationId: 'resumeFlow',
    async prepare(client) {
      const id = await newFlow(client);
      await client.ask('POST', `/v1/flows/${id}/pause`);
      return { path: `/v1/flows/${id}/resume` };
    },
    follow: after('POST', '/pause'),
    events: ['flow.resumed', 'flow.paused'],
  },
  {
    operationId: 'runFlow',
    prepare: async (client) => ({ path: `/v1/flows/${await newFlow(client)}/runs`, json: {} }),
    follow({ api }, { body }, { path }) {
      const ended = {
        type: 'note_listing',
        error: null,
        run_id: body.id,
        now: new Date().toISOString(),
      } as const;
      return changeFlow(api.installation.commands, path.split('/')[3] as string, ended, CAUSE);
    },
    events: ['flow.run_requested', 'flow.run_empty'],
  },
  {
    operationId: 'createEndpoint',
    prepare: async () => ({ path: '/v1/endpoints', json: { ...sftp(), password: 'secret-1' } }),
    follow: removing('/v1/endpoints'),
    events: ['endpoint_name.claimed', 'endpoint.configured', 'endpoint.removed'],
  },
  {
    operationId: 'pauseEndpoint',
    prepare: async (client) => ({ path: `/v1/endpoints/${await newEndpoint(client)}/pause` }),
    follow: after('POST', '/resume'),
    events: ['endpoint.paused', 'endpoint.resumed'],
  },
  {
    operationId: 'resumeEndpoint',
    async prepare(client) {
      const id = await newEndpoint(client);
      await client.ask('POST', `/v1/endpoints/${id}/pause`);
      return { path: `/v1/endpoints/${id}/resume` };
    },
    follow: after('POST', '/pause'),
    events: ['endpoint.resumed', 'endpoint.paused'],
  },
  {
    operationId: 'acceptHostKey',
    async prepare(client) {
      const id = await newEndpoint(client);
      const { commands } = client.api.installation;
      const [verified_by, sha256] = HOST_KEYS;
      await announceHostKeys(commands, id, [{ sha256, key_type: 'ssh-rsa', verified_by }], CAUSE);
      await commands.catchUp('catalog');
      return { path: `/v1/endpoints/${id}/accept-host-key`, json: { host_key_sha256: sha256 } };
    },
    async follow({ ask }, { body: { id, name } }) {
      await ask('PUT', `/v1/endpoints/${id}`, { ...sftp(), name });
    },
    events: ['endpoint.updated', 'endpoint.updated'],
  },
  {
    operationId: 'createKey',
    prepare: async () => ({
      path: '/v1/keys',
      json: { name: 'nightly', scopes: ['transfers:read'] },
    }),
    follow: ({ ask }, { body }) => ask('POST', `/v1/keys/${body.id}/revoke`),
    events: ['key.created', 'key.revoked'],
  },
  {
    operationId: 'revokeKey',
    prepare: async (client) => ({ path: `/v1/keys/${await newKey(client)}/revoke` }),
    follow: nothing,
    events: ['key.revoked'],
  },
  {
    operationId: 'registerWebhook',
    prepare: async () => ({ path: '/v1/webhooks', json: WEBHOOK }),
    follow: removing('/v1/webhooks'),
    events: ['webhook.registered', 'webhook.removed'],
  },
  {
    operationId: 'rotateWebhookSecret',
    prepare: async (client) => ({
      path: `/v1/webhooks/${await newWebhook(client)}/rotate-secret`,
      json: {},
    }),
    follow: after('POST', '/rotate-secret', {}),
    events: ['webhook.secret_rotated', 'webhook.secret_rotated'],
  },
];
