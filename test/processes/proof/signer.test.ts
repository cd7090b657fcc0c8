import { createPublicKey } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { ensureSigningKey, loadSigningKey, rotateSigningKey } from '../../../src/commands/log.ts';
import { CHECKPOINTS, SIGNING_KEYS } from '../../../src/domain/events/streams.ts';
import { newId } from '../../../src/domain/ids.ts';
import { headOfNote, originOf } from '../../../src/domain/proof/checkpoint.ts';
import { createFrontier } from '../../../src/domain/proof/frontier.ts';
import { leafHash } from '../../../src/domain/proof/hash.ts';
import { leafOf } from '../../../src/domain/proof/leaf.ts';
import { isSignedBy, type Note, parseNote } from '../../../src/domain/proof/note.ts';
import { createHealth } from '../../../src/health.ts';
import { housekeepOnce } from '../../../src/processes/housekeeping/housekeeping.ts';
import { checkpointNow } from '../../../src/processes/proof/checkpoint-now.ts';
import { runSigner, type SignerStatus, signIfNeeded } from '../../../src/processes/proof/signer.ts';
import { listSigningKeys } from '../../../src/projections/proof/queries.ts';
import { readToEnd } from '../../../src/projections/read-to-end.ts';
import { rebuildProjection } from '../../../src/projections/rebuild/rebuild.ts';
import {
  describeOnEventStoreDb,
  type EventStoreServer,
} from '../../support/event-store/eventstoredb.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  CAUSE,
  openTestInstallation,
  type TestInstallation,
} from '../../support/service/installation.ts';

describeWithPostgres('the signer of checkpoints on the embedded log', () => {
  signerTests(() => openTestInstallation());
});

describeOnEventStoreDb('the signer of checkpoints', (start) => {
  let server: EventStoreServer;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server?.close());
  signerTests(() => openTestInstallation(server.settings));
});

function signerTests(open: () => Promise<TestInstallation>): void {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await open();
  });
  afterAll(() => installation?.close());

  const happen = () => {
    const stream = `any-${newId('req')}`;
    return installation.store.append(stream, 'no_stream', [
      {
        id: newId('evt'),
        type: 'any.happened',
        schema_version: 1,
        data: { stream },
        metadata: {
          actor: 'test',
          account_id: null,
          correlation_id: 'test',
          causation_id: null,
          occurred_at: new Date().toISOString(),
          prev_hash: null,
        },
      },
    ]);
  };
  const now = () => checkpointNow(installation, CAUSE);
  const checkpoints = async () => (await installation.store.read(CHECKPOINTS)).length;

  async function rootOfLog(size: number): Promise<string> {
    const tree = createFrontier();
    for await (const { events } of readToEnd(installation.store, ['']))
      for (const event of events) if (tree.size() < size) tree.append(leafHash(leafOf(event)));
    expect(tree.size()).toBe(size);
    return Buffer.from(tree.root()).toString('hex');
  }

  it('signs the whole log with a key that the log names', async () => {
    await happen();
    const signed = await now();
    expect(headOfNote(signed.note)).toMatchObject({
      origin: originOf(installation.logId),
      size: signed.size,
    });
    expect(signed.root_hash).toBe(await rootOfLog(signed.size));
    const keys = await listSigningKeys(installation.sql, installation.logId);
    expect(keys).toMatchObject([{ key_id: signed.key_id, until: null, signed_by_previous: null }]);
    const publicKey = createPublicKey(keys[0]?.public_key as string);
    expect(isSignedBy(parseNote(signed.note) as Note, publicKey)).toBe(true);
    expect(isSignedBy(parseNote(keys[0]?.statement as string) as Note, publicKey)).toBe(true);
    const [created] = await installation.store.read(SIGNING_KEYS);
    expect(JSON.stringify(created?.data)).not.toContain('PRIVATE');
  });

  it('signs nothing while nothing happens but checkpoints', async () => {
    const before = await now();
    expect(await now()).toEqual(before);
    await installation.commands.catchUp('proof');
    expect(await signIfNeeded(installation, CAUSE)).toBeNull();
    await happen();
    expect((await now()).size).toBeGreaterThan(before.size);
  });

  it('never signs two roots, also from several processes at once', async () => {
    const before = await checkpoints();
    await happen();
    await installation.commands.catchUp('proof');
    const signed = await Promise.all(
      Array.from({ length: 5 }, () => signIfNeeded(installation, CAUSE)),
    );
    expect(signed.filter((each) => each !== null)).toHaveLength(1);
    expect(await checkpoints()).toBe(before + 1);
  });

  it('waits for a node of a cluster that does not have the last checkpoint yet', async () => {
    await happen();
    await now();
    await happen();
    await installation.commands.catchUp('proof');
    const { store } = installation;
    let missed = 0;
    const stale: EventStore = {
      ...store,
      staleMs: 10_000,
      read: async (stream, ...given) =>
        stream === CHECKPOINTS && missed++ < 2 ? [] : store.read(stream, ...given),
    };
    expect(await signIfNeeded({ ...installation, store: stale }, CAUSE)).not.toBeNull();
    expect(missed).toBeGreaterThan(2);
  });

  it('has one key, also if several processes start at once', async () => {
    const keys = await Promise.all(
      Array.from({ length: 5 }, () => ensureSigningKey(installation, CAUSE)),
    );
    expect(new Set(keys.map(({ key_id }) => key_id)).size).toBe(1);
    expect(await installation.store.read(SIGNING_KEYS)).toHaveLength(1);
  });

  it('works in the background, and shows what is signed', async () => {
    const before = await now();
    await happen();
    const health = createHealth(installation);
    const stopping = new AbortController();
    const report = health.report('signer');
    const told: SignerStatus[] = [];
    const running = runSigner(
      installation,
      stopping.signal,
      (status) => {
        told.push(status);
        report(status);
      },
      50,
    );
    try {
      // No other process folds the log in this test.
      await expect
        .poll(
          async () => {
            await installation.commands.catchUp('proof');
            return (await health.ready()).checks.signer;
          },
          { timeout: 30_000 },
        )
        .toEqual({ ok: true, detail: `the last checkpoint covers ${before.size + 2} events` });
    } finally {
      stopping.abort();
      await running;
    }
    expect(told[0]).toEqual({ state: 'stand_by' });
    expect(await checkpoints()).toBeGreaterThan(0);
  });

  it('shows at once what it has signed, also while the tables are behind', async () => {
    const before = await now();
    await happen();
    await installation.commands.catchUp('proof');
    const stopping = new AbortController();
    const told: SignerStatus[] = [];
    // Nothing folds the checkpoint that it signs.
    const running = runSigner(installation, stopping.signal, (status) => told.push(status), 50);
    const signing = (size: number): SignerStatus => ({ state: 'signing', size });
    try {
      await expect.poll(() => told, { timeout: 30_000 }).toContainEqual(signing(before.size + 2));
      const rounds = told.length;
      await expect.poll(() => told.length, { timeout: 30_000 }).toBeGreaterThan(rounds + 1);
      expect(told.at(-1)).toEqual(signing(before.size + 2));
    } finally {
      stopping.abort();
      await running;
    }
  });

  it('signs also if no process lives until the next checkpoint', async () => {
    await now();
    await happen();
    await installation.commands.catchUp('proof');
    const before = await checkpoints();
    await expect
      .poll(
        async () => {
          await runSigner(installation, AbortSignal.timeout(500), () => undefined, 1_000);
          return checkpoints();
        },
        { timeout: 60_000, interval: 1 },
      )
      .toBe(before + 1);
  });

  it('keeps its private key when housekeeping sweeps the vault', async () => {
    const { sql } = installation;
    await sql`update work.vault set created_at = now() - interval '2 hours'`;
    for (const name of ['catalog', 'proof'] as const) await installation.commands.catchUp(name);
    await housekeepOnce(
      { ...installation, purges: {}, recordsOfApi: async () => [] },
      new AbortController().signal,
    );
    await happen();
    expect(await now()).toMatchObject({
      key_id: (await loadSigningKey(installation.store))?.key_id,
    });
  });

  it('rotates its key, and the old key signs the new one', async () => {
    const old = (await loadSigningKey(installation.store)) as {
      key_id: string;
      public_key: string;
    };
    const { key_id, statement } = await rotateSigningKey(installation, CAUSE, { lost: false });
    expect(key_id).not.toBe(old.key_id);
    const note = parseNote(statement) as Note;
    expect(isSignedBy(note, createPublicKey(old.public_key))).toBe(true);
    expect((await now()).key_id).toBe(key_id);
    const keys = await listSigningKeys(installation.sql, installation.logId);
    expect(keys).toMatchObject([
      { key_id: old.key_id, until: keys[1]?.since },
      { key_id, until: null, signed_by_previous: true },
    ]);
  });

  it('waits for a node of a cluster that does not have the last rotation yet', async () => {
    await now();
    const { store } = installation;
    const [old] = (await store.read(SIGNING_KEYS)).slice(-1);
    const { key_id } = await rotateSigningKey(installation, CAUSE, { lost: false });
    await happen();
    await installation.commands.catchUp('proof');
    let missed = 0;
    const stale: EventStore = {
      ...store,
      staleMs: 10_000,
      read: async (stream, from = 0, ...given) =>
        stream === SIGNING_KEYS && missed++ < 2
          ? (await store.read(stream, from, ...given)).filter(
              ({ revision }) => revision <= (old?.revision ?? 0),
            )
          : store.read(stream, from, ...given),
    };
    const signed = await signIfNeeded({ ...installation, store: stale }, CAUSE);
    expect(signed?.key_id).toBe(key_id);
    expect(missed).toBeGreaterThan(2);
  });

  it('needs a lost key to be given up by hand', async () => {
    const old = await ensureSigningKey(installation, CAUSE);
    await installation.sql`delete from work.vault where id = ${old.key_record}`;
    await happen();
    await expect(now()).rejects.toThrow(`${old.key_record} is not in the vault`);
    await expect(rotateSigningKey(installation, CAUSE, { lost: false })).rejects.toThrow('vault');
    const { key_id } = await rotateSigningKey(installation, CAUSE, { lost: true });
    expect((await now()).key_id).toBe(key_id);
    expect((await listSigningKeys(installation.sql, installation.logId)).at(-1)).toMatchObject({
      key_id,
      signed_by_previous: false,
    });
  });

  // Runs last: from here on the tables say that the log was changed.
  it('stops when the tree is not the one that was signed', async () => {
    await now();
    await happen();
    await installation.commands.catchUp('proof');
    const { sql } = installation;
    const change = () => sql`
      update read.proof_tiles set hashes = set_byte(hashes, 3, 255 - get_byte(hashes, 3))
       where level = 0 and tile = 0`;
    await change();
    const before = await checkpoints();
    await expect(signIfNeeded(installation, CAUSE)).rejects.toThrow(
      /the log was changed after it was signed, or the table .* waybill projections rebuild proof$/,
    );
    await change();
    await sql`
      update read.proof_tiles set hashes = substr(hashes, 1, 32) where level = 0 and tile = 0`;
    await expect(signIfNeeded(installation, CAUSE)).rejects.toThrow(
      /^a checkpoint signs \d+ events, and the tree has 1: .* waybill projections rebuild proof$/,
    );
    await rebuildProjection(installation, 'proof', () => undefined);
    await sql`update read.proof_checkpoints set note = 'another'`;
    await expect(signIfNeeded(installation, CAUSE)).rejects.toThrow(
      /is not in the log any more as it was signed, .* waybill projections rebuild proof$/,
    );
    expect(await checkpoints()).toBe(before);
  });
}

describeWithPostgres('a log that was changed after it was signed', () => {
  let installation: TestInstallation;
  beforeAll(async () => {
    installation = await openTestInstallation();
    await checkpointNow(installation, CAUSE);
  });
  afterAll(() => installation?.close());

  it('is noticed when its tree is folded again', async () => {
    const { sql } = installation;
    await sql.begin(async (tx) => {
      await tx`alter table log.events disable trigger user`;
      await tx`update log.events set data = replace(data, 'log_id', 'log_ID') where position = 1`;
      await tx`alter table log.events enable trigger user`;
    });
    expect((await installation.store.read('log'))[0]?.data).toHaveProperty('log_ID');
    await expect(rebuildProjection(installation, 'proof', () => undefined)).rejects.toThrow(
      'the log was changed after it was signed',
    );
  });
});
