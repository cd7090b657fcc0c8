import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ProjectionName } from '../../../src/domain/projection-name.ts';
import { openInstallation } from '../../../src/installation.ts';
import { rebuildDispatch } from '../../../src/processes/dispatch/consumer.ts';
import { checkpointNow } from '../../../src/processes/proof/checkpoint-now.ts';
import { rebuildOutbox } from '../../../src/processes/webhooks/outbox.ts';
import { PROJECTIONS } from '../../../src/projections/read-models.ts';
import { rebuildProjection } from '../../../src/projections/rebuild/rebuild.ts';
import { startService } from '../../../src/service.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { appendTransfer } from '../../support/webhooks/webhooks.ts';

const ROLES = ['api', 'projector'] as const;
const NAMES = Object.keys(PROJECTIONS) as ProjectionName[];

describeWithPostgres('a log that was restored from an older copy', () => {
  let installation: TestInstallation;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-sink-'));
    installation = await openTestInstallation({
      WAYBILL_CHECKPOINT_SINKS: pathToFileURL(folder).href,
    });
  });
  afterAll(async () => {
    await installation?.close();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  async function work() {
    await appendTransfer(installation.store, ['cancelled']);
    for (const name of NAMES) await installation.commands.catchUp(name);
    return checkpointNow(installation, CAUSE);
  }

  /** Runs a service until its first sink is in this state. */
  async function untilSinkSays(text: string): Promise<void> {
    const opened = await openInstallation(installation.config, installation.logger);
    try {
      const service = await startService(opened, ROLES);
      try {
        await expect
          .poll(
            async () => {
              const response = await fetch(`${service.url}/health/ready`);
              const { checks } = (await response.json()) as {
                checks: Record<string, { ok: boolean; detail: string }>;
              };
              return checks.checkpoint_sink_1;
            },
            { timeout: 60_000 },
          )
          .toEqual({ ok: true, detail: expect.stringContaining(text) });
      } finally {
        await service.stop();
      }
    } finally {
      await opened.close();
    }
  }

  it('is refused while the tables know more, and the checkpoints kept elsewhere show it', async () => {
    const { sql, store, logId } = installation;
    await work();
    await sql`create table public.copy as select * from log.events`;
    const lost = await work();
    await untilSinkSays(`keeps the checkpoint over ${lost.size} events`);

    await sql.begin(async (tx) => {
      await tx`alter table log.events disable trigger user`;
      await tx`delete from log.events`;
      await tx`insert into log.events select * from public.copy`;
      await tx`update log.head set position = (select max(position) from log.events)`;
      await tx`alter table log.events enable trigger user`;
    });
    await expect(startService(installation, ROLES)).rejects.toThrow(
      /an older copy of the log was restored.*"A restored older log".*The same for .*proof/,
    );

    for (const name of NAMES) await rebuildProjection(installation, name, () => undefined);
    await rebuildDispatch(sql, logId);
    await rebuildOutbox({ sql, store, logId });
    await untilSinkSays('an older copy of the log was restored');
    const kept = await readdir(folder);

    // The new log grows beyond the old one: what it signs now is another history.
    for (let size = 0; size <= lost.size; ) ({ size } = await work());
    await untilSinkSays('an older copy of the log was restored');
    expect(await readdir(folder)).toEqual(kept);
  });
});
