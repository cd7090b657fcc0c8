import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import type { Arrival, Question } from './receivers-process.ts';

export interface Receivers {
  urls: string[];
  /** Returns the arrivals since the last call. */
  arrivals(): Promise<Arrival[]>;
  /** Returns the number of arrivals since the last call of `arrivals`. */
  count(): Promise<number>;
  /** Makes one receiver hang, or none (null). Open requests of the one before get their answers. */
  hang(receiver: number | null): Promise<void>;
  /**
   * Makes all receivers answer 500 to one of `oneIn` requests, and every request after `answerMs`.
   */
  fail(oneIn: number, answerMs: number): Promise<void>;
}

/** Starts receivers of webhooks in one process of their own. */
export async function startReceivers(bench: Bench, count: number): Promise<Receivers> {
  const child = fork(join(import.meta.dirname, 'receivers-process.ts'), [String(count)]);
  bench.defer(() => child.disconnect());
  const [urls] = (await once(child, 'message')) as [string[]];

  async function ask<Answer>(question: Question): Promise<Answer> {
    child.send(question);
    const [answer] = await once(child, 'message');
    return answer as Answer;
  }

  return {
    urls,
    arrivals: () => ask<Arrival[]>({ type: 'arrivals' }),
    count: () => ask<number>({ type: 'count' }),
    async hang(receiver) {
      await ask({ type: 'hang', receiver });
    },
    async fail(oneIn, answerMs) {
      await ask({ type: 'fail', oneIn, answerMs });
    },
  };
}
