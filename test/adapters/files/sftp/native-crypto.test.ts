import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { cryptoInUse } from '../../../../src/adapters/files/sftp/crypto-in-use.ts';

// The garbage collector runs between turns, when no JavaScript runs: Node's own ObjectWrap crashes
// the process then.
const COLLECT = `
  const { createDecipher, CIPHER_INFO } = require('ssh2/lib/protocol/crypto.js');
  const inbound = {
    onPayload() {}, seqno: 0, decipherInfo: CIPHER_INFO['aes128-gcm@openssh.com'],
    decipherKey: Buffer.alloc(16), decipherIV: Buffer.alloc(12),
  };
  let turns = 0;
  const timer = setInterval(() => {
    for (let made = 0; made < 2000; made++) createDecipher({ inbound });
    if (++turns === 150) clearInterval(timer);
  }, 1);
`;

test('the native ciphers of closed connections can be collected at any time', (ctx) => {
  if (cryptoInUse() === 'node') return ctx.skip('ssh2 has no native crypto here');
  const { status, stderr } = spawnSync(process.execPath, ['-e', COLLECT], {
    encoding: 'utf8',
    cwd: import.meta.dirname,
  });
  expect(stderr).toBe('');
  expect(status).toBe(0);
});
