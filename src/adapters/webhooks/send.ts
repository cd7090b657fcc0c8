import { isIP, type LookupFunction } from 'node:net';
import { performance } from 'node:perf_hooks';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, buildConnector, errors } from 'undici';
import { storable } from '../../domain/storable.ts';
import { shortageOf } from '../own-shortage.ts';
import { isAllowedAddress, isInRanges } from './addresses.ts';
import { explainFailure, RefusedAddress } from './failures.ts';
import { createHostResolver, type ResolveHost } from './resolve.ts';

export const ATTEMPT_WITHIN_MS = 10_000;
/** The share of an attempt that the look-up of a name may take. The rest is for the request. */
const LOOKED_UP_WITHIN = 0.9;
const RESPONSE_BYTES_KEPT = 4_096;
/** A busy connection is replaced after this time, so that a name may move to another address. */
const RENEW_AFTER_MS = 60_000;
/** The status decides the outcome. The body is kept if it arrives within this time. */
const BODY_WITHIN_MS = 250;

/** How an attempt ended. `durationMs` is the time until the status arrived or the attempt ended. */
export type SendOutcome = { durationMs: number } & (
  | { type: 'delivered'; statusCode: number; responseBody: string }
  | { type: 'refused'; statusCode: number; responseBody: string; error: string }
  /** No answer. `error` says why and what to do about it. */
  | { type: 'error'; error: string }
);

/** This process or its machine lacked something, so nothing was sent. The message says what. */
export class OwnShortage extends Error {
  override readonly name = 'OwnShortage';
}

/** `deliveryRequest` (delivery-request.ts) returns it with all headers. */
export interface DeliveryRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
}

export interface WebhookSender {
  /**
   * Posts once; follows no redirect. Resolves even after a failure of the receiver. Rejects only if
   * the sender is closed meanwhile, and with OwnShortage.
   */
  send(request: DeliveryRequest): Promise<SendOutcome>;
  /** Closes all connections at once. */
  close(): Promise<void>;
}

export interface SenderOptions {
  /** Private ranges that webhooks may go to, even without TLS. */
  allowedCidrs: readonly string[];
  resolve?: ResolveHost;
  /** Called with an address that is not allowed. The owner of the webhook does not get it. */
  onRefused?: (refused: { host: string; address: string }) => void;
  /**
   * Limit for a whole attempt, connection included; 10 s by default, as docs/receivers.md promises.
   */
  withinMs?: number;
  /** How long new requests use a connection; 1 min by default, as docs/receivers.md promises. */
  renewAfterMs?: number;
}

/**
 * Creates a sender that reuses connections for a while. It checks an address at each new
 * connection.
 */
export function createWebhookSender({
  allowedCidrs,
  resolve,
  onRefused = () => undefined,
  withinMs = ATTEMPT_WITHIN_MS,
  renewAfterMs = RENEW_AFTER_MS,
}: SenderOptions): WebhookSender {
  const agent = new Agent({
    connect: createConnector(
      allowedCidrs,
      resolve ?? createHostResolver({ withinMs: LOOKED_UP_WITHIN * withinMs }),
      withinMs,
    ),
    allowH2: false,
    pipelining: 1,
    clientTtl: renewAfterMs,
  });
  let closed = false;

  function send({ url, headers, body }: DeliveryRequest): Promise<SendOutcome> {
    const { promise, resolve, reject } = Promise.withResolvers<SendOutcome>();
    const began = performance.now();
    const durationMs = () => Math.round(performance.now() - began);
    const { origin, pathname, search } = new URL(url);
    let answer: Answer | null = null;
    let connected = false;
    let settled = false;
    let cut = (): void => {};

    /** Ends the attempt. The rest of the answer is never read, and its connection is closed. */
    function end(outcome: SendOutcome): void {
      settled = true;
      clearTimeout(timer);
      cut();
      resolve(outcome);
    }
    const fail = (error: string) => end({ type: 'error', durationMs: durationMs(), error });
    function timeOut(): void {
      if (connected) fail(`no answer within ${withinMs / 1_000} s: answer first, then work`);
      else fail(explainFailure(new errors.ConnectTimeoutError(), url));
    }
    let timer = setTimeout(timeOut, withinMs);

    // `request` of undici would wrap this in streams and signals for each call, which doubles the
    // cost.
    agent.dispatch(
      {
        origin,
        path: pathname + search,
        method: 'POST',
        headers,
        body,
        // `withinMs` is the only time limit.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      {
        onRequestStart(controller) {
          connected = true;
          cut = () => controller.abort(new Error('the attempt has ended'));
          if (settled) cut();
        },
        onResponseStart(_, statusCode, { location }) {
          if (settled || statusCode < 200) return;
          clearTimeout(timer);
          const answered = {
            durationMs: durationMs(),
            statusCode,
            location,
            chunks: [],
            length: 0,
          };
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
          // The status has arrived, so a broken body changes nothing.
          if (answer !== null) return end(outcomeOf(answer));
          if (error instanceof RefusedAddress)
            onRefused({ host: new URL(url).hostname, address: error.address });
          const shortage = shortageOf(error);
          if (!closed && shortage === null) return fail(explainFailure(error, url));
          clearTimeout(timer);
          reject(closed ? new Error('the sender was closed') : new OwnShortage(shortage ?? ''));
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

/** The answer received so far, once its status is known. */
interface Answer {
  durationMs: number;
  statusCode: number;
  location: string | string[] | undefined;
  chunks: Buffer[];
  length: number;
}

function outcomeOf({ durationMs, statusCode, location, chunks }: Answer): SendOutcome {
  const responseBody = storable(Buffer.concat(chunks).subarray(0, RESPONSE_BYTES_KEPT).toString());
  const answered = { durationMs, statusCode, responseBody };
  if (statusCode >= 200 && statusCode < 300) return { type: 'delivered', ...answered };
  if (statusCode < 400 && typeof location === 'string') {
    const target = location.slice(0, 500);
    const error =
      `answered ${statusCode}, a redirect to ${target}: ` +
      'redirects are not followed, register the final URL';
    return { type: 'refused', ...answered, error };
  }
  return {
    type: 'refused',
    ...answered,
    error: `answered ${statusCode}: only 200 to 299 confirm the delivery`,
  };
}

/**
 * Creates a connector that dials the addresses it has checked. It resolves names itself, at every
 * connection, so a name that changes between two look-ups gains nothing. One address that is not
 * allowed rejects the whole name.
 */
function createConnector(
  allowedCidrs: readonly string[],
  resolve: ResolveHost,
  timeout: number,
): buildConnector.connector {
  const connectorFor = (
    isAllowed: (address: string) => boolean,
    tls: { secureContext?: SecureContext } = {},
  ) => {
    const lookup: LookupFunction = (hostname, options, callback) => {
      checkedAddresses(hostname, isAllowed).then(
        (addresses) => {
          const [first] = addresses;
          if (options.all) callback(null, addresses);
          else callback(null, first?.address ?? '', first?.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      );
    };
    const connect = buildConnector({ ...tls, timeout, allowH2: false, lookup });
    const connectChecked: buildConnector.connector = (options, callback) => {
      const literal = options.hostname.replace(/^\[|\]$/g, '');
      if (isIP(literal) && !isAllowed(literal)) callback(new RefusedAddress(literal), null);
      else connect(options, callback);
    };
    return connectChecked;
  };

  async function checkedAddresses(hostname: string, isAllowed: (address: string) => boolean) {
    const addresses = await resolve(hostname);
    const refused = addresses.find(({ address }) => !isAllowed(address));
    if (refused) throw new RefusedAddress(refused.address);
    return addresses;
  }

  let secure: buildConnector.connector | null = null;
  const plain = connectorFor((address) => isInRanges(address, allowedCidrs));
  return (options, callback) => {
    if (options.protocol !== 'https:') return plain(options, callback);
    secure ??= connectorFor((address) => isAllowedAddress(address, allowedCidrs), {
      secureContext: trustedContext(),
    });
    secure(options, callback);
  };
}

/**
 * Trusts the authorities of Node and those of the machine, where a company adds its own. Reading
 * hundreds of them takes 40 ms.
 */
function trustedContext(): SecureContext {
  const ca = [...new Set([...getCACertificates('default'), ...getCACertificates('system')])];
  return createSecureContext({ ca, minVersion: 'TLSv1.2' });
}
