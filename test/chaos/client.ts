import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, type Dispatcher, request } from 'undici';
import type { Asked, RequestRecord } from './evidence.ts';
import type { EvidenceWriter } from './writer.ts';

/** Time limit of one request, and of all its retries. */
const TIMEOUT_MS = 15_000;
const PATIENCE_MS = 120_000;
const LONGEST_PAUSE_MS = 5_000;

export interface Answer {
  status: number;
  /** Parsed JSON; null if there is none. */
  body: unknown;
  replayed: boolean;
  /** As in the evidence. */
  names: string[];
}

/** The fields of a record besides its time and answer. */
export type About = RequestRecord extends infer R
  ? R extends RequestRecord
    ? Omit<R, keyof Asked>
    : never
  : never;

export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body?: object;
  idempotencyKey?: string | null;
  accept?: string;
  /** Reads an answer that does not end for this long. */
  forMs?: number;
  /** Sends the request once, whatever the result. */
  once?: boolean;
}

export interface ChaosClient {
  /**
   * Sends a request. Retries it as a good client does: after a lost connection, 429, 5xx and
   * `idempotency_in_progress`, but never a POST without an Idempotency-Key. Records each attempt.
   * Returns null if no attempt got an answer.
   */
  send(about: About, call: Call): Promise<Answer | null>;
  /** Tries each process once until one answers. Not recorded in the evidence. */
  look(path: string): Promise<Answer | null>;
  /** Asks once what a run of a flow would do. Not recorded in the evidence. */
  dryRun(flowId: string): Promise<Answer | null>;
  /** Requests that do not have their last answer yet. */
  readonly underway: number;
  close(): Promise<void>;
}

/**
 * Creates a client of the API processes, which it uses in turn. `key` returns the current API key.
 * `account`: that of the key; null if it sees all accounts.
 */
export function createClient(
  urls: string[],
  key: () => string,
  evidence: EvidenceWriter,
  account: string | null,
): ChaosClient {
  const agent = new Agent({ connections: 64, connect: { timeout: 5_000 } });
  let turn = 0;
  let underway = 0;

  async function attempt(call: Call): Promise<Answer | null> {
    const { method, path, body, idempotencyKey, accept } = call;
    const url = `${urls[turn++ % urls.length]}/v1${path}`;
    const headers = {
      authorization: `Bearer ${key()}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
      ...(idempotencyKey ? { 'idempotency-key': idempotencyKey } : {}),
      ...(accept ? { accept } : {}),
    };
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const answer = await request(url, {
        method,
        headers,
        dispatcher: agent,
        signal,
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      const text = await (call.forMs ? textWithin(answer.body, call.forMs) : answer.body.text());
      const replayed = answer.headers['idempotent-replayed'] === 'true';
      const names = answer.statusCode < 400 ? namesIn(text) : [];
      return { status: answer.statusCode, body: parse(text), replayed, names };
    } catch {
      return null;
    }
  }

  async function send(about: About, call: Call): Promise<Answer | null> {
    const mayRepeat = !call.once && (call.method !== 'POST' || Boolean(call.idempotencyKey));
    const deadline = Date.now() + PATIENCE_MS;
    underway++;
    try {
      for (let pause = 250; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
        const sentAt = new Date().toISOString();
        const answer = await attempt(call);
        const answeredAt = answer ? new Date().toISOString() : null;
        evidence.request({
          sentAt,
          answeredAt,
          status: answer?.status ?? null,
          account,
          names: answer?.names ?? [],
          ...completed(about, answer),
        });
        if (!mayRepeat || !isPassing(answer) || Date.now() + pause > deadline) return answer;
        await sleep(pause * (0.5 + Math.random()));
      }
    } finally {
      underway--;
    }
  }

  return {
    send,
    async look(path) {
      for (const _ of urls) {
        const answer = await attempt({ method: 'GET', path });
        if (answer && answer.status < 500) return answer;
      }
      return null;
    },
    dryRun: (flowId) =>
      attempt({ method: 'POST', path: `/flows/${flowId}/runs`, body: { dry_run: true } }),
    get underway() {
      return underway;
    },
    close: () => agent.destroy(),
  };
}

/** Returns the text that arrives within some time, and disconnects. */
async function textWithin(body: Dispatcher.ResponseData['body'], ms: number): Promise<string> {
  const timer = setTimeout(() => body.destroy(), ms);
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of body) chunks.push(chunk);
  } catch {
    // It was still sending.
  }
  clearTimeout(timer);
  return Buffer.concat(chunks).toString();
}

function completed(about: About, answer: Answer | null): About {
  if (answer?.status !== 201) return about;
  const [id, { replayed }] = [textOf(answer, 'id'), answer];
  if (about.kind === 'create') return { ...about, transferId: id, replayed };
  return about.kind === 'create_batch' || about.kind === 'retry_batch'
    ? { ...about, batchId: id, replayed }
    : about;
}

function isPassing(answer: Answer | null): boolean {
  if (answer === null || answer.status === 429 || answer.status >= 500) return true;
  return answer.status === 409 && textOf(answer, 'code') === 'idempotency_in_progress';
}

/** Returns the ids of transfers, batches, flows and webhooks in a text, each once. */
export function namesIn(text: string): string[] {
  return [...new Set(text.match(/\b(?:txr|bat|flo|whk)_[0-9A-Z]{26}\b/g))];
}

/** Returns a text from an answer's body; null if the body has none of that name. */
export function textOf(answer: Answer | null, name: string): string | null {
  const value = (answer?.body as Record<string, unknown> | null)?.[name];
  return typeof value === 'string' ? value : null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
