import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { checkpointText, originOf } from '../../../src/domain/proof/checkpoint.ts';
import { signNote } from '../../../src/domain/proof/note.ts';
import { readCheckpoint } from '../../../src/processes/verification/kept-checkpoints.ts';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const LOG = 'this-log';

function note(size: number, logId = LOG): string {
  const origin = originOf(logId);
  const text = checkpointText({ origin, size, root: Buffer.alloc(32, size) });
  return signNote(text, origin, [privateKey]);
}

describe('a kept checkpoint', () => {
  const read = (source: string, text: string, keys = [publicKey]) =>
    readCheckpoint(source, text, keys, LOG);

  it('has the size that its name says', () => {
    expect(read('sink/checkpoint-000000000012.txt', note(12))).toMatchObject({ size: 12 });
    expect(read('mine.txt', note(12))).toMatchObject({ size: 12 });
    expect(read('sink/checkpoint-000000000072.txt', note(12))).toMatchObject({
      problem: 'this checkpoint signs 12 events, not the 72 of its name',
    });
  });

  it.each(['', 'waybill', '\0'.repeat(200)])('is damaged if its file has only %j', (text) => {
    const problem = 'this checkpoint is damaged';
    expect(read('sink/checkpoint-000000000012.txt', text)).toMatchObject({ problem });
    expect(read('mine.txt', text)).toBe(null);
  });

  it('of another log says so, whatever keys the reader gave', () => {
    const problem = 'it is of the log waybill/other, and this is waybill/this-log';
    const another = generateKeyPairSync('ed25519').publicKey;
    expect(read('mine.txt', note(12, 'other'), [another])).toMatchObject({ problem });
    expect(read('mine.txt', note(12), [another])).toMatchObject({
      problem: expect.stringMatching(/names the key \w{8}, and you gave \w{8}$/),
    });
  });
});
