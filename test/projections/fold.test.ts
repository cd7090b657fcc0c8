import { Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EventBatch } from '../../src/adapters/event-store/port.ts';
import { createPostgresLog } from '../../src/adapters/event-store/postgres/log.ts';
import { batchDecider } from '../../src/domain/batches/batch.ts';
import { endpointDecider } from '../../src/domain/endpoints/decider.ts';
import type { EndpointState } from '../../src/domain/endpoints/endpoint.ts';
import type { Decider } from '../../src/domain/events/decider.ts';
import type { Event, StoredEvent } from '../../src/domain/events/event.ts';
import type { KeyState } from '../../src/domain/key.ts';
import { keyDecider } from '../../src/domain/key.ts';
import { transferDecider } from '../../src/domain/transfers/decider.ts';
import type { Transfer, TransferEvent } from '../../src/domain/transfers/transfer.ts';
import type { WebhookState } from '../../src/domain/webhook.ts';
import { webhookDecider } from '../../src/domain/webhook.ts';
import { catalogProjection } from '../../src/projections/catalog/projection.ts';
import { restartCheckpoint } from '../../src/projections/checkpoint.ts';
import { foldBatch } from '../../src/projections/fold.ts';
import type { Projection } from '../../src/projections/projection.ts';
import { prepareReadModels, projectionConsumer } from '../../src/projections/read-models.ts';
import { foldToEnd } from '../../src/projections/rebuild/fold-to-end.ts';
import { createRemovedLeaves } from '../../src/projections/retention/removed-leaves.ts';
import { prepareBatch } from '../../src/projections/save-batch.ts';
import { transfersProjection } from '../../src/projections/transfers/projection.ts';
import { catalogLogs, createLog, transferLogs } from '../support/domain/histories.ts';
import { batchCreated, TRANSFER_EVENTS, transferCreated } from '../support/domain/samples.ts';
import {
  createTestDatabase,
  describeWithPostgres,
  type TestDatabase,
} from '../support/postgres/test-database.ts';

const created: TransferEvent = { type: 'transfer.created', data: transferCreated() };

describe('foldBatch', () => {
  const none = new Map();

  it('stops at a gap, and names the event', () => {
    const log = createLog();
    for (const event of [created, TRANSFER_EVENTS.admitted, TRANSFER_EVENTS.started])
      log.append('transfer-a', event);
    const [first, , third] = log.events as [StoredEvent, StoredEvent, StoredEvent];
    expect(() => foldBatch([first, third], none, transferDecider)).toThrow(
      `Cannot fold event ${third.id} (transfer.in_progress, transfer-a, revision 2, position ` +
        '3): the last folded revision is 0',
    );
  });

  it('stops at data that Waybill does not write, and names the event', () => {
    const log = createLog();
    for (const event of [
      { type: 'batch.created', data: batchCreated() },
      { type: 'batch.listed', data: {} },
    ])
      log.append('batch-a', event);
    expect(() => foldBatch(log.events, none, batchDecider)).toThrow(
      `Cannot fold event ${log.events[1]?.id} (batch.listed, batch-a, revision 1, position 2): its ` +
        'data is not that of its type',
    );
  });

  it.each([
    ['a stream that starts with another event', [TRANSFER_EVENTS.admitted]],
    ['an event that cannot follow', [created, TRANSFER_EVENTS.completed]],
    ['an event after the end', [created, TRANSFER_EVENTS.cancelled, TRANSFER_EVENTS.admitted]],
    ['an unknown type', [created, { type: 'transfer.teleported', data: {} }]],
  ] as [string, Event[]][])('stops at %s', (_, events) => {
    const log = createLog();
    for (const event of events) log.append('transfer-a', event);
    const last = log.events.at(-1)!;
    expect(() => foldBatch(log.events, none, transferDecider)).toThrow(
      `Cannot fold event ${last.id} (${last.type}, transfer-a, revision ${last.revision}`,
    );
  });
});

describeWithPostgres('a projection', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
    await prepareReadModels(database.sql, 'log-1');
  });
  afterAll(() => database?.drop());

  /**
   * Folds batches of this size into separate tables: as the consumer or the take-over of a rebuild
   * does, each batch twice, or as a rebuild does. Returns all rows.
   */
  async function tablesAfter(
    projection: Projection,
    events: StoredEvent[],
    batchSize: number,
    writer: 'consumer' | 'take-over' | 'rebuild',
  ): Promise<Record<string, unknown>[][]> {
    const { sql } = database;
    const schema = 'folded';
    await sql.begin(async (tx) => {
      await tx`create schema ${tx(schema)}`;
      await projection.create(tx, schema);
    });
    const consumer = projectionConsumer(projection, schema);
    await restartCheckpoint(sql, consumer, 'log-1');
    const log = createPostgresLog({ sql, prefix: '' });
    const removed = createRemovedLeaves(log, null);
    const batches: EventBatch[] = [];
    for (let i = 0; i < events.length; i += batchSize) {
      const batch = events.slice(i, i + batchSize);
      const caughtUp = i + batchSize >= events.length;
      batches.push({ events: batch, position: batch.at(-1)!.position, caughtUp });
    }
    if (writer === 'rebuild' && batches.length > 0) {
      const store = { ...log, subscribe: () => Readable.from(batches) };
      const { signal } = new AbortController();
      const tables = { schema, checkpoint: consumer.name };
      await foldToEnd({ sql, store }, projection, tables, signal, () => undefined);
    }
    let from = 0n;
    for (const { events: batch, position: to } of writer === 'rebuild' ? [] : batches) {
      for (let time = 0; time < 2; time++) {
        if (writer === 'consumer')
          await (await prepareBatch(sql, consumer, batch, removed, { from, to })).save();
        else await sql.begin((tx) => projection.apply(tx, schema, batch));
        from = to;
      }
    }
    const rows = await Promise.all(
      projection.tables.map((table) => sql`select * from ${sql(schema)}.${sql(table)} order by 1`),
    );
    await sql`drop schema ${sql(schema)} cascade`;
    return rows.map((table) => [...table]);
  }

  const batchSizes = fc.constantFrom(1, 2, 3, 7, 100);
  const writers = fc.constantFrom('consumer' as const, 'take-over' as const, 'rebuild' as const);

  it('of transfers is the fold of the log, however the log is split into batches', async () => {
    await fc.assert(
      fc.asyncProperty(transferLogs, batchSizes, writers, async (events, batchSize, writer) => {
        const [rows, counts, inBatches, totals] = await tablesAfter(
          transfersProjection,
          events,
          batchSize,
          writer,
        );
        const states = statesOf(events, transferDecider) as Map<string, Folded<Transfer>>;
        expect(rows).toEqual(
          [...states.values()]
            .map(({ state, revision, position }) => ({
              transfer_id: state.facts.transfer_id,
              account_id: state.facts.account_id,
              status: state.status,
              created_at: state.facts.created_at,
              destination: state.facts.destination,
              revision,
              position,
              state,
            }))
            .toSorted((a, b) => (a.transfer_id < b.transfer_id ? -1 : 1)),
        );
        const expected: Record<string, bigint> = {};
        for (const { state } of states.values()) {
          const of = `${state.facts.account_id} ${state.status} ${state.facts.created_at.slice(0, 13)}`;
          expected[of] = (expected[of] ?? 0n) + 1n;
        }
        const kept = counts!.filter(({ transfers }) => transfers !== 0n);
        expect(
          Object.fromEntries(
            kept.map((row) => [
              `${row.account_id} ${row.status} ${String(row.hour).slice(0, 13)}`,
              row.transfers,
            ]),
          ),
        ).toEqual(expected);
        const ofBatches: Record<string, [transfers: bigint, bytes: bigint]> = {};
        for (const { state } of states.values()) {
          if (state.facts.batch_id === undefined) continue;
          const of = `${state.facts.batch_id} ${state.status}`;
          const [transfers, bytes] = ofBatches[of] ?? [0n, 0n];
          ofBatches[of] = [transfers + 1n, bytes + BigInt(state.facts.size_bytes ?? 0)];
        }
        expect(
          Object.fromEntries(
            inBatches!
              .filter(({ transfers }) => transfers !== 0n)
              .map((row) => [`${row.batch_id} ${row.status}`, [row.transfers, row.bytes]]),
          ),
        ).toEqual(ofBatches);
        const inAll = Map.groupBy(states.values(), ({ state }) => state.status);
        expect(totals!.filter(({ transfers }) => transfers !== 0n)).toEqual(
          [...inAll]
            .map(([status, { length }]) => ({ status, transfers: BigInt(length) }))
            .toSorted((a, b) => (a.status < b.status ? -1 : 1)),
        );
      }),
      { numRuns: 25 },
    );
  });

  it('of the catalog is the fold of the log, for any batches', async () => {
    await fc.assert(
      fc.asyncProperty(catalogLogs, batchSizes, writers, async (events, batchSize, writer) => {
        const [endpoints, keys, webhooks] = await tablesAfter(
          catalogProjection,
          events,
          batchSize,
          writer,
        );
        const ofKind = (kind: string) => events.filter(({ stream }) => stream.startsWith(kind));
        const folded = (rows: Record<string, unknown>[]) =>
          rows.map(({ state, revision, position }) => ({ state, revision, position }));
        const inOrder = <State>(states: Map<string, State>) =>
          [...states].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, state]) => state);
        const endpointStates = inOrder(
          statesOf<EndpointState>(ofKind('endpoint-'), endpointDecider),
        );
        const keyStates = inOrder(statesOf<KeyState>(ofKind('key-'), keyDecider));
        const webhookStates = inOrder(statesOf<WebhookState>(ofKind('webhook-'), webhookDecider));
        expect(folded(endpoints!)).toEqual(endpointStates);
        expect(folded(keys!)).toEqual(keyStates);
        expect(folded(webhooks!)).toEqual(webhookStates);
        expect(endpoints!.map(({ removed, paused }) => ({ removed, paused }))).toEqual(
          endpointStates.map(({ state }) => ({
            removed: state.status === 'removed',
            paused: 'paused' in state && state.paused,
          })),
        );
        expect(keys!.map(({ revoked_at }) => revoked_at)).toEqual(
          keyStates.map(({ state }) => ('revoked_at' in state ? state.revoked_at : null)),
        );
        expect(webhooks!.map(({ account_id, removed }) => ({ account_id, removed }))).toEqual(
          webhookStates.map(({ state }) => ({
            account_id: 'account_id' in state && state.account_id,
            removed: state.status === 'removed',
          })),
        );
      }),
      { numRuns: 25 },
    );
  });
});

interface Folded<State> {
  state: State;
  revision: number;
  position: bigint;
}

/** The plain fold, event by event; undefined becomes absent, as in JSON. */
function statesOf<State>(
  events: StoredEvent[],
  decider: Pick<Decider<State, unknown, Event>, 'initialState' | 'evolve'>,
): Map<string, Folded<State>> {
  const states = new Map<string, Folded<State>>();
  for (const event of events) {
    const state = decider.evolve(states.get(event.stream)?.state ?? decider.initialState(), event);
    states.set(event.stream, { state, revision: event.revision, position: event.position });
  }
  return states;
}
