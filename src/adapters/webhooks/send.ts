import { lookup as systemLookup } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { performance } from 'node:perf_hooks';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import { isAllowedAddress, isInRanges } from './addresses.ts';
import { inWords, RefusedAddress } from './failures.ts';

const ALL_WITHIN_MS = 10_000;
const RESPONSE_BYTES_KEPT = 4_096;
/** The status decides: what else a receiver says is taken along where it comes at once. */
const BODY_WITHIN_MS = 250;

/** How an attempt ended. `durationMs`: until the status was known, or the attempt was given up. */
export type Outcome = { durationMs: number } & (
  | { type: 'delivered'; statusCode: number; responseBody: string }
  | { type: 'refused'; statusCode: number; responseBody: string; error: string }
  /** No answer. `error` says why, and what to do about it. */
  | { type: 'error'; error: string }
);

export interface WebhookRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
}

export interface WebhookSender {
  /** Posts once; follows no redirect. Resolves whatever happens, unless `signal` aborts: then it rejects with its reason. */
  send(request: WebhookRequest, signal: AbortSignal): Promise<Outcome>;
  /** Closes all connections, at once. */
  close(): Promise<void>;
}

/** Every address of a host name. Rejects as `dns.lookup` does. */
export type ResolveHost = (hostname: string) => Promise<{ address: string; family: number }[]>;

export interface SenderOptions {
  /** Private ranges that webhooks may go to, without TLS too. */
  allowedCidrs: readonly string[];
  resolve?: ResolveHost;
  /** For all of an attempt, its connection included; 10 s by default, as section 6.3 of the interface specification says. */
  withinMs?: number;
}

/** Sends webhooks, over connections that are kept for a while. An address is judged whenever it is dialled. */
export function createWebhookSender({ allowedCidrs, resolve = resolveBySystem, withinMs = ALL_WITHIN_MS }: SenderOptions): WebhookSender {
  const agent = new Agent({ connect: createConnector(allowedCidrs, resolve, withinMs), allowH2: false, pipelining: 1 });

  async function send({ url, headers, body }: WebhookRequest, signal: AbortSignal): Promise<Outcome> {
    const began = performance.now();
    const durationMs = () => Math.round(performance.now() - began);
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), withinMs);
    try {
      const { origin, pathname, search } = new URL(url);
      const response = await agent.request({
        origin,
        path: pathname + search,
        method: 'POST',
        headers: { 'content-type': 'application/json', 'user-agent': 'Waybill', ...headers },
        body,
        signal: AbortSignal.any([signal, timeout.signal]),
        // The one time limit is ours.
        headersTimeout: 0,
        bodyTimeout: 0,
      });
      const answered = { durationMs: durationMs(), statusCode: response.statusCode };
      return { ...answered, ...judge(answered.statusCode, response), responseBody: await startOf(response.body) };
    } catch (error) {
      signal.throwIfAborted();
      const words = timeout.signal.aborted ? `no answer within ${withinMs / 1_000} s: answer first, then work` : inWords(error, url);
      return { type: 'error', durationMs: durationMs(), error: words };
    } finally {
      clearTimeout(timer);
    }
  }

  return { send, close: () => agent.destroy() };
}

function judge(status: number, { headers }: Dispatcher.ResponseData): { type: 'delivered' } | { type: 'refused'; error: string } {
  if (status >= 200 && status < 300) return { type: 'delivered' };
  const { location } = headers;
  if (status < 400 && typeof location === 'string') {
    return {
      type: 'refused',
      error: `answered ${status}, a redirect to ${location.slice(0, 500)}: redirects are not followed, register the address itself`,
    };
  }
  return { type: 'refused', error: `answered ${status}: only 200 to 299 say that it has arrived` };
}

/** What has come of a body when it ends, when enough has come, or when a moment has passed. The rest is never read. */
async function startOf(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  // Ends the connection too, where anything is left to come on it.
  const timer = setTimeout(() => body.destroy(), BODY_WITHIN_MS);
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= RESPONSE_BYTES_KEPT) break;
    }
  } catch {
    // The status has been given: that the rest broke off changes nothing.
  } finally {
    clearTimeout(timer);
  }
  // What Postgres can't hold in a text is shown as what can't be read.
  return Buffer.concat(chunks).subarray(0, RESPONSE_BYTES_KEPT).toString().replaceAll('\0', '\ufffd');
}

/**
 * Dials the addresses that it has judged: names are resolved here, at every connection, so that one that
 * changes its mind between two look-ups gains nothing. One bad address among good ones refuses the name.
 */
function createConnector(allowedCidrs: readonly string[], resolve: ResolveHost, timeout: number): buildConnector.connector {
  const connectorFor = (isAllowed: (address: string) => boolean, tls: { secureContext?: SecureContext } = {}) => {
    const lookup: LookupFunction = (hostname, options, callback) => {
      judged(hostname, isAllowed).then(
        (addresses) => {
          const [first] = addresses;
          if (options.all) callback(null, addresses);
          else callback(null, first?.address ?? '', first?.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      );
    };
    const connect = buildConnector({ ...tls, timeout, allowH2: false, lookup });
    const connectJudged: buildConnector.connector = (options, callback) => {
      const literal = options.hostname.replace(/^\[|\]$/g, '');
      if (isIP(literal) && !isAllowed(literal)) callback(new RefusedAddress(literal), null);
      else connect(options, callback);
    };
    return connectJudged;
  };

  async function judged(hostname: string, isAllowed: (address: string) => boolean) {
    const addresses = await resolve(hostname);
    const refused = addresses.find(({ address }) => !isAllowed(address));
    if (refused) throw new RefusedAddress(refused.address);
    return addresses;
  }

  let secure: buildConnector.connector | null = null;
  const plain = connectorFor((address) => isInRanges(address, allowedCidrs));
  return (options, callback) => {
    if (options.protocol !== 'https:') return plain(options, callback);
    secure ??= connectorFor((address) => isAllowedAddress(address, allowedCidrs), { secureContext: trustBySystem() });
    secure(options, callback);
  };
}

/** The authorities of Node and those of the machine, where a company adds its own. Reading hundreds of them takes 40 ms. */
function trustBySystem(): SecureContext {
  const ca = [...new Set([...getCACertificates('default'), ...getCACertificates('system')])];
  return createSecureContext({ ca, minVersion: 'TLSv1.2' });
}

function resolveBySystem(hostname: string) {
  return systemLookup(hostname, { all: true });
}
