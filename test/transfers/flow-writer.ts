import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { flowsOf } from '../support/service/flows.ts';
import type { TestInstallation } from '../support/service/installation.ts';
import { startRoles } from '../support/service/roles.ts';
import { useSftpPair } from '../support/service/sftp-pair.ts';
import { describeTransfers, until } from '../support/service/transfers.ts';

const FOLDER = 'slow';
/** Files that are being written at the same time. */
const AT_ONCE = 20;

/**
 * Tests a flow on a folder that a writer fills meanwhile: file by file and piece by piece. It
 * renames some into place, and rewrites some that were taken or are being taken. In the end the
 * destination equals the source, and each file was taken as often as it had a version that rested.
 */
export async function describeFlowWriter(files: number): Promise<void> {
  await describeTransfers(`a flow while a writer puts ${files} files`, () => {
    const pair = useSftpPair({}, (installation: TestInstallation) =>
      startRoles(installation, ['projector', 'mover', 'monitor']),
    );
    const flows = flowsOf(pair);

    async function put(i: number): Promise<void> {
      const path = join(pair.alpha.root, FOLDER, `${i}.csv`);
      const piece = `file ${i}\n`.repeat(50);
      if (i % 3 === 0) {
        const hidden = join(pair.alpha.root, FOLDER, `.${i}.tmp`);
        await writeFile(hidden, piece + piece);
        renameSync(hidden, path);
        return;
      }
      await writeFile(path, piece);
      await sleep(20);
      await appendFile(path, piece);
      if (i % 3 === 1) return;
      // Rewritten with another size, so that a server with times in seconds shows it.
      await sleep(100 + (i % 40) * 50);
      await writeFile(path, `${piece}${piece}rewritten\n`);
    }

    test('takes whole files alone, and the last version of each', async () => {
      for (const { root } of [pair.alpha, pair.beta]) mkdirSync(join(root, FOLDER));
      writeFileSync(join(pair.alpha.root, FOLDER, 'first.csv'), 'first');
      const id = await flows.create(FOLDER, {
        source: { uri: `sftp://alpha/${FOLDER}/`, pattern: '*.csv' },
        ready: { unchanged_for: '1s' },
        trigger: { every: '5s' },
      });
      let next = 0;
      const write = async () => {
        while (next < files) await put(next++);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, write));
      const contentsOf = (root: string) =>
        Object.fromEntries(
          readdirSync(join(root, FOLDER))
            .filter((name) => name.endsWith('.csv'))
            .sort()
            .map((name) => [name, readFileSync(join(root, FOLDER, name), 'utf8')]),
        );
      const source = contentsOf(pair.alpha.root);
      expect(Object.keys(source)).toHaveLength(files + 1);
      const rest = async () => {
        const [row] = await pair.installation.sql<{ done: boolean }[]>`
          select waiting = 0 and began_at > now() - interval '1 minute' as done
            from work.flow_looks where flow_id = ${id}`;
        return row?.done;
      };
      const completed = async () => {
        const [row] = await pair.installation.sql<{ completed: number }[]>`
          select coalesce(sum(transfers), 0)::integer as completed
            from read.batch_counts where status = 'completed'`;
        return row?.completed;
      };
      await until(
        'the destination equals the source',
        async () =>
          (await rest()) &&
          JSON.stringify(contentsOf(pair.beta.root)) === JSON.stringify(source) &&
          (await flows.runs(id)).every(({ ended_at }) => ended_at !== null),
        120,
        completed,
      );
      // By the log: no version was taken twice.
      const rows = await pair.installation.sql<{ attempts: number; versions: number }[]>`
        select max(attempts)::integer as attempts, count(*)::integer as versions
          from read.flow_files where flow_id = ${id}`;
      const taken = await flows.taken(id);
      expect(rows).toEqual([{ attempts: 1, versions: taken.length }]);
      expect(new Set(taken).size).toBe(files + 1);
    });
  });
}
