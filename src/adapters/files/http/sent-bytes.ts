import type { Readable } from 'node:stream';
import type { PacedRequest } from '../../../concurrency/pacer.ts';
import { addTo } from '../../../concurrency/shared-counter.ts';
import type { OpenDestination } from '../port.ts';

/** Counts the content of one request as the socket sends it, and keeps to the pace. */
export interface SentBytes {
  /** Calls `send` when the pace lets the request begin. Its tries belong to the same request. */
  whenPaced<Answer>(send: () => Promise<Answer>): Promise<Answer>;
  /** Returns the body in slices, each counted when the next one is asked for. */
  count(body: Uint8Array | Readable): AsyncGenerator<Uint8Array>;
}

// A slow line sends a slice in moments. On a fast line, the steps between slices cost nothing.
const SLICE = 256 << 10;

/**
 * Creates the count of a request with `bytes` bytes of content; undefined for a small file without
 * a limit. Send the request in `whenPaced`. A request that is sent again takes back what its first
 * try counted. Framing of the body does not count.
 */
export function sentBytes(
  { acknowledged: counter, pace }: Pick<OpenDestination, 'acknowledged' | 'pace'>,
  bytes: number,
) {
  if (!counter && !pace?.limited) return undefined;
  let counted = 0;
  let request: PacedRequest | null = null;

  async function taken(most: number): Promise<number> {
    if (!pace?.limited) return most;
    return (request ?? pace).take(most);
  }

  function raiseTo(sent: number): void {
    addTo(counter, sent - counted);
    counted = sent;
  }

  return {
    async whenPaced(send) {
      if (!pace?.limited || bytes === 0) return send();
      request = await pace.request(bytes);
      return send().finally(request.end);
    },
    async *count(body) {
      raiseTo(0);
      // The chunks of a stream stay whole until here: it would copy what it cuts.
      for await (const chunk of body instanceof Uint8Array ? [body] : body) {
        for (let start = 0; start < chunk.length; ) {
          const most = Math.min(SLICE, chunk.length - start);
          const slice = chunk.subarray(start, start + (await taken(most)));
          start += slice.length;
          yield slice;
          raiseTo(Math.min(bytes, counted + slice.length));
        }
      }
    },
  } satisfies SentBytes;
}
