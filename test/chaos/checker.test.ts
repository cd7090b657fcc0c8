import { execFile } from 'node:child_process';
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LONG, longUnless } from '../support/run/long.ts';
import { describeTransfers } from '../support/service/transfers.ts';
import { canonical } from './checker/canonical.ts';
import { check } from './checker/check.ts';
import type { Evidence } from './checker/evidence-files.ts';
import type { CheckResult } from './evidence.ts';
import { keepTables } from './self-test/damage.ts';
import { write } from './self-test/evidence.ts';
import { FILE_DAMAGES } from './self-test/files.ts';
import { LOG_DAMAGES } from './self-test/log.ts';
import { REQUEST_DAMAGES } from './self-test/requests.ts';
import { SHOWN_DAMAGES } from './self-test/shown.ts';
import { type SmallRun, startSmallRun } from './self-test/small-run.ts';
import { WEBHOOK_DAMAGES } from './self-test/webhooks.ts';

const DAMAGES = [LOG_DAMAGES, REQUEST_DAMAGES, FILE_DAMAGES, SHOWN_DAMAGES, WEBHOOK_DAMAGES];
/** How many of each kind `npm test` takes. */
const SHORT = 3;

it('shares no code with the service', () => {
  const files = globSync('**/*.ts', { cwd: join(import.meta.dirname, 'checker') });
  expect(files.length).toBeGreaterThan(20);
  for (const name of [...files.map((file) => `checker/${file}`), 'evidence.ts']) {
    const text = readFileSync(join(import.meta.dirname, name), 'utf8');
    const imported = [...text.matchAll(/(?:from|import|import\()\s*'([^']+)'/g)].map(
      ([, from]) => from as string,
    );
    const outside = imported.filter(
      (from) => from.startsWith('.') && !isWithin(join(import.meta.dirname, name, '..', from)),
    );
    expect({ name, outside }).toEqual({ name, outside: [] });
  }
});

it('canonicalizes as RFC 8785 does', () => {
  // The example of section 3.2.2.
  const value = JSON.parse(String.raw`{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  }`);
  const expected = String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`;
  expect(canonical(value)).toBe(expected);
  expect(canonical({ '\u{1f600}': 1, '\ufb33': 2, '\u20ac': 3 })).toBe(
    '{"\u20ac":3,"\u{1f600}":1,"\ufb33":2}',
  );
});

await describeTransfers('the checker of a chaos run', () => {
  let run: SmallRun;
  let tables: { restore(): Promise<void> };
  beforeAll(async () => {
    run = await startSmallRun();
    tables = await keepTables(run.installation.sql);
  });
  afterAll(() => run?.close());

  it('finds nothing wrong with a sound run, and compares everything', async () => {
    const { findings, figures } = await checked(run.evidence);
    expect(findings).toEqual([]);
    const all = {
      transfers: 15,
      retries: 1,
      creates: 13,
      outcomes: 15,
      cancels: 1,
      transfer_rows: 15,
      catalog_rows: 13,
      files: 10,
      files_after: 2,
      batch_transfers: 3,
      batch_items: 2,
      batch_ends: 2,
      flow_files: 1,
      flow_versions: 1,
      placed_files: 1,
    };
    expect(figures).toMatchObject({
      ...all,
      storages: 3,
      api_totals: 7,
      api_list_items: 15,
      api_details: 15,
      exits: 1,
      idempotency_keys: 2,
    });
    expect(figures.signed_checkpoints).toBeGreaterThan(0);
    const some = [
      'events',
      'counts',
      'owed',
      'arrivals',
      'deliveries',
      'order_pairs',
      'outbox_webhooks',
      'api_events',
      'checkpoints',
    ];
    for (const figure of some)
      expect({ figure, compared: (figures[figure] ?? 0) > 3 }).toEqual({ figure, compared: true });
  });

  it('can be run alone, and exits with 1 for findings', LONG, async () => {
    const folder = write(run.evidence);
    const main = join(import.meta.dirname, 'checker/main.ts');
    writeFileSync(
      join(folder, 'processes.ndjson'),
      JSON.stringify({ ...run.evidence.exits[0], expected: false }),
    );
    await expect(promisify(execFile)(process.execPath, [main, folder])).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /^processes: mover-1: it ended [\s\S]*transfers +15\n[\s\S]*1 findings\n$/,
      ),
    });
    rmSync(folder, { recursive: true });
  });

  for (const [{ what, finds, names, ...damage }, options] of DAMAGES.flatMap((kind) =>
    kind.map((damage, place) => [damage, longUnless(place < SHORT)] as const),
  ))
    it(`detects that ${what}`, options, async () => {
      const evidence = structuredClone(run.evidence);
      damage.evidence?.(evidence, run);
      const undo = await damage.files?.(run);
      try {
        await damage.tables?.(run);
        const { findings } = await checked(evidence, finds);
        const found = findings.filter((finding) => finding.check === finds);
        const all = JSON.stringify(findings, null, 1);
        expect(
          found.some(({ subject }) => subject.includes(names(run))),
          all,
        ).toBe(true);
      } finally {
        await undo?.();
        if (damage.tables) await tables.restore();
      }
    });

  it('finds nothing wrong after every damage is undone', async () => {
    expect((await checked(run.evidence)).findings).toEqual([]);
  });
});

function isWithin(path: string): boolean {
  return (
    path.startsWith(join(import.meta.dirname, 'checker')) ||
    path === join(import.meta.dirname, 'evidence.ts')
  );
}

/** `finds`: a check. Only its group runs then. */
async function checked(evidence: Evidence, finds?: string): Promise<CheckResult> {
  const folder = write(evidence);
  try {
    return await check(folder, finds === undefined ? undefined : [finds.split('.')[0] as string]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
