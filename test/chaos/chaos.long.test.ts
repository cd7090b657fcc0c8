import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { describeWithPostgres } from '../support/postgres.ts';

const NODE = fileURLToPath(new URL('../../bin/node', import.meta.url));
const RUN = fileURLToPath(new URL('run.ts', import.meta.url));
const [SEED, MINUTES] = [20_260, 2];

describeWithPostgres('a chaos run', () => {
  test(`leaves no finding after ${MINUTES} minutes with the seed ${SEED}`, async () => {
    const out = mkdtempSync(join(tmpdir(), 'waybill-chaos-evidence-'));
    const args = [
      RUN,
      '--engine',
      'postgres',
      '--minutes',
      String(MINUTES),
      '--seed',
      String(SEED),
      '--out',
      out,
    ];
    const { code, output } = await runNode(args);
    expect(code, `evidence in ${out}\n${output}`).toBe(0);
    rmSync(out, { recursive: true });
  });
});

function runNode(args: string[]): Promise<{ code: number | string | null; output: string }> {
  return new Promise((resolve) => {
    execFile(NODE, args, { maxBuffer: 64 << 20 }, (error, stdout, stderr) =>
      resolve({ code: error ? (error.code ?? error.signal ?? null) : 0, output: stdout + stderr }),
    );
  });
}
