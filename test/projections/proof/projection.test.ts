import pino from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../../src/adapters/event-store/postgres/log.ts';
import type { Fragment } from '../../../src/adapters/postgres/connect.ts';
import { createLocks } from '../../../src/adapters/postgres/locks.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { CHECKPOINTS, RETENTION } from '../../../src/domain/events/streams.ts';
import { createFrontier } from '../../../src/domain/proof/frontier.ts';
import { type Hash, leafHash } from '../../../src/domain/proof/hash.ts';
import { hashOfLeaf, leafOf } from '../../../src/domain/proof/leaf.ts';
import { isConsistent, rootOfInclusion } from '../../../src/domain/proof/proofs.ts';
import type { CheckpointSigned } from '../../../src/domain/proof/signed-checkpoint.ts';
import { startCheckpoint } from '../../../src/projections/checkpoint.ts';
import { proofProjection } from '../../../src/projections/proof/projection.ts';
import {
  consistencyProof,
  findLeaves,
  inclusionProofs,
  rootAt,
} from '../../../src/projections/proof/tiles.ts';
import { prepareReadModels, projectionConsumer } from '../../../src/projections/read-models.ts';
import { foldToEnd } from '../../../src/projections/rebuild/fold-to-end.ts';
import { createRemovedLeaves } from '../../../src/projections/retention/removed-leaves.ts';
import { catchUpIfIdle } from '../../../src/projections/run-consumer.ts';
import { event } from '../../adapters/event-store/events.ts';
import { createLog } from '../../support/domain/histories.ts';
import { beforeCalls } from '../../support/event-store/before-calls.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../../support/postgres/test-database.ts';

const hex = (hash: Hash) => Buffer.from(hash).toString('hex');

describeWithPostgres('the tree over the log', () => {
  let database: TestDatabase;
  let schemas = 0;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database?.drop());

  /** A log of `count` events in streams of three events. */
  function logOf(count: number): StoredEvent[] {
    const log = createLog();
    for (let i = 0; i < count; i += 1)
      log.append(`any-${Math.floor(i / 3)}`, { type: 'any.happened', data: { number: i } });
    return log.events;
  }

  async function newTree(): Promise<string> {
    const schema = `tree_${++schemas}`;
    await database.sql.begin(async (tx) => {
      await tx`create schema ${tx(schema)}`;
      await proofProjection.create(tx, schema);
    });
    return schema;
  }

  async function fold(schema: string, events: StoredEvent[], batch = events.length): Promise<void> {
    for (let from = 0; from < events.length; from += batch)
      await database.sql.begin((tx) =>
        proofProjection.apply(tx, schema, events.slice(from, from + batch)),
      );
  }

  function rootOf(events: StoredEvent[]): Hash {
    const frontier = createFrontier();
    for (const event of events) frontier.append(leafHash(leafOf(event)));
    return frontier.root();
  }

  const tilesOf = (schema: string) => database.sql`
    select * from ${database.sql(schema)}.proof_tiles order by level, tile`;

  const checkpointsOf = (schema: string) => database.sql`
    select * from ${database.sql(schema)}.proof_checkpoints order by revision`;

  const leaves = (events: StoredEvent[]) =>
    events.map((event) => ({ event, hash: leafHash(leafOf(event)) }));

  it('is the same, whatever the batches', async () => {
    const events = logOf(1_300);
    const [whole, pieces] = [await newTree(), await newTree()];
    await fold(whole, events);
    await fold(pieces, events, 77);
    expect(await tilesOf(pieces)).toEqual(await tilesOf(whole));
    expect(await rootAt(database.sql, whole, 1_300)).toEqual(rootOf(events));
    expect(await rootAt(database.sql, whole, 256)).toEqual(rootOf(events.slice(0, 256)));
  });

  it('proves every event at its place, and that it only grew', async () => {
    const events = logOf(600);
    const schema = await newTree();
    await fold(schema, events, 100);
    const { sql } = database;
    const found = await findLeaves(sql, schema, leaves(events));
    expect([...found.values()]).toEqual(events.map((_, i) => i));
    const root = hex(rootOf(events));
    const proofs = await inclusionProofs(sql, schema, [0, 255, 256, 599], 600);
    for (const [i, index] of [0, 255, 256, 599].entries()) {
      const leaf = leafHash(leafOf(events[index] as StoredEvent));
      const way = proofs[i] as Hash[];
      expect(hex(rootOfInclusion(leaf, index, 600, way) as Hash)).toBe(root);
    }
    const proof = await consistencyProof(sql, schema, 300, 600);
    const head = (size: number) => ({ size, root: rootOf(events.slice(0, size)) });
    expect(isConsistent(head(300), head(600), proof)).toBe(true);
  });

  it('has no leaf of an event that was changed, or is not folded yet', async () => {
    const events = logOf(10);
    const schema = await newTree();
    await fold(schema, events.slice(0, 9));
    const changed = { ...(events[3] as StoredEvent), data: { number: 33 } };
    const found = await findLeaves(
      database.sql,
      schema,
      leaves([changed, events[9] as StoredEvent]),
    );
    expect([...found.values()]).toEqual([null, null]);
  });

  it('takes no event twice, also of those that share a position', async () => {
    const events = logOf(520).map((event) => ({
      ...event,
      position: BigInt(Math.ceil(Number(event.position) / 4)),
    }));
    const [once, twice] = [await newTree(), await newTree()];
    await fold(once, events);
    await fold(twice, events.slice(0, 258));
    await fold(twice, events.slice(250));
    expect(await tilesOf(twice)).toEqual(await tilesOf(once));
    const found = await findLeaves(database.sql, once, leaves(events));
    expect([...found.values()]).toEqual(events.map((_, i) => i));
  });

  it('is the same where a rebuild fills it', async () => {
    // Events that share positions across the batches, and a checkpoint in the middle.
    const log = createLog();
    for (let i = 0; i < 1_000; i += 1) log.append('any-1', { type: 'any.happened', data: { i } });
    const data = signed(1_000, rootOf(log.events));
    log.append(CHECKPOINTS, { type: 'log.checkpoint_signed', data });
    for (let i = 0; i < 400; i += 1) log.append('any-2', { type: 'any.happened', data: { i } });
    const events = log.events.map((event) => ({
      ...event,
      position: BigInt(Math.ceil(Number(event.position) / 4)),
    }));
    const [folded, filled] = [await newTree(), await newTree()];
    await fold(folded, events);
    const { sql } = database;
    const fill = (proofProjection.createFill as NonNullable<typeof proofProjection.createFill>)(
      sql,
      filled,
    );
    const store = createPostgresLog({ sql, prefix: 'empty_' });
    let written = 0;
    for (let from = 0; from < events.length; from += 90) {
      const batch = events.slice(from, from + 90);
      const writes = await fill(batch, createRemovedLeaves(store, null));
      if (writes) {
        written += 1;
        await sql`with moved as (select 1) ${writes(sql)} select from moved`;
      } else await sql.begin((tx) => proofProjection.apply(tx, filled, batch));
    }
    await store.close();
    expect(written).toBeGreaterThan(5);
    expect(await tilesOf(filled)).toEqual(await tilesOf(folded));
    expect(await checkpointsOf(filled)).toEqual(await checkpointsOf(folded));
  });

  it('leaves out the positions', async () => {
    const events = logOf(20);
    const [schema, copied] = [await newTree(), await newTree()];
    await fold(schema, events);
    await fold(
      copied,
      events.map((event) => ({ ...event, position: event.position * 1_000n })),
    );
    expect(hex(await rootAt(database.sql, copied, 20))).toBe(
      hex(await rootAt(database.sql, schema, 20)),
    );
  });

  it('has the events as they are stored, not upcast', async () => {
    const store: EventStore = createPostgresLog({ sql: database.sql, prefix: 'test_' });
    const { id, metadata } = logOf(1)[0] as StoredEvent;
    // An older version wrote this event without `retry_of`.
    const old = {
      id: `evt_${id}`,
      type: 'transfer.created',
      schema_version: 1,
      data: {},
      metadata,
    };
    await store.append('transfer-txr_old', 'no_stream', [old]);
    const [stored] = await store.read('transfer-txr_old');
    await store.close();
    expect(leafOf(stored as StoredEvent)).toContain('"data":{},');
    expect(proofProjection.asStored).toBe(true);
  });

  it('reads the records of what left the log before its transaction begins', async () => {
    const { sql, url } = database;
    await prepareReadModels(sql, 'log-1');
    const log = createPostgresLog({ sql, prefix: 'retained_' });
    const append = async (stream: string, type: string, data: object) => {
      await log.append(stream, 'no_stream', [{ ...event(), type, data }]);
      return (await log.read(stream))[0] as StoredEvent;
    };
    const gone = await append('transfer-txr_gone', 'any.happened', {});
    const first = [gone, await append('any-1', 'any.happened', {})];
    const checkpoint = await append(CHECKPOINTS, 'log.checkpoint_signed', signed(2, rootOf(first)));
    const { id, position } = gone;
    const record = await append(RETENTION, 'log.retention_recorded', {
      ended_before: '2026-03-01T10:00:00.000Z',
      export: { name: 'export.ndjson', sha256: '0'.repeat(64) },
      checkpoint: { size: 2, root_hash: hex(rootOf(first)) },
      transfers: [
        {
          ...{ transfer_id: 'txr_gone', account_id: 'acc_default' },
          events: [{ id, index: 0, position: String(position), hash: hex(hashOfLeaf(gone)) }],
        },
      ],
    });
    const kept: StoredEvent[] = [];
    for (let i = 0; i < 30; i += 1) kept.push(await append(`kept-${i}`, 'any.happened', {}));
    await log.remove([gone.stream], record);
    const open: number[] = [];
    const store = beforeCalls(log, async () => {
      const found = await sql`
        select from pg_stat_activity
         where datname = current_database() and state like 'idle in transaction%'`;
      open.push(found.length);
    });
    const locks = createLocks(url);
    const logger = pino({ level: 'silent' });
    const shadow = await newTree();
    const steps: number[] = [];
    await startCheckpoint(sql, 'read.checkpoints', shadow, 'log-1', proofProjection.version);
    try {
      const deps = { store, sql, locks, logId: 'log-1', logger };
      await catchUpIfIdle(deps, projectionConsumer(proofProjection));
      const { signal } = new AbortController();
      const tables = { schema: shadow, checkpoint: shadow };
      await foldToEnd(deps, proofProjection, tables, signal, (count) => steps.push(count));
    } finally {
      await Promise.all([locks.close(), log.close()]);
    }
    const root = hex(rootOf([...first, checkpoint, record, ...kept]));
    expect(hex(await rootAt(sql, 'read', 34))).toBe(root);
    expect(hex(await rootAt(sql, shadow, 34))).toBe(root);
    expect(new Set(open)).toEqual(new Set([0]));
    // Small steps until the leaf of the removed event is added.
    expect(steps).toEqual([25, 8]);
  });

  function signed(size: number, root: Hash): CheckpointSigned {
    return {
      size,
      root_hash: hex(root),
      key_id: '00000000',
      note: 'a note',
      signed_at: '2026-03-01T10:00:00.000Z',
    };
  }

  it('is compared with every checkpoint in the log', async () => {
    const log = createLog();
    const schema = await newTree();
    for (let i = 0; i < 300; i += 1) log.append('any-1', { type: 'any.happened', data: { i } });
    const data = signed(290, rootOf(log.events.slice(0, 290)));
    log.append(CHECKPOINTS, { type: 'log.checkpoint_signed', data });
    await fold(schema, log.events);
    const { sql } = database;
    const [row] = await sql`select size, leaf, revision from ${sql(schema)}.proof_checkpoints`;
    expect(row).toEqual({ size: 290n, leaf: 300n, revision: 0 });

    const later = log.append('any-1', { type: 'any.happened', data: {} });
    const forged = signed(301, rootOf(log.events.slice(0, 300)));
    const event = log.append(CHECKPOINTS, { type: 'log.checkpoint_signed', data: forged });
    await expect(fold(schema, [later, event])).rejects.toThrow('the log was changed after it was');
    const ahead = signed(303, rootOf(log.events));
    await expect(fold(schema, [later, { ...event, data: ahead }])).rejects.toThrow(
      'it signs a tree of 303 leaves and is leaf 302',
    );
  });

  it('tells which tile differs from another', async () => {
    const events = logOf(700);
    const [live, shadow] = [await newTree(), await newTree()];
    await fold(live, events.slice(0, 650));
    await fold(shadow, events);
    const { sql } = database;
    const differences = () =>
      sql.begin((tx) =>
        proofProjection.differences(tx, { live, shadow, position: 650n, limit: 20 }),
      );
    expect(await differences()).toEqual([]);
    await sql`
      update ${sql(live)}.proof_tiles set hashes = set_byte(hashes, 100, 255 - get_byte(hashes, 100))
       where level = 0 and tile = 1`;
    expect(await differences()).toEqual([{ key: 'tile 0/1' }]);
    await sql`delete from ${sql(live)}.proof_tiles where level = 0 and tile = 1`;
    expect(await differences()).toEqual([{ key: 'tile 0/1' }]);
  });

  it.each([
    ...['last_position = 1', 'names = null', "names = names || 'x'"],
    "names = split_part(names, E'\n', 1)",
  ])('tells which tile has other names or positions: %s', async (change) => {
    const events = logOf(300);
    const [live, shadow] = [await newTree(), await newTree()];
    for (const schema of [live, shadow]) await fold(schema, events);
    const { sql } = database;
    await sql`update ${sql(live)}.proof_tiles set ${sql.unsafe(change)} where tile = 1`;
    expect(
      await sql.begin((tx) =>
        proofProjection.differences(tx, { live, shadow, position: 300n, limit: 20 }),
      ),
    ).toEqual([{ key: 'tile 0/1' }]);
  });

  it.each([
    ['as far as the log', 650, 650],
    ['ahead', 700, 650],
    ['behind', 650, 700],
  ])('tells which tiles of a tree that is %s are missing, short or extra', async (...sizes) => {
    const [, liveSize, shadowSize] = sizes;
    const events = logOf(700);
    const [live, shadow] = [await newTree(), await newTree()];
    await fold(live, events.slice(0, liveSize));
    await fold(shadow, events.slice(0, shadowSize));
    const { sql } = database;
    const tiles = sql`${sql(live)}.proof_tiles`;
    const undo = new Error();
    /** The keys of the tiles that differ after a change, which is undone. */
    async function keysAfter(change: Fragment): Promise<string[]> {
      let found: { key: string }[] = [];
      const work = sql.begin(async (tx) => {
        await tx`${change}`;
        found = await proofProjection.differences(tx, { live, shadow, position: 650n, limit: 20 });
        throw undo;
      });
      await expect(work).rejects.toBe(undo);
      return found.map(({ key }) => key).sort();
    }
    expect(await keysAfter(sql`select`)).toEqual([]);
    expect(await keysAfter(sql`delete from ${tiles} where level = 1`)).toEqual(['tile 1/0']);
    const cut = (level: number, tile: number, hashes: number) => sql`
      update ${tiles} set hashes = substr(hashes, 1, 32 * ${hashes}::integer)
       where level = ${level} and tile = ${tile}`;
    expect(await keysAfter(cut(1, 0, 1))).toEqual(['tile 1/0']);
    expect(await keysAfter(cut(0, 0, 100))).toEqual(['tile 0/0']);
    const added = (level: number, tile: number) => sql`
      insert into ${tiles} (level, tile, hashes)
      values (${level}, ${tile}, decode(repeat('ab', 32), 'hex'))`;
    expect(await keysAfter(added(2, 0))).toEqual(['tile 2/0']);
    expect(await keysAfter(added(1, 1))).toEqual(['tile 1/1']);
    // While the log is ahead, it does not say how many of the last leaves the tree must have.
    if (shadowSize > liveSize) return;
    expect(await keysAfter(cut(0, 2, 100))).toEqual(['tile 0/2']);
    expect(await keysAfter(sql`delete from ${tiles} where level = 0 and tile = 2`)).toEqual([
      'tile 0/2',
    ]);
    expect(await keysAfter(sql`delete from ${tiles}`)).toEqual([
      ...['tile 0/0', 'tile 0/1', 'tile 0/2', 'tile 1/0'],
    ]);
  });
});
