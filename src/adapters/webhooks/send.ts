import { isIP, type LookupFunction } from 'node:net';
import { performance } from 'node:perf_hooks';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, errors } from 'undici';
import { isAllowedAddress, isInRanges } from './addresses.ts';
import { inWords, RefusedAddress } from './failures.ts';
import { createHostResolver, type ResolveHost } from './resolve.ts';

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
  /** Posts once; follows no redirect. Resolves whatever happens, unless the sender is closed meanwhile: then it rejects. */
  send(request: WebhookRequest): Promise<Outcome>;
  /** Closes all connections, at once. */
  close(): Promise<void>;
}

export interface SenderOptions {
  /** Private ranges that webhooks may go to, without TLS too. */
  allowedCidrs: readonly string[];
  resolve?: ResolveHost;
  /** For all of an attempt, its connection included; 10 s by default, as section 6.3 of the interface specification says. */
  withinMs?: number;
}

/** Sends webhooks, over connections that are kept for a while. An address is judged whenever it is dialled. */
export function createWebhookSender({
  allowedCidrs,
  resolve = createHostResolver(),
  withinMs = ALL_WITHIN_MS,
}: SenderOptions): WebhookSender {
  const agent = new Agent({ connect: createConnector(allowedCidrs, resolve, withinMs), allowH2: false, pipelining: 1 });
  let closed = false;

  function send({ url, headers, body }: WebhookRequest): Promise<Outcome> {
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
    const began = performance.now();
    const durationMs = () => Math.round(performance.now() - began);
    const { origin, pathname, search } = new URL(url);
    let answer: Answer | null = null;
    let connected = false;
    let settled = false;
    let cut = (): void => {};

    /** What may yet come is never read, and its connection is closed. */
    function end(outcome: Outcome): void {
      settled = true;
      clearTimeout(timer);
      cut();
      resolve(outcome);
    }
    const fail = (error: string) => end({ type: 'error', durationMs: durationMs(), error });
    function timeOut(): void {
      if (connected) fail(`no answer within ${withinMs / 1_000} s: answer first, then work`);
      else fail(inWords(new errors.ConnectTimeoutError(), url));
    }
    let timer = setTimeout(timeOut, withinMs);

    // What `request` puts around this, streams and signals for each, costs as much again.
    agent.dispatch(
      {
        origin,
        path: pathname + search,
        method: 'POST',
        headers: { 'content-type': 'application/json', 'user-agent': 'Waybill', ...headers },
        body,
        // The one time limit is ours.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      {
        onRequestStart(controller) {
          connected = true;
          cut = () => controller.abort(new Error('nobody waits for it any more'));
          if (settled) cut();
        },
        onResponseStart(_, statusCode, { location }) {
          if (settled || statusCode < 200) return;
          clearTimeout(timer);
          const answered = { durationMs: durationMs(), statusCode, location, chunks: [], length: 0 };
          answer = answered;
          timer = setTimeout(() => end(outcomeOf(answered)), BODY_WITHIN_MS);
        },
        onResponseData(_, chunk) {
          if (settled || answer === null) return;
          answer.chunks.push(chunk);
          answer.length += chunk.length;
          if (answer.length >= RESPONSE_BYTES_KEPT) end(outcomeOf(answer));
        },
        onResponseEnd() {
          cut = () => {};
          if (!settled && answer !== null) end(outcomeOf(answer));
        },
        onResponseError(_, error) {
          if (settled) return;
          // The status has been given: that the rest broke off changes nothing.
          if (answer !== null) return end(outcomeOf(answer));
          if (!closed) return fail(inWords(error, url));
          clearTimeout(timer);
          reject(new Error('the sender was closed'));
        },
      },
    );
    return promise;
  }

  return {
    send,
    close() {
      closed = true;
      return agent.destroy();
    },
  };
}

/** What has come of an answer whose status is known. */
interface Answer {
  durationMs: number;
  statusCode: number;
  location: string | string[] | undefined;
  chunks: Buffer[];
  length: number;
}

function outcomeOf({ durationMs, statusCode, location, chunks }: Answer): Outcome {
  // What Postgres can't hold in a text is shown as what can't be read.
  const responseBody = Buffer.concat(chunks).subarray(0, RESPONSE_BYTES_KEPT).toString().replaceAll('\0', '\ufffd');
  const answered = { durationMs, statusCode, responseBody };
  if (statusCode >= 200 && statusCode < 300) return { type: 'delivered', ...answered };
  if (statusCode < 400 && typeof location === 'string') {
    const error = `answered ${statusCode}, a redirect to ${location.slice(0, 500)}: redirects are not followed, register the address itself`;
    return { type: 'refused', ...answered, error };
  }
  return { type: 'refused', ...answered, error: `answered ${statusCode}: only 200 to 299 say that it has arrived` };
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
