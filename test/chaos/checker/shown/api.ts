import { setTimeout as sleep } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { request } from 'undici';

/** How long requests may wait for the rate limit in total. */
const PATIENCE_MS = 70_000;

/** The API as a client sees it. */
export interface Api {
  /**
   * Returns the body of a 200; throws for any other answer. Waits if the rate limit requires it.
   */
  get<T>(path: string): Promise<T>;
  /** Returns the lines of a 200. */
  lines(path: string): AsyncIterable<string>;
}

export function openApi(url: string, key: string): Api {
  const deadline = Date.now() + PATIENCE_MS;

  async function ask(path: string): Promise<Dispatcher.ResponseData> {
    for (;;) {
      const answer = await request(url + path, { headers: { authorization: `Bearer ${key}` } });
      if (answer.statusCode === 200) return answer;
      const wait = Number(answer.headers['retry-after'] ?? 1) * 1_000;
      const text = await answer.body.text();
      if (answer.statusCode !== 429 || Date.now() + wait > deadline)
        throw new Error(`GET ${path}: ${answer.statusCode} ${text}`);
      await sleep(wait);
    }
  }

  return {
    async get<T>(path: string) {
      return (await (await ask(path)).body.json()) as T;
    },
    async *lines(path) {
      const { body } = await ask(path);
      let rest = '';
      body.setEncoding('utf8');
      for await (const chunk of body) {
        const lines = (rest + String(chunk)).split('\n');
        rest = lines.pop() ?? '';
        yield* lines;
      }
      if (rest !== '') yield rest;
    },
  };
}
