import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openLog } from '../../../../src/adapters/event-store/log-id.ts';
import type { StoredEvent } from '../../../../src/domain/events/event.ts';
import { originOf } from '../../../../src/domain/proof/checkpoint.ts';
import { createFrontier } from '../../../../src/domain/proof/frontier.ts';
import { leafHash } from '../../../../src/domain/proof/hash.ts';
import { leafOf } from '../../../../src/domain/proof/leaf.ts';
import type { Check, Fault } from '../../../../src/processes/verification/fault.ts';
import type { KeptCheckpoint } from '../../../../src/processes/verification/kept-checkpoints.ts';
import { verifyLog } from '../../../../src/processes/verification/verify-log.ts';
import { readLog } from '../../../../src/projections/read-log.ts';
import { describeWithPostgres } from '../../../support/postgres/test-database.ts';
import { createEditor } from './editor.ts';
import { openEmbedded, openEventStoreDb, type Tampered } from './engines.ts';
import { MUTATIONS } from './mutations.ts';
import { type SmallLog, writeSmallLog } from './small-log.ts';

const ENGINES = { embedded: openEmbedded, eventstoredb: openEventStoreDb };
type Engine = keyof typeof ENGINES;

/** The checks that found each change, on each engine. */
const FOUND = new Map<string, Record<Engine, Set<Check>>>(
  MUTATIONS.map(({ change }) => [change, { embedded: new Set(), eventstoredb: new Set() }]),
);

/** Returns what finds a change if no checkpoint was kept. */
function inWords(checks: Set<Check>): string {
  if (checks.has('stream') || checks.has('positions')) return 'the log';
  return checks.has('api') ? 'the API' : 'no';
}

const textOf = (event: StoredEvent) => leafOf(event);
const nameOf = ({ stream, revision }: { stream: string | null; revision: number | null }) =>
  `${stream} ${revision}`;

describeWithPostgres('a log that was changed', () => {
  describe.each(Object.keys(ENGINES) as Engine[])('%s', (engine) => {
    let tampered: Tampered;
    let original: StoredEvent[];
    let name: SmallLog;
    let checkpoints: KeptCheckpoint[];

    beforeAll(async () => {
      tampered = await ENGINES[engine]();
      const { installation } = tampered;
      name = await writeSmallLog(installation);
      for (const projection of ['transfers', 'proof'] as const)
        await installation.commands.catchUp(projection);
      original = [];
      for await (const { events } of readLog(installation.store, { from: null }))
        original.push(...events);
      checkpoints = [5, original.length].map((size) => checkpointAt(size));
    });
    afterAll(() => tampered?.close());

    function checkpointAt(size: number): KeptCheckpoint {
      const tree = createFrontier();
      for (const event of original.slice(0, size)) tree.append(leafHash(leafOf(event)));
      const origin = originOf(tampered.installation.logId);
      return { source: `${size}.txt`, origin, size, root: tree.root() };
    }

    async function verify(kept: KeptCheckpoint[]): Promise<Fault[]> {
      const { patient, logId: ofTables } = tampered.installation;
      const store = tampered.openStore();
      onTestFinished(() => store.close());
      const faults: Fault[] = [];
      const logId = await openLog(store, async () => ({ logId: ofTables, engine: null })).catch(
        () => ofTables,
      );
      const verdict = await verifyLog(
        { store, sql: patient, logId, comparesApi: true, comparesTree: true },
        {
          checkpoints: kept,
          resume: null,
          report: async (fault) => void faults.push(fault),
          onProgress: () => undefined,
          save: async () => undefined,
        },
      );
      expect(verdict.faults).toBe(faults.length);
      return faults;
    }

    it('has no fault before', async () => {
      expect(await verify(checkpoints)).toEqual([]);
    });

    it.each(MUTATIONS)('shows $change', async ({ change, apply }) => {
      const editor = createEditor(original, name);
      apply(editor);
      const changed = editor.log as unknown as StoredEvent[];
      const head = (editor.isClosed() ? changed : original).at(-1)?.position as bigint;
      await tampered.replaceLog(changed, head);
      const faults = await verify(checkpoints);

      const found = FOUND.get(change)?.[engine] as Set<Check>;
      for (const { check } of faults) found.add(check);
      expect(found).toContain('checkpoint');

      const signed = faults.filter(({ check, stream }) => check === 'checkpoint' && stream);
      const [before, after] = [original, changed].map((log) => new Set(log.map(textOf)));
      const gone = original.filter((event) => !after?.has(textOf(event)));
      for (const event of gone)
        expect(signed.map(nameOf), `${event.type} ${event.revision}`).toContain(nameOf(event));
      const strange = changed.filter((event) => !before?.has(textOf(event)));
      const known = new Set([...gone, ...strange].map(nameOf));
      // Only an order can have changed where every event is still there.
      if (known.size > 0)
        expect(signed.map(nameOf).filter((place) => !known.has(place))).toEqual([]);
      else expect(signed).not.toEqual([]);
    });
  });

  it('is found as the table in docs/auditors.md says', () => {
    const guide = readFileSync(join(import.meta.dirname, '../../../../docs/auditors.md'), 'utf8');
    const [, table] = /\| Change \|.*\n\|[-|]+\n((?:\|.*\n)+)/.exec(guide) ?? [];
    const rows = [...FOUND].map(
      ([change, { embedded, eventstoredb }]) =>
        `| ${change} | ${inWords(embedded)} | ${inWords(eventstoredb)} |\n`,
    );
    expect(table).toBe(rows.join(''));
  });
});
