import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const NODE = fileURLToPath(new URL('../../bin/node', import.meta.url));
const RUN = fileURLToPath(new URL('run.ts', import.meta.url));
const [SEED, MINUTES] = [20_260, 2];
const hasCluster = process.env.EVENTSTORE_URL?.includes(',');
const noCluster = hasCluster ? '' : ' (skipped: EVENTSTORE_URL names no cluster)';

describeWithPostgres('a chaos run', () => {
  test(`leaves no finding after ${MINUTES} minutes with the seed ${SEED}`, () =>
    runWithoutFinding('--engine', 'postgres', '--minutes', String(MINUTES)));

  test.skipIf(noCluster)(
    `leaves no finding when the leaders of an EventStoreDB cluster go${noCluster}`,
    () =>
      runWithoutFinding(
        ...['--engine', 'eventstoredb', '--minutes', '3'],
        ...['--rate', '3', '--faults', 'eventstore,process'],
      ),
  );
});

async function runWithoutFinding(...args: string[]): Promise<void> {
  const out = mkdtempSync(join(tmpdir(), 'waybill-chaos-evidence-'));
  const { code, output } = await runNode([RUN, ...args, '--seed', String(SEED), '--out', out]);
  expect(code, `evidence in ${out}\n${output}`).toBe(0);
  rmSync(out, { recursive: true });
}

function runNode(args: string[]): Promise<{ code: number | string | null; output: string }> {
  return new Promise((resolve) => {
    execFile(NODE, args, { maxBuffer: 64 << 20 }, (error, stdout, stderr) =>
      resolve({ code: error ? (error.code ?? error.signal ?? null) : 0, output: stdout + stderr }),
    );
  });
}
