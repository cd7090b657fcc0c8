import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { endAttempt, startTransfer } from '../../../src/commands/transfers.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { streamName } from '../../../src/domain/events/streams.ts';
import { newId } from '../../../src/domain/ids.ts';
import type { Transfer } from '../../../src/domain/transfers/transfer.ts';
import { runAdmission } from '../../../src/processes/dispatch/admission.ts';
import { saveResumeRecords } from '../../../src/processes/dispatch/claims.ts';
import { cleanUpIfEnded } from '../../../src/processes/dispatch/cleanups.ts';
import { dispatchConsumer, rebuildDispatch } from '../../../src/processes/dispatch/consumer.ts';
import type { Claim } from '../../../src/processes/dispatch/job-table/leases.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import { COPIED } from '../../support/domain/samples.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  transferInLog,
} from '../../support/service/installation.ts';
import { startDispatch } from '../../support/service/roles.ts';
import { storyOf, until } from '../../support/service/transfers.ts';

vi.setConfig({ testTimeout: 60_000 });

describeWithPostgres('admission', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
    await configureEndpoint(installation, {
      name: 'files',
      protocol: 'sftp',
      host: '127.0.0.1',
      port: 9,
      base_path: '/',
      username: 'u',
      password: 'p',
      host_key_sha256: `SHA256:${'A'.repeat(43)}`,
    });
  });
  afterAll(() => installation?.close());

  const create = (more: Record<string, unknown> = {}) =>
    submit(installation, 'sftp://files/a', 'sftp://files/b', more);

  async function claimed(id: string): Promise<Claim> {
    const claimId = newId('clm');
    const start = { claimId, source: null, destination: null };
    await startTransfer(installation.commands, id, start, CAUSE);
    return { transferId: id, claimId } as Claim;
  }

  const untilJob = (id: string, status: string) =>
    until(
      `${id} is ${status}`,
      async () =>
        (
          await installation.sql`select from work.transfer_jobs where transfer_id = ${id} and status = ${status}`
        ).length === 1,
    );

  test('admits and sweeps the others where one transfer always fails', async () => {
    const broken = [await create(), await create()];
    const streams = new Set(broken.map((id) => streamName('transfer', id)));
    const lost = await create();
    await claimed(lost);
    await claimed(broken[1] as string);
    const { store } = installation;
    const dispatch = startDispatch({
      ...installation,
      store: {
        ...store,
        async read(stream, from) {
          if (streams.has(stream)) throw new Error('This stream can not be read');
          return store.read(stream, from);
        },
      },
    });
    try {
      await Promise.all([
        untilJob(lost, 'in_progress'),
        untilJob(broken[1] as string, 'in_progress'),
      ]);
      await installation.sql`
        update work.transfer_jobs set lease_until = now() - interval '1 second' where claim_id is not null`;
      await installation.sql`
        update work.transfer_jobs set lease_until = now() - interval '1 hour' where transfer_id = ${broken[1] as string}`;
      await until(
        'the lost one is in the queue again',
        async () => (await storyOf(installation, lost)).at(-1) === 'queued: mover_lost',
      );
      const other = await create();
      await until('another one is admitted', async () =>
        (await storyOf(installation, other)).includes('queued: admitted'),
      );
    } finally {
      await dispatch.stop();
    }
  });

  test('says if five movers vanished that the file may be complete, if the record tells', async () => {
    const records = [{ size: 5, sha256: 'a'.repeat(64) }, null];
    const dispatch = startDispatch(installation);
    const messages = await Promise.all(
      records.map(async (committing) => {
        const id = await create();
        const record = { saves: 1, destination: { bytes: 0 }, committing };
        for (let vanished = 0; vanished < 5; vanished++) {
          await untilJob(id, 'queued');
          await claimed(id);
          await untilJob(id, 'in_progress');
          await installation.sql`
            update work.transfer_jobs
               set resume_record = ${installation.sql.json(record)},
                   lease_until = now() - interval '1 second'
             where transfer_id = ${id}`;
          await until('the lease is swept', async () =>
            ['queued', 'failed'].includes((await transferInLog(installation, id)).status),
          );
        }
        return (await transferInLog(installation, id)).facts.error?.message ?? '';
      }),
    ).finally(() => dispatch.stop());
    for (const message of messages) expect(message).toContain('5 movers in a row vanished');
    const said = `a file of 5 bytes with the SHA-256 ${'a'.repeat(64)} is there`;
    expect(messages.map((message) => message.includes(said))).toEqual([true, false]);
  });

  test('sweeps expired leases also after the clock was set back', async () => {
    const lost = async () => {
      const id = await create();
      await claimed(id);
      await untilJob(id, 'in_progress');
      await installation.sql`
        update work.transfer_jobs set lease_until = now() - interval '1 second'
         where transfer_id = ${id}`;
      return id;
    };
    const swept = (id: string) =>
      until(
        `${id} is in the queue again`,
        async () => (await storyOf(installation, id)).at(-1) === 'queued: mover_lost',
      );
    const dispatch = startDispatch(installation);
    const { now } = Date;
    try {
      await swept(await lost());
      const second = await lost();
      vi.spyOn(Date, 'now').mockImplementation(() => now() - 3_600_000);
      await swept(second);
    } finally {
      vi.restoreAllMocks();
      await dispatch.stop();
    }
  });

  test('sweeps no lease after it lost its lock while Postgres was silent', async () => {
    const id = await create();
    await claimed(id);
    const dispatch = startDispatch(installation);
    await untilJob(id, 'in_progress');
    await dispatch.stop();
    await installation.sql`
      update work.transfer_jobs set lease_until = now() - interval '1 second' where transfer_id = ${id}`;

    const stopping = new AbortController();
    const lost = new AbortController();
    const { signal } = lost;
    const held = { signal, isSure: () => !signal.aborted, release: async () => undefined };
    const acquire = vi
      .fn(installation.locks.acquire)
      .mockResolvedValueOnce(held)
      .mockRejectedValue(stopping.signal);
    const sql = new Proxy(installation.sql, {
      apply(target, self, args) {
        if (String(args[0]).includes("status = 'pending'")) lost.abort(new Error('lost'));
        return Reflect.apply(target, self, args);
      },
    });
    const deps = { ...installation, sql, locks: { ...installation.locks, acquire } };
    await runAdmission({ ...deps, record: async () => undefined }, stopping.signal, {
      moversReturnMs: 0,
    });
    expect(lost.signal.aborted).toBe(true);
    expect((await storyOf(installation, id)).at(-1)).not.toBe('queued: mover_lost');
  });

  test('a repeated clean-up knows how the transfer has ended', async () => {
    const open = await transferInLog(installation, await create());
    const ended = {
      status: 'completed',
      facts: { ...open.facts, size_bytes: 5 },
    } as Transfer;
    const transferId = newId('txr');
    const it = { transferId, accountId: 'acc_default', destination: 'sftp://files/b' };
    const { sql } = installation;
    const row = async () =>
      (await sql`select * from work.cleanups where transfer_id = ${transferId}`)[0];

    await sql`insert into work.cleanups (transfer_id, account_id, destination)
              values (${transferId}, 'acc_default', 'sftp://files/b')`;
    await cleanUpIfEnded(sql, it, open);
    expect(await row()).toMatchObject({ completed: false, size_bytes: null, repeated: false });
    await sql`update work.cleanups set takes = 1 where transfer_id = ${transferId}`;
    await cleanUpIfEnded(sql, it, ended);
    expect(await row()).toMatchObject({ completed: true, size_bytes: 5n, repeated: true });
    await sql`delete from work.cleanups where transfer_id = ${transferId}`;
    await cleanUpIfEnded(sql, it, ended);
    expect(await row()).toMatchObject({ completed: true, size_bytes: 5n, repeated: true });
    await sql`delete from work.cleanups where transfer_id = ${transferId}`;
  });

  test('finds resume records again after the jobs were derived again', async () => {
    const id = await create();
    const before = startDispatch(installation);
    await untilJob(id, 'queued');
    await before.stop();
    await installation.sql`
      update work.transfer_jobs set resume_record = '{"committing": {"size": 1}}' where transfer_id = ${id}`;

    await rebuildDispatch(installation.sql, installation.logId);
    const state = await transferInLog(installation, id);
    await cleanUpIfEnded(
      installation.sql,
      { transferId: id, accountId: 'acc_default', destination: 'sftp://files/b' },
      state,
    );
    expect(
      await installation.sql`select from work.cleanups where transfer_id = ${id}`,
    ).toHaveLength(0);

    const after = startDispatch(installation);
    await untilJob(id, 'queued');
    await after.stop();
    const [job] = await installation.sql<{ resume_record: unknown }[]>`
      select resume_record from work.transfer_jobs where transfer_id = ${id}`;
    expect(job?.resume_record).toEqual({ committing: { size: 1 } });
  });

  test('removes a job that the log does not know, also while the log grows', async () => {
    const id = await create();
    await catchUpIfIdle(installation, dispatchConsumer);
    const forgotten = newId('txr');
    await installation.sql`
      update work.transfer_jobs set transfer_id = ${forgotten}, status = 'in_progress',
             revision = -1 where transfer_id = ${id}`;
    const [last] = await installation.store.read(streamName('transfer', id));
    // Always one more event follows what the consumer has processed.
    const store: EventStore = {
      ...installation.store,
      async *subscribe() {
        const event = last as StoredEvent;
        yield { events: [event], position: event.position, caughtUp: false };
      },
    };
    const stopping = new AbortController();
    const admission = runAdmission(
      { ...installation, store, record: async () => undefined },
      stopping.signal,
    );
    const jobs = () =>
      installation.sql`select from work.transfer_jobs where transfer_id = ${forgotten}`;
    await until('the job is gone', async () => (await jobs()).length === 0);
    stopping.abort();
    await admission;
  });

  test('keeps the job of a transfer that a former leader of an EventStoreDB lacks', async () => {
    const id = await create();
    await catchUpIfIdle(installation, dispatchConsumer);
    let reads = 0;
    const store: EventStore = {
      ...installation.store,
      staleMs: 10_000,
      read: async (...what) => (reads++ === 0 ? [] : installation.store.read(...what)),
    };
    const stopping = new AbortController();
    const admission = runAdmission(
      { ...installation, store, record: async () => undefined },
      stopping.signal,
    );
    const types = async () =>
      (await installation.store.read(streamName('transfer', id))).map(({ type }) => type);
    await until('the transfer is queued', async () => (await types()).includes('transfer.queued'));
    stopping.abort();
    await admission;
    expect(
      await installation.sql`select from work.transfer_jobs where transfer_id = ${id}`,
    ).toHaveLength(1);
  });

  test('keeps a job that the log shows later than a former leader of an EventStoreDB', async () => {
    const id = await create();
    await catchUpIfIdle(installation, dispatchConsumer);
    const forgotten = newId('txr');
    await installation.sql`
      update work.transfer_jobs set status = 'in_progress', revision = -1 where transfer_id = ${id}`;
    await installation.sql`
      insert into work.transfer_jobs
      select (jsonb_populate_record(job, jsonb_build_object('transfer_id', ${forgotten}::text))).*
        from work.transfer_jobs job where transfer_id = ${id}`;
    // To the former leader, the log ends before the transfer.
    const store: EventStore = {
      ...installation.store,
      head: async () => 0n,
      async *subscribe() {
        yield { events: [], position: 0n, caughtUp: true };
      },
    };
    const stopping = new AbortController();
    const admission = runAdmission(
      { ...installation, store, record: async () => undefined },
      stopping.signal,
    );
    const jobOf = (transferId: string) =>
      installation.sql`select from work.transfer_jobs where transfer_id = ${transferId}`;
    await until('the other job is gone', async () => (await jobOf(forgotten)).length === 0);
    stopping.abort();
    await admission;
    expect(await jobOf(id)).toHaveLength(1);
  });

  test('leaves the steps after a transfer that no table knows', async () => {
    // So it is after a crash or with an older back-up of Postgres, if the log is elsewhere.
    const id = await create({ after: { source: 'delete' } });
    const { claimId } = await claimed(id);
    const { commands } = installation;
    await endAttempt(commands, id, claimId, COPIED, CAUSE);
    await catchUpIfIdle(installation, dispatchConsumer);
    expect(
      await installation.sql`select from work.after_steps where transfer_id = ${id}`,
    ).toHaveLength(1);
  });

  test('gives a lease to a claim of which it hears for the first time in the log', async () => {
    const id = await create();
    await claimed(id);
    const dispatch = startDispatch(installation);
    await untilJob(id, 'in_progress');
    await dispatch.stop();
    const [job] = await installation.sql<{ runs_out: boolean }[]>`
      select lease_until > now() as runs_out from work.transfer_jobs where transfer_id = ${id}`;
    expect(job).toEqual({ runs_out: true });
  });

  test('keeps the later resume record where the one before it lands late', async () => {
    const id = await create();
    const claim = await claimed(id);
    const dispatch = startDispatch(installation);
    await untilJob(id, 'in_progress');
    await dispatch.stop();
    const save = (saves: number) =>
      saveResumeRecords(installation.sql, [{ claim, record: { saves }, durable: false }]);
    expect(await save(2)).toEqual([true]);
    expect(await save(2)).toEqual([true]);
    await save(1);
    const [job] = await installation.sql<{ resume_record: unknown }[]>`
      select resume_record from work.transfer_jobs where transfer_id = ${id}`;
    expect(job?.resume_record).toEqual({ saves: 2 });
  });
});
