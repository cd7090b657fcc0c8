import type { Hash } from '../../domain/proof/hash.ts';
import { type CheckpointSink, type SentCheckpoint, SinkRefuses } from './port.ts';

const ANSWER_WITHIN_MS = 10_000;

/**
 * Creates a sink that sends checkpoints to a witness (https://c2sp.org/tlog-witness). A witness
 * remembers the last checkpoint, and takes only one that extends it. It says which one that is, so
 * nothing is kept here.
 */
export function createWitnessSink(url: string): CheckpointSink {
  const address = `${url.replace(/\/$/, '')}/add-checkpoint`;
  /** Size of the last checkpoint that the witness has. */
  let known = 0;

  async function add({ note }: SentCheckpoint, from: number, proof: Hash[]): Promise<Response> {
    const lines = proof.map((hash) => `${Buffer.from(hash).toString('base64')}\n`);
    return fetch(address, {
      method: 'POST',
      body: `old ${from}\n${lines.join('')}\n${note}`,
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
  }

  return {
    newest: async () => null,
    has: async () => true,
    async keep(checkpoint, prove) {
      // An older log was restored while this process runs. The answer of the witness tells.
      if (known > checkpoint.size) known = 0;
      let response = await add(checkpoint, known, await prove(known));
      if (response.status === 409) {
        const size = Number((await response.text()).trim());
        if (!Number.isSafeInteger(size) || size < 0)
          throw new Error('the witness answered 409 without the size that it has');
        if (size > checkpoint.size)
          throw new SinkRefuses(
            `the witness has a checkpoint over ${size} events, and the last one of the log ` +
              `covers ${checkpoint.size}`,
          );
        known = size;
        response = await add(checkpoint, known, await prove(known));
      }
      const answer = (await response.text()).slice(0, 200);
      if (response.status === 422)
        throw new SinkRefuses('the witness has a checkpoint that this one does not extend');
      if (!response.ok) throw new Error(`the witness answered ${response.status}: ${answer}`);
      known = checkpoint.size;
    },
  };
}
