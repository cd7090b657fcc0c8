import { createHash, createHmac, randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../support/service/transfers.ts';
import type { WebhookReceiver } from '../../support/webhooks/receiver.ts';
import { namesIn } from '../client.ts';
import type { DeliveryRecord, RequestRecord, VersionRecord } from '../evidence.ts';

const SECRET = 'a secret of this run';

interface CreateOptions {
  from?: string;
  key?: string;
  size?: number | null;
  /** The load has no answer. */
  lost?: boolean;
  after?: object;
}

/** Sends requests as a load does, and records them. */
export function createLoad(url: string, key: string, sources: string) {
  const requests: RequestRecord[] = [];
  const webhooks: { webhookId: string; url: string; events: string[]; registeredAt: string }[] = [];

  async function ask(
    method: string,
    path: string,
    json?: unknown,
    headers: Record<string, string> = {},
  ) {
    const answer = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    });
    const text = await answer.text();
    return {
      status: answer.status,
      headers: answer.headers,
      body: text === '' ? null : JSON.parse(text),
      asked: { account: 'acc_default', names: answer.status < 400 ? namesIn(text) : [] },
    };
  }

  return {
    requests,
    webhooks,
    ask,
    async register(to: string, events: string[]): Promise<string> {
      const { body } = await ask('POST', '/v1/webhooks', { url: to, events, secret: SECRET });
      webhooks.push({ webhookId: body.id, url: to, events, registeredAt: body.created_at });
      return body.id;
    },
    /** `to`: an endpoint and a path. Creates a source for it, unless its size is null. */
    async create(
      to: string,
      {
        from = to.replaceAll('/', '-'),
        key: idempotencyKey,
        size = 1_000,
        lost = false,
        after,
      }: CreateOptions = {},
    ) {
      const [endpoint = '', ...path] = to.split('/');
      const known = requests.find(
        (request) => request.kind === 'create' && request.idempotencyKey === idempotencyKey,
      );
      const content = size === null ? null : randomBytes(size);
      if (content && !(known && idempotencyKey)) {
        mkdirSync(sources, { recursive: true });
        writeFileSync(join(sources, from), content);
      }
      const file =
        known && idempotencyKey && known.kind === 'create'
          ? known.file
          : content && digest(content);
      const sentAt = new Date().toISOString();
      const scheme = endpoint === 'cloud' ? 's3' : 'sftp';
      const { status, headers, body, asked } = await ask(
        'POST',
        '/v1/transfers',
        { source_uri: `sftp://source/${from}`, destination_uri: `${scheme}://${to}`, after },
        idempotencyKey ? { 'idempotency-key': idempotencyKey } : {},
      );
      requests.push({
        kind: 'create',
        sentAt,
        answeredAt: lost ? null : new Date().toISOString(),
        status: lost ? null : status,
        ...asked,
        idempotencyKey: idempotencyKey ?? null,
        source: { endpoint: 'source', path: `/${from}` },
        destination: { endpoint, path: `/${path.join('/')}` },
        file,
        transferId: lost ? null : body.id,
        replayed: headers.get('idempotent-replayed') === 'true',
      });
      return body.id as string;
    },
    /** Creates a batch that copies new files into a folder of `destination`, each with a marker. */
    async createBatch(folder: string, names: string[]): Promise<string> {
      const files = names.map((name) => {
        const content = randomBytes(500);
        writeFileSync(join(sources, name), content);
        return {
          source: { endpoint: 'source', path: `/${name}` },
          destination: { endpoint: 'destination', path: `/${folder}/${name}` },
          file: digest(content),
        };
      });
      const items = names.map((name) => ({
        source_uri: `sftp://source/${name}`,
        destination_uri: `sftp://destination/${folder}/`,
      }));
      const [sentAt, idempotencyKey] = [new Date().toISOString(), `batch ${folder}`];
      const { status, body, asked } = await ask(
        'POST',
        '/v1/batches',
        { items, after: { destination_marker: '.done' } },
        { 'idempotency-key': idempotencyKey },
      );
      const answered = { sentAt, answeredAt: new Date().toISOString(), status, replayed: false };
      const batchId = body.id as string;
      requests.push({
        kind: 'create_batch',
        ...answered,
        ...asked,
        idempotencyKey,
        files,
        ofFolder: false,
        batchId,
      });
      return batchId;
    },
    /** Creates a flow on a folder with one file, and runs it. */
    async createFlow(
      folder: string,
      name: string,
    ): Promise<{ id: string; version: VersionRecord }> {
      const content = randomBytes(700);
      const at = new Date().toISOString();
      mkdirSync(join(sources, folder), { recursive: true });
      writeFileSync(join(sources, folder, name), content);
      const { body } = await ask('POST', '/v1/flows', {
        name: folder,
        source: { uri: `sftp://source/${folder}/` },
        ready: { unchanged_for: '0s' },
        destination_uri: `sftp://destination/${folder}/`,
      });
      await ask('POST', `/v1/flows/${body.id}/runs`);
      const version = { at, endpoint: 'source', path: `${folder}/${name}`, ...digest(content) };
      return { id: body.id, version };
    },
    /** Retries a transfer that the load created. */
    async retry(transferId: string): Promise<string> {
      const sentAt = new Date().toISOString();
      const { status, body, asked } = await ask('POST', `/v1/transfers/${transferId}/retry`);
      const original = requests.find(
        (request) => request.kind === 'create' && request.transferId === transferId,
      ) as Extract<RequestRecord, { kind: 'create' }>;
      const answeredAt = new Date().toISOString();
      requests.push({ ...original, ...asked, sentAt, answeredAt, status, transferId: body.id });
      return body.id;
    },
    async cancel(transferId: string): Promise<void> {
      const sentAt = new Date().toISOString();
      const { status, asked } = await ask('DELETE', `/v1/transfers/${transferId}`);
      requests.push({
        kind: 'cancel',
        sentAt,
        answeredAt: new Date().toISOString(),
        status,
        ...asked,
        transferId,
      });
    },
    async ended(transferIds: string[], status = 'completed'): Promise<void> {
      for (const id of transferIds) {
        await until(
          `the end of ${id}`,
          async () => (await ask('GET', `/v1/transfers/${id}`)).body.status === status,
        );
      }
    },
  };
}

/**
 * Answers webhooks by the end of their path, and records them: `dead` never gets a 200, and `ends`
 * gets none for the first attempt of each event. Returns the records; `ids` are the webhooks by
 * their paths.
 */
export function recordDeliveries(
  receiver: WebhookReceiver,
): (ids: Record<string, string>) => DeliveryRecord[] {
  const records: (DeliveryRecord & { path: string })[] = [];
  receiver.behave(({ path, body, headers, eventId }) => {
    const again = records.some((record) => record.path === path && record.eventId === eventId);
    const status = path.endsWith('/dead') ? 500 : path.endsWith('/ends') && !again ? 503 : 200;
    const { id, type, data } = JSON.parse(body);
    records.push({
      path,
      receivedAt: new Date().toISOString(),
      webhookId: '',
      eventId: String(headers['webhook-id']),
      bodyId: id,
      type,
      transferId: data.transfer_id ?? null,
      status,
      signatureValid:
        headers['x-service-signature'] === createHmac('sha256', SECRET).update(body).digest('hex'),
      bodySha256: createHash('sha256').update(body).digest('hex'),
    });
    return status;
  });
  return (ids) =>
    records.map(({ path, ...record }) => ({
      ...record,
      webhookId: ids[path.split('/').at(-1) ?? ''] ?? path,
    }));
}

export function digest(content: Buffer): { size: number; sha256: string } {
  return { size: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}
