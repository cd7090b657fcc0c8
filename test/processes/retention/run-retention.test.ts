import { createHash, createPublicKey } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openStore } from '../../../src/adapters/event-store/open-store.ts';
import { type EventStore, EventStoreUnavailable } from '../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../src/adapters/event-store/postgres/log.ts';
import { pauseEndpoint } from '../../../src/commands/endpoints.ts';
import { createKey, revokeKey } from '../../../src/commands/keys.ts';
import { appendRecords } from '../../../src/commands/retention.ts';
import { cancelTransfer, loadTransfer } from '../../../src/commands/transfers.ts';
import { keyRequest } from '../../../src/contract/keys.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { RETENTION } from '../../../src/domain/events/streams.ts';
import { IDEMPOTENCY_HOURS } from '../../../src/domain/idempotency.ts';
import { newId } from '../../../src/domain/ids.ts';
import { headOfNote } from '../../../src/domain/proof/checkpoint.ts';
import { hashOfLeaf } from '../../../src/domain/proof/leaf.ts';
import { isConsistent } from '../../../src/domain/proof/proofs.ts';
import { verifyReceipt } from '../../../src/domain/proof/receipt.ts';
import { type RemovedTransfer, retentionRecords } from '../../../src/domain/retention.ts';
import { copyLog } from '../../../src/processes/log-copy/copy-log.ts';
import { checkpointNow } from '../../../src/processes/proof/checkpoint-now.ts';
import { choose } from '../../../src/processes/retention/choose.ts';
import { finish, finishInterrupted } from '../../../src/processes/retention/finish.ts';
import { type RetentionRun, runRetention } from '../../../src/processes/retention/run-retention.ts';
import type { KeptCheckpoint } from '../../../src/processes/verification/kept-checkpoints.ts';
import {
  type VerificationOptions,
  type VerificationState,
  verifyLog,
} from '../../../src/processes/verification/verify-log.ts';
import { lockOf } from '../../../src/projections/consumer.ts';
import { listSigningKeys } from '../../../src/projections/proof/queries.ts';
import { makeReceipt } from '../../../src/projections/proof/receipts.ts';
import { consistencyProof } from '../../../src/projections/proof/tiles.ts';
import { readLog, readLogFrom } from '../../../src/projections/read-log.ts';
import { PROJECTIONS } from '../../../src/projections/read-models.ts';
import { verifyProjection } from '../../../src/projections/rebuild/rebuild.ts';
import { startService } from '../../../src/service.ts';
import { TRANSFER_EVENTS, transferCreated } from '../../support/domain/samples.ts';
import { describeOnEventStoreDb } from '../../support/event-store/eventstoredb.ts';
import { createTestDatabase, describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import { createCli } from '../../support/service/cli.ts';
import {
  CAUSE,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { appendEvents } from '../../support/webhooks/webhooks.ts';
import { type SmallLog, writeSmallLog } from '../verification/tamper/small-log.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

const NAMES = Object.values(PROJECTIONS).map(({ name }) => name);

/** A store whose process is killed after so many appends and removals. */
function killedAfter(store: EventStore, writes: number): EventStore {
  let left = writes;
  async function write<T>(work: () => Promise<T>): Promise<T> {
    if (left-- <= 0) throw new Error('killed');
    return work();
  }
  return {
    ...store,
    append: (...given) => write(() => store.append(...given)),
    remove: (...given) => write(() => store.remove(...given)),
  };
}

/** An installation with a small log, from which the ended transfers leave in steps. */
function retentionTests(settings: () => Promise<Record<string, string>>, isEmbedded: boolean) {
  let installation: TestInstallation;
  let log: SmallLog;
  let folder: string;
  let before: KeptCheckpoint;
  let receipt: Extract<Awaited<ReturnType<typeof makeReceipt>>, { state: 'ready' }>['receipt'];
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-retention-'));
    installation = await openTestInstallation(await settings());
    log = await writeSmallLog(installation);
    await catchUp();
    before = await checkpoint('before.txt');
    const answer = await makeReceipt(installation, null, idOf(log.completed));
    if (answer.state !== 'ready') throw new Error(answer.state);
    receipt = answer.receipt;
  });
  afterAll(async () => {
    await installation?.close();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  const idOf = (stream: string) => stream.slice('transfer-'.length);

  async function catchUp(): Promise<void> {
    for (const name of NAMES) await installation.commands.catchUp(name);
  }

  async function checkpoint(source: string): Promise<KeptCheckpoint> {
    const { note } = await checkpointNow(installation, CAUSE);
    return { ...(headOfNote(note) as NonNullable<ReturnType<typeof headOfNote>>), source };
  }

  function run(
    changes: Partial<RetentionRun> = {},
    deps: TestInstallation = installation,
    stop?: AbortSignal,
  ) {
    return runRetention(
      deps,
      {
        ...{ endedBefore: new Date(Date.now() + 60_000), accountId: null, folder },
        onExport: async () => undefined,
        ...changes,
      },
      CAUSE,
      stop,
    );
  }

  async function verify(
    checkpoints: KeptCheckpoint[],
    options: Partial<VerificationOptions> = {},
    store = installation.store,
  ) {
    const { patient, logId } = installation;
    const faults: string[] = [];
    const { events, retained } = await verifyLog(
      { store, sql: patient, logId, comparesApi: true, comparesTree: true },
      {
        checkpoints,
        resume: null,
        report: async ({ problem }) => void faults.push(problem),
        onProgress: () => undefined,
        save: async () => undefined,
        batchSize: 7,
        ...options,
      },
    );
    return { faults, events, retained };
  }

  async function eventsIn(): Promise<StoredEvent[]> {
    const found: StoredEvent[] = [];
    for await (const { events } of readLog(installation.store, { from: null }))
      found.push(...events);
    return found;
  }

  async function shown(): Promise<string[]> {
    const rows = await installation.sql`select transfer_id from read.transfers order by 1`;
    return rows.map(({ transfer_id }) => `transfer-${transfer_id}`);
  }

  it('counts what may leave, and changes nothing', async () => {
    const length = (await eventsIn()).length;
    expect(await run({ folder: null })).toMatchObject({ transfers: 3, files: [] });
    expect(await run({ folder: null, accountId: 'acc_other' })).toMatchObject({ transfers: 0 });
    expect(await run({ folder: null, endedBefore: new Date(0) })).toMatchObject({ transfers: 0 });
    expect(await eventsIn()).toHaveLength(length);
    expect(await readdir(folder)).toEqual([]);
  });

  it('chooses nothing while a read model is behind the log', async () => {
    const catchUp = async (name: string) => name !== 'batches';
    const commands = { ...installation.commands, catchUp };
    const running = run({}, { ...installation, commands });
    await expect(running).rejects.toThrow(/batches is behind the log/);
    expect(await readdir(folder)).toEqual([]);
  });

  it('keeps a recorded transfer until a consumer has passed the record', async () => {
    const { locks } = installation;
    const held = await locks.tryAcquire('log retention');
    await expect(run()).rejects.toThrow(/Another run is under way/);
    await held?.release();

    const away = () => Promise.reject(new EventStoreUnavailable('no answer'));
    await expect(
      run({}, { ...installation, store: { ...installation.store, append: away } }),
    ).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/^The run was interrupted: no answer\. Run the same command/),
    });
    expect(await installation.store.read(RETENTION)).toEqual([]);
    for (const file of await readdir(folder)) await rm(join(folder, file));

    // Killed between the record and the removal.
    const store = { ...installation.store, remove: () => Promise.reject(new Error('killed')) };
    const original = installation.store;
    Object.assign(installation, { store });
    await expect(run({ inFile: 1 })).rejects.toThrow('killed');
    Object.assign(installation, { store: original });
    expect(await readdir(folder)).toHaveLength(1);
    const records = retentionRecords(await original.read(RETENTION));
    expect(records).toHaveLength(1);
    const [left] = records[0]?.data.transfers ?? [];
    expect(await original.read(`transfer-${left?.transfer_id}`)).not.toEqual([]);
    expect(await shown()).not.toContain(`transfer-${left?.transfer_id}`);
    expect((await verify([before])).faults).toEqual([]);

    await finishInterrupted(installation);
    expect(await original.read(`transfer-${left?.transfer_id}`)).toEqual([]);
    expect((await original.read(RETENTION)).at(-1)?.type).toBe('log.retention_completed');
    await catchUp();
    const events = await original.read(RETENTION);
    await finishInterrupted(installation);
    expect(await original.read(RETENTION)).toEqual(events);
  });

  it('exports and removes the others, and leaves open transfers alone', async () => {
    const streams = [log.completed, log.failed, log.cancelled];
    const events = (await Promise.all(streams.map((name) => installation.store.read(name)))).flat();
    // A transfer with a clean-up stays. Whether the failed one has one depends on how the events of
    // the log were cut into batches, and no mover works here.
    await installation.sql`delete from work.cleanups`;
    const { files, transfers, completed } = await run();
    expect({ transfers, completed }).toEqual({ transfers: 2, completed: true });
    expect(files).toHaveLength(1);
    const [file] = files;
    const text = await readFile(join(folder, file?.name ?? ''), 'utf8');
    expect(createHash('sha256').update(text).digest('hex')).toBe(file?.sha256);
    const lines = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ id }) => id).sort()).toEqual(events.map(({ id }) => id).sort());
    for (const stream of streams) expect(await installation.store.read(stream)).toEqual([]);
    await catchUp();
    expect(await shown()).toEqual([log.open]);
    const { sql } = installation;
    expect(
      await sql`select status, transfers from read.transfer_totals where transfers <> 0`,
    ).toEqual([{ status: 'queued', transfers: 1n }]);
    expect(await sql`select * from read.audit where kind = 'transfer'`).toEqual([]);
    const searched = await sql`select transfer_id from read.transfer_search`;
    expect(searched.map(({ transfer_id }) => `transfer-${transfer_id}`)).toEqual([log.open]);
  });

  it('leaves a tree that old and new checkpoints sign', async () => {
    const after = await checkpoint('after.txt');
    const { faults, retained } = await verify([before, after]);
    expect(faults).toEqual([]);
    expect(retained).toBeGreaterThan(0);
    expect((await verify([])).faults).toEqual([]);
    const proof = await consistencyProof(installation.sql, 'read', before.size, after.size);
    expect(isConsistent(before, after, proof)).toBe(true);
    const [key] = await listSigningKeys(installation.sql, installation.logId);
    expect(verifyReceipt(receipt, createPublicKey(key?.public_key ?? '')).ok).toBe(true);
  });

  it('gives the same read models when they are rebuilt', async () => {
    await catchUp();
    for (const name of NAMES) {
      const { details } = await verifyProjection(
        { ...installation, sql: installation.patient },
        name,
        () => undefined,
      );
      expect(details, name).toEqual([]);
    }
    const { sql, patient } = installation;
    await sql`update read.retention_records set completed = not completed`;
    const changed = await verifyProjection(
      { ...installation, sql: patient },
      'transfers',
      () => undefined,
    );
    expect(changed.details[0]).toMatch(/^retention \d+: completed is false, and true by the log$/);
    await sql`update read.retention_records set completed = not completed`;
  });

  it('serves after a restart, and says where the events of a transfer are', async () => {
    // The open transfer must not end.
    const { commands } = installation;
    await pauseEndpoint(commands, log.endpoint.slice('endpoint-'.length), CAUSE);
    const service = await startService(installation, ['api', 'projector', 'mover', 'webhooks']);
    await service.stop();
    await expect(makeReceipt(installation, null, idOf(log.failed))).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringMatching(
        /^This transfer left the log on \d{4}-\d\d-\d\d\. The export waybill-.*ndjson has its events$/,
      ),
    });
    await expect(makeReceipt(installation, 'acc_other', idOf(log.failed))).rejects.toThrow(
      'There is no such transfer',
    );
  });

  it('is verified by its records if the API has lost what left the log', async () => {
    const { config, sql } = installation;
    const reader = await openStore(config, sql, { keepsUnreadable: true });
    await sql`create table public.kept as select * from read.retained_transfers`;
    await sql`delete from read.retained_transfers`;
    const { faults } = await verify([before], {}, reader);
    const records = retentionRecords(await reader.read(RETENTION));
    expect(faults).toEqual(
      records.map(({ data }) =>
        expect.stringContaining(
          `the API does not say that ${data.transfers.length} of its transfers left the log, ` +
            `such as ${data.transfers[0]?.transfer_id}: \`waybill projections verify transfers\``,
        ),
      ),
    );
    await sql`insert into read.retained_transfers select * from public.kept`;
    expect((await verify([before], {}, reader)).faults).toEqual([]);

    const id = idOf(log.completed);
    await sql`update read.retained_transfers set position = 1000000000000 where transfer_id = ${id}`;
    expect((await verify([before], {}, reader)).faults).toEqual([
      `the API says that 1 of its transfers left the log later, such as ${id}: ` +
        '`waybill projections verify transfers` names them',
    ]);
    const { details } = await verifyProjection(
      { ...installation, sql: installation.patient },
      'transfers',
      () => undefined,
    );
    expect(details).toEqual([expect.stringContaining(id)]);
    await sql`update read.retained_transfers r set position = k.position from public.kept k
               where k.transfer_id = r.transfer_id`;
    expect((await verify([before], {}, reader)).faults).toEqual([]);
    await reader.close();
  });

  if (!isEmbedded) {
    it('shows a stream that was deleted without a record, and no other', async () => {
      const { config, sql, store } = installation;
      const reader = await openStore(config, sql, { keepsUnreadable: true });
      expect((await verify([before], {}, reader)).faults).toEqual([]);
      await store.remove([log.key], { stream: RETENTION, revision: 0 });
      expect((await verify([before], {}, reader)).faults).toEqual(['its stream was deleted']);
      await reader.close();
    });
    return;
  }

  /** Submits transfers and cancels them. Returns what a run would record of them. */
  async function submitEnded(files: string[]): Promise<RemovedTransfer[]> {
    const { commands } = installation;
    for (const file of files) {
      const id = await submit(installation, `sftp://from/${file}`, 's3://archive/');
      await cancelTransfer(commands, id, CAUSE, await loadTransfer(commands, 'acc_default', id));
    }
    await catchUp();
    const { size } = await checkpointNow(installation, CAUSE);
    const choice = { endedBefore: new Date(Date.now() + 60_000), accountId: null };
    const transfers: RemovedTransfer[] = [];
    for await (const { transfer } of choose(installation, choice, size)) transfers.push(transfer);
    return transfers;
  }

  async function record(transfers: (RemovedTransfer | undefined)[]): Promise<void> {
    const { size, root_hash } = await checkpointNow(installation, CAUSE);
    const facts = {
      ended_before: new Date().toISOString(),
      export: { name: 'waybill-before.ndjson', sha256: '00' },
      checkpoint: { size, root_hash },
      transfers: transfers.filter((transfer) => transfer !== undefined),
    };
    await appendRecords(installation.store, null, facts, CAUSE);
  }

  async function expectGone(transfers: RemovedTransfer[]): Promise<void> {
    const { store } = installation;
    const streams = transfers.map(({ transfer_id }) => store.read(`transfer-${transfer_id}`));
    expect(await Promise.all(streams)).toEqual(transfers.map(() => []));
    expect(await verify([before])).toMatchObject({ faults: [] });
    expect(await shown()).toEqual([log.open]);
  }

  it(
    'reads few transfers at a time, because a store must answer each read in time',
    LONG,
    async () => {
      const { store } = installation;
      await submitEnded(Array.from({ length: 40 }, (_, i) => `file-${i}`));
      let open = 0;
      let most = 0;
      const read: EventStore['read'] = async (...given) => {
        most = Math.max(most, ++open);
        return store.read(...given).finally(() => open--);
      };
      const deps = { ...installation, store: { ...store, read } };
      expect(await run({}, deps)).toMatchObject({ transfers: 40 });
      expect(most).toBeLessThanOrEqual(16);
      expect(await shown()).toEqual([log.open]);
    },
  );

  it('completes no record that the read model does not show yet', async () => {
    const transfers = await submitEnded(['a', 'b']);
    await record(transfers.slice(0, 1));
    await catchUp();
    const projector = await installation.locks.tryAcquire(lockOf('transfers'));
    await record(transfers.slice(1));
    // The tables have the transfers still, and what follows from the whole log has not.
    for (const name of ['transfers', 'transfer_search'] as const) {
      const deps = { ...installation, sql: installation.patient };
      expect((await verifyProjection(deps, name, () => undefined)).details).toEqual([]);
    }
    expect(await finish(installation, CAUSE, 0)).toBe(false);
    await projector?.release();
    await catchUp();
    await finishInterrupted(installation);
    await expectGone(transfers);
  });

  it('completes no record of a run that began when the lock was lost', async () => {
    const { store } = installation;
    const transfers = await submitEnded(['a', 'b']);
    await record(transfers.slice(0, 1));
    await catchUp();
    let removals = 0;
    const remove: EventStore['remove'] = async (...given) => {
      // The other run may also choose a transfer that is just being removed.
      if (removals++ === 0) await record(transfers);
      await store.remove(...given);
    };
    expect(await finish({ ...installation, store: { ...store, remove } }, CAUSE, 0)).toBe(false);
    await catchUp();
    await finishInterrupted(installation);
    await expectGone(transfers);
    await finishInterrupted(installation);
    expect(retentionRecords((await store.read(RETENTION)).slice(-1))).toEqual([]);
  });

  it('stops when its signal aborts, and the next run does the rest', async () => {
    const { store } = installation;
    const transfers = await submitEnded(['a', 'b', 'c']);
    const reason = new Error('stopped');
    const left = async () => {
      const ids = transfers.map(({ transfer_id }) => `transfer-${transfer_id}`);
      const streams = await Promise.all(ids.map((id) => store.read(id)));
      return streams.filter((events) => events.length > 0).length;
    };
    const files = await readdir(folder);
    const records = await store.read(RETENTION);

    const early = new AbortController();
    const onExport = async () => early.abort(reason);
    await expect(run({ onExport }, installation, early.signal)).rejects.toBe(reason);
    expect(await readdir(folder)).toEqual(files);
    expect(await store.read(RETENTION)).toEqual(records);

    // The projector is behind, so the record would wait for a minute.
    const projector = await installation.locks.tryAcquire(lockOf('transfers'));
    const waiting = new AbortController();
    const append: EventStore['append'] = async (stream, ...given) => {
      if (stream === RETENTION) setTimeout(() => waiting.abort(reason), 500);
      return store.append(stream, ...given);
    };
    const slow = { ...installation, store: { ...store, append } };
    await expect(run({ inFile: 1 }, slow, waiting.signal)).rejects.toBe(reason);
    await projector?.release();
    expect(await left()).toBe(3);

    const late = new AbortController();
    const remove: EventStore['remove'] = async (...given) => {
      await store.remove(...given);
      late.abort(reason);
    };
    const deps = { ...installation, store: { ...store, remove } };
    await expect(run({ inFile: 1 }, deps, late.signal)).rejects.toBe(reason);
    expect(await left()).toBe(2);
    expect(await run()).toMatchObject({ transfers: 2, completed: true });
    await expectGone(transfers);
  });

  it('is whole after a crash between any two writes', async () => {
    const { store, commands } = installation;
    for (let killed = true, writes = 0; killed; writes++) {
      const id = await submit(installation, 'sftp://from/x', 's3://archive/');
      await cancelTransfer(commands, id, CAUSE, await loadTransfer(commands, 'acc_default', id));
      await catchUp();
      const deps = { ...installation, store: killedAfter(store, writes) };
      const outcome = await run({}, deps).catch((error: Error) => error.message);
      killed = outcome === 'killed';
      expect(await verify([before]), `after ${writes} writes`).toMatchObject({ faults: [] });
      await run();
      expect(await store.read(`transfer-${id}`)).toEqual([]);
      await commands.catchUp('transfers');
      expect(await shown()).toEqual([log.open]);
    }
    expect(await verify([before])).toMatchObject({ faults: [] });
  });

  it('is copied with the same tree, also into a copy that was begun before', LONG, async () => {
    const { store } = installation;
    const { sql, drop } = await createTestDatabase();
    const early = createPostgresLog({ sql, prefix: 'early_' });
    const late = createPostgresLog({ sql, prefix: 'late_' });
    try {
      const { root } = await copyLog(store, late, () => undefined);
      expect((await copyLog(store, late, () => undefined)).root).toEqual(root);
      const more = await writeSmallLog(installation);
      await catchUp();
      await copyLog(store, early, () => undefined);
      expect(await early.read(more.failed)).not.toEqual([]);
      expect(await run()).toMatchObject({ transfers: 3 });
      await copyLog(store, early, () => undefined);
      expect(await early.read(more.failed)).toEqual([]);
      expect((await verify([before])).faults).toEqual([]);
    } finally {
      await Promise.all([early.close(), late.close()]);
      await drop();
    }
  });

  it('is run by the command, which names the file for a transfer that left', async () => {
    const { store, environment } = installation;
    const created_at = '2020-01-31T09:30:00.000Z';
    const transfer_id = newId('txr');
    const data = transferCreated({ transfer_id, created_at });
    const stream = `transfer-${transfer_id}`;
    await appendEvents(
      store,
      stream,
      [{ type: 'transfer.created', data }, TRANSFER_EVENTS.cancelled],
      data.account_id,
      new Date(created_at),
    );
    const cli = createCli(environment);
    const options = ['--older-than', '400d', '--json'];
    expect((await cli.run(['retention', 'run', ...options, '--dry-run'])).json()).toMatchObject([
      { transfers: 1, events: 2, files: [] },
    ]);
    const ran = await cli.run(['retention', 'run', ...options, '--export', folder]);
    expect(ran.json(), ran.stderr).toMatchObject([{ transfers: 1, completed: true }]);
    expect(await store.read(stream)).toEqual([]);
    for (const verb of ['get', 'retry', 'cancel'])
      expect(
        await cli.run(['transfers', verb, transfer_id, '--account', data.account_id]),
      ).toMatchObject({
        code: 3,
        stderr: expect.stringMatching(
          /left the log on .* The export waybill-before-.* has its events/,
        ),
      });
    // A repeated request still gets its first answer.
    const young = `${IDEMPOTENCY_HOURS}h`;
    expect(await cli.run(['retention', 'run', '--older-than', young, '--dry-run'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/at least 48h/),
    });
  });

  it('may remove a transfer of which an interrupted verification has read a part', async () => {
    const transfer = (await submitEnded(['read'])).at(-1) as RemovedTransfer;
    let saved: VerificationState | null = null;
    await verify([before], {
      batchSize: 1,
      async save(state) {
        if (String(state().position) === transfer.events[0]?.position) saved = state();
      },
    });
    expect(saved).not.toBeNull();
    await record([transfer]);
    await catchUp();
    await finishInterrupted(installation);
    expect(await installation.store.read(`transfer-${transfer.transfer_id}`)).toEqual([]);
    expect((await verify([before], { resume: saved })).faults).toEqual([]);
  });

  it('leaves its records in an export that began before', async () => {
    const { store } = installation;
    const [transfer] = (await submitEnded(['slow'])) as [RemovedTransfer];
    const before = await eventsIn();
    const until = await store.head();
    const exported: StoredEvent[] = [];
    for await (const { events } of readLogFrom(store, { from: null, until, batchSize: 1 })) {
      exported.push(...events);
      if (exported.length !== 1) continue;
      await record([transfer]);
      await catchUp();
      await finishInterrupted(installation);
    }
    const missing = before.filter(({ id }) => !exported.some((event) => event.id === id));
    expect(missing.map(({ stream }) => stream)).toContain(`transfer-${transfer.transfer_id}`);
    const named = retentionRecords(exported).flatMap(({ data }) =>
      data.transfers.flatMap(({ events }) => events.map(({ id }) => id)),
    );
    expect(named).toEqual(expect.arrayContaining(missing.map(({ id }) => id)));
  });

  it('removes nothing before the checkpoints of consumers are on disk', async () => {
    const { store, sql } = installation;
    const [transfer] = (await submitEnded(['durable'])) as [RemovedTransfer];
    await record([transfer]);
    await catchUp();
    let written = '0/0';
    const onDisk: boolean[] = [];
    const watched: EventStore = {
      ...store,
      // Each consumer asks for it when it catches up, before it moves its checkpoint.
      async head() {
        await sql.begin(async (tx) => {
          await tx`set local synchronous_commit = off`;
          await tx`update work.checkpoints set updated_at = now()`;
        });
        const [row] = await sql<{ lsn: string }[]>`select pg_current_wal_insert_lsn()::text as lsn`;
        written = row?.lsn as string;
        return store.head();
      },
      async remove(...given) {
        const [row] = await sql<{ flushed: boolean }[]>`
          select pg_current_wal_flush_lsn() >= ${written}::text::pg_lsn as flushed`;
        onDisk.push(row?.flushed as boolean);
        await store.remove(...given);
      },
    };
    await finishInterrupted({ ...installation, store: watched });
    expect(written).not.toBe('0/0');
    expect(onDisk).toEqual([true]);
  });

  it('lets nothing else leave the log', async () => {
    const { sql } = installation;
    const append = /append-only/;
    const prefix = installation.config.streamPrefix;
    const open = prefix + log.open;
    await expect(sql`delete from log.events where stream = ${open}`).rejects.toThrow(append);
    await expect(
      sql`select log.remove(${[open]}, ${prefix + RETENTION}, 0)`,
      'not named by this record',
    ).rejects.toThrow(append);
    await expect(sql`delete from log.removed`).rejects.toThrow(append);
    await expect(sql`truncate log.events`).rejects.toThrow(append);
    const { faults } = await verify([before]);
    expect(faults).toEqual([]);
  });

  it('shows a forged record that names the event of another stream', async () => {
    const { sql, commands } = installation;
    const request = { name: 'k', scopes: ['admin'], account: 'acc_default', expires_in: '1h' };
    const key = await createKey(commands, keyRequest.parse(request), CAUSE, { allowNever: false });
    await revokeKey(commands, key.id, CAUSE);
    await catchUp();
    const events = await eventsIn();
    const revoked = events.at(-1) as StoredEvent;
    expect(revoked.type).toBe('key.revoked');
    const tree = await sql<{ size: number }[]>`
      select (tile * 256 + length(hashes) / 32)::float8 as size from read.proof_tiles
       where level = 0 order by tile desc limit 1`;
    const leaf = {
      index: (tree[0]?.size ?? 0) - 1,
      hash: Buffer.from(hashOfLeaf(revoked)).toString('hex'),
    };
    const forged = { id: newId('evt'), position: String(revoked.position), ...leaf };
    const transfer_id = newId('txr');
    await record([{ transfer_id, account_id: 'acc_default', events: [forged] }]);
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`delete from log.events where position = ${revoked.position}`;
      await tx`insert into log.removed
               values (int8range(${revoked.position}, ${revoked.position}, '[]'))`;
    });
    await catchUp();
    expect((await verify([before])).faults).toContain(
      `a record of retention names it as transfer-${transfer_id} revision 0 (${forged.id}), ` +
        'which left the log',
    );
  });

  it('shows a stream that was removed without a record', async () => {
    const { sql } = installation;
    const open = installation.config.streamPrefix + log.open;
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`delete from log.events where stream = ${open}`;
    });
    const { faults } = await verify([before]);
    expect(faults).toContainEqual(expect.stringMatching(/is gone, with its whole stream/));
    // What left the log before is intact.
    expect(faults.filter((problem) => /elsewhere|was inserted|left empty/.test(problem))).toEqual(
      [],
    );
    expect((await verify([])).faults).toContainEqual(expect.stringMatching(/^no event has pos/));
  });

  it('shows a forged record that hides the end of a transfer', async () => {
    const { sql, store } = installation;
    const [transfer] = (await submitEnded(['replaced'])) as [RemovedTransfer];
    const stream = `transfer-${transfer.transfer_id}`;
    const end = (await store.read(stream)).at(-1) as StoredEvent;
    await record([{ ...transfer, events: transfer.events.slice(-1) }]);
    await sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await tx`delete from log.events where position = ${end.position}`;
      await tx`insert into log.removed values (int8range(${end.position}, ${end.position}, '[]'))`;
    });
    await store.append(stream, 0, [{ ...end, id: newId('evt') }]);
    await catchUp();
    expect((await verify([before])).faults).toContain(
      `it says that ${stream} left the log, and the log has other events of it`,
    );
  });

  it('shows a transfer that left the log and begins again', async () => {
    const data = transferCreated({ transfer_id: idOf(log.completed) });
    const forged = [{ type: 'transfer.created', data }, TRANSFER_EVENTS.cancelled];
    await appendEvents(installation.store, log.completed, forged, data.account_id, new Date());
    await catchUp();
    expect((await verify([before])).faults).toContainEqual(
      expect.stringMatching(/^the record of retention at .* left the log, and it begins again$/),
    );
  });

  it('shows a transfer that begins again after a forged position of its record', async () => {
    const { sql } = installation;
    const id = idOf(log.completed);
    await sql`update read.retained_transfers set position = 1000000 where transfer_id = ${id}`;
    expect((await verify([before])).faults).toContainEqual(
      expect.stringMatching(`^the API says that 1 of its .* later, such as ${id}: `),
    );
  });
}

describeWithPostgres('retention in the embedded log', () => retentionTests(async () => ({}), true));

describe('retention', () => {
  describeOnEventStoreDb('in the log', (start) => {
    retentionTests(async () => (await start()).settings, false);
  });
});
