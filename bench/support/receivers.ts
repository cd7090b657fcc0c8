import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import type { Arrival, Question } from './receivers-process.ts';

export interface Receivers {
  urls: string[];
  /** What has arrived since this was asked last. */
  arrivals(): Promise<Arrival[]>;
  /** How much has. */
  count(): Promise<number>;
  /** From now on this one never answers; null for none. What waits for an answer gets it. */
  hang(receiver: number | null): Promise<void>;
}

/** Starts receivers of webhooks, all in one process of their own. */
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
  };
}
