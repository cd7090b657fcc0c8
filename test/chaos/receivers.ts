import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { DeliveryRecord } from './evidence.ts';
import { RECEIVERS, type ReceiverName } from './plan.ts';
import { type Random, randomFrom } from './random.ts';
import type { EvidenceWriter } from './writer.ts';

const STANDARD_SECRET_PREFIX = 'whsec_';

/** Its reaction to one request: an answer with a status, or none. */
type Answer = number | 'hang' | 'reset';

/** Each receiver's behaviour during the whole load. */
const HABITS: Record<ReceiverName, (random: Random) => Answer> = {
  'receiver-1': () => 200,
  'receiver-2': (random) => (random.chance(0.1) ? 500 : 200),
  'receiver-3': (random) => (random.chance(0.02) ? 'hang' : random.chance(0.03) ? 'reset' : 204),
  'receiver-4': () => 202,
};

/** One registration. Its deliveries arrive under its own path. */
export interface Subscription {
  url: string;
  /** Another address of the same receiver, for a webhook that moves. */
  nextUrl(): string;
  /** Deliveries may be signed with it from now on. */
  accept(secret: string): void;
  /** Names the webhook once the service has named it. Earlier deliveries are recorded then. */
  registered(webhookId: string): void;
}

export interface Receivers {
  subscribe(receiver: ReceiverName): Subscription;
  /** Replaces its habit from now on; null restores the habit. */
  behave(receiver: ReceiverName, answer: Answer | null): void;
  /** All receivers answer 200 from now on. */
  heal(): void;
  close(): Promise<void>;
}

export async function startReceivers(seed: number, evidence: EvidenceWriter): Promise<Receivers> {
  const random = randomFrom(seed, 'receivers');
  const behaviours = new Map<ReceiverName, Answer>();
  const subscriptions = new Map<
    string,
    { webhookId: string | null; secrets: string[]; waiting: DeliveryRecord[] }
  >();
  let healed = false;
  const servers = await Promise.all(
    RECEIVERS.map(async (name) => ({ name, ...(await listen(name)) })),
  );

  async function listen(name: ReceiverName) {
    const server = createServer((request, response) => {
      void receive(name, request, response).catch(() => response.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return { server, port: (server.address() as AddressInfo).port };
  }

  async function receive(
    name: ReceiverName,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const subscription = subscriptions.get(request.url?.split('/')[1] ?? '');
    if (!subscription) {
      response.writeHead(404).end();
      return;
    }
    const answer = behaviours.get(name) ?? (healed ? 200 : HABITS[name](random));
    const record: DeliveryRecord = {
      receivedAt: new Date().toISOString(),
      webhookId: subscription.webhookId ?? '',
      eventId: String(request.headers['webhook-id'] ?? ''),
      ...described(body),
      status: typeof answer === 'number' ? answer : null,
      signatureValid: isSigned(body, request.headers, subscription.secrets),
      bodySha256: createHash('sha256').update(body).digest('hex'),
    };
    if (subscription.webhookId === null) subscription.waiting.push(record);
    else evidence.delivery(record);
    if (answer === 'hang') return;
    if (answer === 'reset') request.socket.resetAndDestroy();
    else response.writeHead(answer).end();
  }

  return {
    subscribe(receiver) {
      const port = servers.find(({ name }) => name === receiver)?.port;
      const key = `s${subscriptions.size + 1}`;
      const subscription = {
        webhookId: null as string | null,
        secrets: [] as string[],
        waiting: [] as DeliveryRecord[],
      };
      subscriptions.set(key, subscription);
      let moves = 0;
      return {
        url: `http://127.0.0.1:${port}/${key}/0`,
        nextUrl: () => `http://127.0.0.1:${port}/${key}/${++moves}`,
        accept: (secret) => subscription.secrets.push(secret),
        registered(webhookId) {
          subscription.webhookId = webhookId;
          for (const record of subscription.waiting.splice(0))
            evidence.delivery({ ...record, webhookId });
        },
      };
    },
    behave(receiver, answer) {
      if (answer === null) behaviours.delete(receiver);
      else behaviours.set(receiver, answer);
    },
    heal() {
      behaviours.clear();
      healed = true;
    },
    async close() {
      for (const { server } of servers) {
        server.close();
        server.closeAllConnections();
      }
    },
  };
}

function described(body: Buffer): Pick<DeliveryRecord, 'bodyId' | 'type' | 'transferId'> {
  try {
    const { id, type, data } = JSON.parse(body.toString()) as {
      id: string;
      type: string;
      data: { transfer_id?: string };
    };
    return { bodyId: String(id), type: String(type), transferId: data.transfer_id ?? null };
  } catch {
    return { bodyId: '', type: '', transferId: null };
  }
}

/** True if both signatures are right: that of the service and one of those of Standard Webhooks. */
function isSigned(body: Buffer, headers: IncomingHttpHeaders, secrets: string[]): boolean {
  const header = (name: string) => String(headers[name] ?? '');
  const signed = `${header('webhook-id')}.${header('webhook-timestamp')}.`;
  const standard = new Set(header('webhook-signature').split(' '));
  return (
    secrets.some((secret) => {
      const expected = createHmac('sha256', secret).update(body).digest('hex');
      return header('x-service-signature') === expected;
    }) &&
    secrets.some((secret) => {
      const hmac = createHmac('sha256', standardKey(secret)).update(signed).update(body);
      return standard.has(`v1,${hmac.digest('base64')}`);
    })
  );
}

function standardKey(secret: string): string | Buffer {
  if (!secret.startsWith(STANDARD_SECRET_PREFIX)) return secret;
  return Buffer.from(secret.slice(STANDARD_SECRET_PREFIX.length), 'base64');
}
