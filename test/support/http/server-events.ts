import { expect } from 'vitest';

export interface ServerEvents<Data> {
  events: { event: string; data: Data }[];
  /** Lines that only show that the stream is alive. */
  comments: string[];
  /** Settles when the server ends the stream in good order, or after `leave`. */
  ended: Promise<void>;
  leave(): void;
}

/** Reads server-sent events over a new connection as they arrive. */
export async function follow<Data>(url: string, key: string): Promise<ServerEvents<Data>> {
  const leaving = new AbortController();
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${key}` },
    signal: leaving.signal,
  });
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/event-stream; charset=utf-8',
  ]);
  const events: ServerEvents<Data>['events'] = [];
  const comments: string[] = [];
  const read = async () => {
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of response.body as ReadableStream<Uint8Array>) {
      const frames = (text + decoder.decode(chunk, { stream: true })).split('\n\n');
      text = frames.pop() as string;
      for (const frame of frames) {
        const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(frame) ?? [];
        if (event && data) events.push({ event, data: JSON.parse(data) });
        else comments.push(frame);
      }
    }
    expect(text).toBe('');
  };
  const ended = read().catch((error: unknown) => {
    if (!leaving.signal.aborted) throw error;
  });
  return { events, comments, ended, leave: () => leaving.abort() };
}
