import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { StoredEvent } from '../../../../src/domain/events/event.ts';
import { CHECKPOINTS } from '../../../../src/domain/events/streams.ts';
import type { CheckpointEvent } from '../../../../src/domain/proof/signed-checkpoint.ts';
import { checkpointNow } from '../../../../src/processes/proof/checkpoint-now.ts';
import type { Fault } from '../../../../src/processes/verification/fault.ts';
import { readState, writeState } from '../../../../src/processes/verification/saved-state.ts';
import {
  type VerificationOptions,
  type VerificationState,
  verifyLog,
} from '../../../../src/processes/verification/verify-log.ts';
import { readLog } from '../../../../src/projections/read-log.ts';
import { describeWithPostgres } from '../../../support/postgres/test-database.ts';
import { CAUSE, submit } from '../../../support/service/installation.ts';
import { createEditor, type Draft, type Editor } from './editor.ts';
import { openEmbedded, openEventStoreDb, type Tampered } from './engines.ts';
import { type SmallLog, writeSmallLog } from './small-log.ts';

const ENGINES = { embedded: openEmbedded, eventstoredb: openEventStoreDb };

describeWithPostgres('a log that its own checkpoints contradict', () => {
  describe.each(Object.keys(ENGINES) as (keyof typeof ENGINES)[])('%s', (engine) => {
    let tampered: Tampered;
    let original: StoredEvent[];
    let name: SmallLog;

    beforeAll(async () => {
      tampered = await ENGINES[engine]();
      const { installation } = tampered;
      name = await writeSmallLog(installation);
      await checkpointNow(installation, CAUSE);
      await submit(installation, 'sftp://from/e', 's3://archive/');
      await checkpointNow(installation, CAUSE);
      await submit(installation, 'sftp://from/f', 's3://archive/');
      for (const projection of ['transfers', 'proof'] as const)
        await installation.commands.catchUp(projection);
      original = [];
      for await (const { events } of readLog(installation.store, { from: null }))
        original.push(...events);
    });
    afterAll(() => tampered?.close());

    let signedInLog: number | null;

    /** Returns what `audit verify` finds without a kept checkpoint, after a change. */
    async function verify(
      change: (log: Editor) => void,
      options: Partial<VerificationOptions> = {},
    ): Promise<Fault[]> {
      const editor = createEditor(original, name);
      change(editor);
      const log = editor.log as unknown as StoredEvent[];
      const head = (editor.isClosed() ? log : original).at(-1)?.position as bigint;
      await tampered.replaceLog(log, head);
      const store = tampered.openStore();
      onTestFinished(() => store.close());
      const { patient, logId } = tampered.installation;
      const faults: Fault[] = [];
      const verdict = await verifyLog(
        { store, sql: patient, logId, comparesApi: false, comparesTree: true },
        {
          checkpoints: [],
          resume: null,
          report: async (fault) => void faults.push(fault),
          onProgress: () => undefined,
          save: async () => undefined,
          ...options,
        },
      );
      signedInLog = verdict.signedInLog;
      return faults;
    }

    /** Rewrites an event, and every hash that follows from it. */
    const rewrite = ({ at, set, repair, name }: Editor) => {
      set(at('completed', 0), { metadata: { actor: 'key:key_other' } });
      repair(name.completed);
    };
    const named = (faults: Fault[]) =>
      faults.flatMap(({ stream, revision }) => (stream ? `${stream} ${revision}` : []));
    const lastCheckpoint = ({ log }: Editor) =>
      log.findLast(({ stream }) => stream === CHECKPOINTS) as Draft;

    it('has no fault before, and its last checkpoint signs what precedes it', async () => {
      expect(await verify(() => undefined)).toEqual([]);
      const last = original.findLast(({ stream }) => stream === CHECKPOINTS);
      expect(signedInLog).toBe((last as StoredEvent<CheckpointEvent>).data.size);
    });

    it('names each event that was rewritten, with all hashes', async () => {
      const faults = await verify(rewrite);
      expect(faults[0]?.problem).toMatch(
        /^the first \d+ events of the log are not those that log-checkpoints revision 0 \(evt_/,
      );
      expect(faults.every(({ check }) => check === 'checkpoint')).toBe(true);
      expect(named(faults)).toEqual([0, 1, 2, 3].map((n) => `${name.completed} ${n}`));
    });

    it('names an event that was removed without a gap', async () => {
      const faults = await verify(({ at, remove, close }) => {
        remove(at('key', -1));
        close();
      });
      expect(named(faults)).toEqual([`${name.key} 1`]);
    });

    it('agrees with an earlier checkpoint, and compares from there', async () => {
      const faults = await verify((editor) => {
        const between = editor.log.findLast(
          ({ position }) => position < lastCheckpoint(editor).position,
        ) as Draft;
        editor.set(between, { metadata: { actor: 'key:key_other' } });
      });
      expect(faults[0]?.problem).toMatch(/that log-checkpoints revision 1 \(evt_/);
      const first = original.find(({ stream }) => stream === CHECKPOINTS);
      expect(signedInLog).toBe((first as StoredEvent<CheckpointEvent>).data.size);
      expect(named(faults)).toHaveLength(1);
    });

    it('does not cover what follows its last checkpoint', async () => {
      const change = ({ log, set }: Editor) =>
        set(log.at(-1) as Draft, { metadata: { actor: 'key:key_other' } });
      expect(await verify(change)).toEqual([]);
    });

    it('takes a checkpoint of another size for a fault', async () => {
      for (const size of [0, -1, 1.5, 1_000, 'x'])
        expect(
          await verify((editor) => editor.set(lastCheckpoint(editor), { data: { size } })),
        ).not.toEqual([]);
    });

    it('finds the same after an interruption at any batch', async () => {
      const whole = await verify(rewrite);
      const run = { logId: tampered.installation.logId, checkpoints: [], damaged: [], keys: [] };
      const states: VerificationState[] = [];
      const save = async (state: () => VerificationState) => void states.push(state());
      expect(await verify(rewrite, { save, batchSize: 4 })).toEqual(whole);
      for (const state of states) {
        const resume = readState(writeState(state, run), run);
        expect(await verify(rewrite, { resume })).toEqual(whole);
      }
    });
  });
});
