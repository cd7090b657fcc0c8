import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createEventStoreDb } from '../../../src/adapters/event-store/eventstoredb/log.ts';
import type { EventStore } from '../../../src/adapters/event-store/port.ts';
import { startTransfer } from '../../../src/commands/transfers.ts';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { eventHash } from '../../../src/domain/events/event-hash.ts';
import { parseStream } from '../../../src/domain/events/streams.ts';
import { newId } from '../../../src/domain/ids.ts';
import { originOf } from '../../../src/domain/proof/checkpoint.ts';
import { createFrontier } from '../../../src/domain/proof/frontier.ts';
import { leafHash } from '../../../src/domain/proof/hash.ts';
import { leafOf } from '../../../src/domain/proof/leaf.ts';
import type { Check, Fault } from '../../../src/processes/verification/fault.ts';
import type {
  DamagedCheckpoint,
  KeptCheckpoint,
} from '../../../src/processes/verification/kept-checkpoints.ts';
import { readState, writeState } from '../../../src/processes/verification/saved-state.ts';
import { faultsBeyondLog } from '../../../src/processes/verification/shown-transfers.ts';
import {
  type VerificationOptions,
  type VerificationState,
  verifyLog,
} from '../../../src/processes/verification/verify-log.ts';
import { readLog } from '../../../src/projections/read-log.ts';
import {
  type FakeEventStoreDb,
  startFakeEventStoreDb,
} from '../../support/event-store/fake/server.ts';
import { changeLog } from '../../support/event-store/replace-log.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { LONG } from '../../support/run/long.ts';
import {
  CAUSE,
  openTestInstallation,
  submit,
  type TestInstallation,
} from '../../support/service/installation.ts';
import { openEmbedded, type Tampered } from './tamper/engines.ts';
import { writeSmallLog } from './tamper/small-log.ts';

describeWithPostgres('the verification of a log', () => {
  let tampered: Tampered;
  let original: StoredEvent[];
  let open: string;

  beforeAll(async () => {
    tampered = await openEmbedded();
    const { installation } = tampered;
    open = parseStream((await writeSmallLog(installation)).open).id;
    for (const projection of ['transfers', 'proof'] as const)
      await installation.commands.catchUp(projection);
    original = [];
    for await (const { events } of readLog(installation.store, { from: null }))
      original.push(...events);
  });
  afterAll(() => tampered?.close());

  function checkpointAt(size: number, events = original): KeptCheckpoint {
    const tree = createFrontier();
    for (const event of events.slice(0, size)) tree.append(leafHash(leafOf(event)));
    const origin = originOf(tampered.installation.logId);
    return { source: `${size}.txt`, origin, size, root: tree.root() };
  }

  async function verify(
    options: Partial<VerificationOptions> = {},
    store = tampered.installation.store,
  ) {
    const { patient, logId } = tampered.installation;
    const faults: Fault[] = [];
    const verdict = await verifyLog(
      { store, sql: patient, logId, comparesApi: true, comparesTree: true },
      {
        checkpoints: [],
        resume: null,
        report: async (fault) => void faults.push(fault),
        onProgress: () => undefined,
        save: async () => undefined,
        ...options,
      },
    );
    return { ...verdict, problems: faults.map(({ problem }) => problem) };
  }

  /** Changes the log while `then` runs. */
  async function changing(
    change: (events: StoredEvent[]) => StoredEvent[],
    then: () => Promise<void>,
    added = 0n,
  ): Promise<void> {
    const head = original.at(-1)?.position as bigint;
    await tampered.replaceLog(change(structuredClone(original)), head + added);
    try {
      await then();
    } finally {
      await tampered.replaceLog(original, head);
    }
  }

  it('continues where it was interrupted, with the same result', async () => {
    const checkpoints = [checkpointAt(3), checkpointAt(original.length)];
    const run = { logId: tampered.installation.logId, checkpoints, damaged: [], keys: [] };
    const states: VerificationState[] = [];
    const save = async (state: () => VerificationState) => void states.push(state());
    const whole = await verify({ checkpoints, save, batchSize: 4 });
    expect(whole).toMatchObject({ problems: [], events: original.length });
    expect(states.length).toBeGreaterThan(3);
    for (const state of states.slice(0, -1)) {
      const resume = readState(writeState(state, run), run);
      expect(await verify({ checkpoints, resume })).toEqual(whole);
    }
  });

  it('counts a stream once that goes on after its end', async () => {
    const { streams } = await verify();
    expect(streams).toBe(new Set(original.map(({ stream }) => stream)).size);
    const change = (events: StoredEvent[]) => {
      const end = events.find(({ type }) => type === 'transfer.completed') as StoredEvent;
      const last = events.at(-1) as StoredEvent;
      const late = { id: newId('evt'), revision: end.revision + 1, position: last.position + 1n };
      return [...events, { ...end, ...late }];
    };
    const compare = async () => {
      const changed = await verify();
      expect(changed.problems).toContainEqual(
        expect.stringMatching(/^revision 0 was expected: .* follows the end of its stream/),
      );
      expect(changed.streams).toBe(streams);
    };
    await changing(change, compare, 1n);
  });

  it('finds each change of a stream of accesses, however many others follow it', LONG, async () => {
    const last = original.at(-1) as StoredEvent;
    let position = last.position;
    const access = (stream: string, before: StoredEvent | null = null): StoredEvent => {
      position += 1n;
      const prev_hash = before && eventHash(before);
      return {
        ...{ id: newId('evt'), type: 'access.receipt_read', schema_version: 1, stream, position },
        ...{ revision: (before?.revision ?? -1) + 1, data: { transfer_id: open } },
        metadata: { ...last.metadata, prev_hash },
      };
    };
    const begun = Array.from({ length: 1_200 }, () => access(`access-${newId('acs')}`));
    const [first, second] = begun as [StoredEvent, StoredEvent];
    const going = access(first.stream, first);
    const end = access(second.stream, second);
    const whole = [...original, ...begun, going, end];
    const at = (events: StoredEvent[], { position }: StoredEvent) =>
      events.find((event) => event.position === position) as StoredEvent;
    const states: VerificationState[] = [];
    const save = async (state: () => VerificationState) => void states.push(state());
    const changes: [string, (events: StoredEvent[]) => void, RegExp][] = [
      ['nothing', () => undefined, /^$/],
      [
        'its first event is another',
        (events) => void Object.assign(at(events, first).metadata, { actor: 'forged' }),
        /^prev_hash is not the hash of the event before it/,
      ],
      [
        'its first event repeated',
        (events) => void Object.assign(at(events, going), { ...first, position: going.position }),
        /^revision 1 was expected/,
      ],
      [
        'another first event repeated',
        (events) => void Object.assign(at(events, going), { ...second, position: going.position }),
        /^revision 1 was expected/,
      ],
      [
        'its first event in another stream',
        (events) => void Object.assign(at(events, first), { stream: second.stream }),
        /^revision 0 was expected: the events before it are missing/,
      ],
      [
        'its second event as the third',
        (events) => void Object.assign(at(events, going), { revision: 2 }),
        /^revision 1 was expected: an event is missing/,
      ],
      [
        'a time that decreases',
        (events) =>
          void Object.assign(at(events, going).metadata, {
            occurred_at: '2020-01-01T00:00:00.000Z',
          }),
        /^it is dated earlier than the event before it/,
      ],
      [
        'an event of another kind',
        (events) => void Object.assign(at(events, going), { type: 'key.revoked' }),
        /^key.revoked cannot follow in the status recorded/,
      ],
    ];
    for (const [what, change, problem] of changes) {
      const changed = structuredClone(whole);
      change(changed);
      await tampered.replaceLog(changed, end.position);
      states.length = 0;
      const { problems, streams } = await verify({ save, batchSize: 100 });
      if (what !== 'nothing') expect(problems, what).toContainEqual(expect.stringMatching(problem));
      else {
        expect(problems).toEqual([]);
        expect(streams).toBe(new Set(whole.map(({ stream }) => stream)).size);
      }
      const resume = states.findLast(({ position: reached }) => reached < going.position);
      const run = { logId: tampered.installation.logId, checkpoints: [], damaged: [], keys: [] };
      const saved = readState(writeState(resume as VerificationState, run), run);
      expect(saved.hasForgotten).toBe(true);
      const later = await verify({ resume: saved });
      if (what !== 'nothing')
        expect(later.problems, what).toContainEqual(expect.stringMatching(problem));
      else expect(later).toMatchObject({ problems: [], streams });
    }
    await tampered.replaceLog(original, last.position);
  });

  it('finds after an interruption what was changed before it', async () => {
    const checkpoints = [checkpointAt(original.length)];
    const states: VerificationState[] = [];
    const save = async (state: () => VerificationState) => void states.push(state());
    const change = (events: StoredEvent[]) => {
      const event = events[6] as StoredEvent;
      event.metadata = { ...event.metadata, actor: 'forged' };
      return events;
    };
    await changing(change, async () => {
      const whole = await verify({ checkpoints, save, batchSize: 9 });
      expect(whole.problems).toContainEqual(expect.stringMatching(/signed as event 7 of the log/));
      expect((await verify({ checkpoints, resume: states[0] as VerificationState })).faults).toBe(
        whole.faults,
      );
    });
  });

  it('takes no saved progress of other checkpoints, and no other file', async () => {
    const { logId } = tampered.installation;
    const run = { logId, checkpoints: [checkpointAt(3)], damaged: [], keys: [] };
    const states: VerificationState[] = [];
    await verify({ save: async (state) => void states.push(state()) });
    const of = (changes: Partial<typeof run> | { damaged: DamagedCheckpoint[] }) =>
      writeState(states[0] as VerificationState, { ...run, ...changes });
    expect(readState(of({}), run)).toEqual(states[0]);
    const damaged = [{ source: '9.txt', problem: 'it is cut off' }];
    for (const wrong of [of({ checkpoints: [] }), of({ damaged }), 'x', '{}'])
      expect(() => readState(wrong, run)).toThrow(/is of another log, of other checkpoints/);
  });

  it('agrees with the newest checkpoint, and says nothing about later events', async () => {
    expect(await verify({ checkpoints: [checkpointAt(2), checkpointAt(5)] })).toMatchObject({
      problems: [],
      agreed: { size: 5 },
    });
  });

  it('names a checkpoint of another log', async () => {
    const other = { ...checkpointAt(5), origin: 'waybill/other' };
    expect((await verify({ checkpoints: [other] })).problems).toEqual([
      expect.stringMatching(/^5\.txt: it is of the log waybill\/other, and this is waybill\//),
    ]);
  });

  it('names two checkpoints that contradict each other', async () => {
    const [old, forged] = [checkpointAt(5), checkpointAt(5, original.slice(1))];
    for (const checkpoints of [
      [old, { ...forged, source: 'b.txt' }],
      [{ ...forged, source: 'b.txt' }, old],
    ]) {
      const { problems, agreed } = await verify({ checkpoints });
      expect(problems).toEqual([
        expect.stringMatching(/^(5|b)\.txt and (5|b)\.txt sign different/),
      ]);
      expect(agreed).toMatchObject({ size: 5 });
    }
  });

  it('takes a transfer whose data makes no sense for a fault', async () => {
    const change = (events: StoredEvent[]) => {
      const event = events.find(({ type }) => type === 'transfer.completed') as StoredEvent;
      event.data = { size_bytes: { forged: true } };
      return events;
    };
    await changing(change, async () => {
      expect((await verify()).problems).not.toEqual([]);
    });
  });

  it('names each event that cannot be read, and goes on', async () => {
    const { sql } = tampered.installation;
    const ended = original.filter(({ type }) => type === 'transfer.completed');
    const [first, second] = original.filter(({ stream }) => stream === ended[0]?.stream);
    const key = original.find(({ type }) => type === 'key.created') as StoredEvent;
    const revoked = original.find(({ type }) => type === 'key.revoked') as StoredEvent;
    const webhook = original.find(({ type }) => type === 'webhook.registered') as StoredEvent;
    const change = (events: StoredEvent[]) => {
      const last = events.findLast(({ stream }) => stream === first?.stream) as StoredEvent;
      last.metadata.actor = 'forged';
      return events;
    };
    await changing(change, async () => {
      const at = (event: StoredEvent | undefined) => String(event?.position);
      await changeLog(sql, async (tx) => {
        await tx`update log.events set data = '{' where position = ${at(second)}`;
        await tx`update log.events set metadata = '[' where position = ${at(key)}`;
        await tx`update log.events set data = '{"a":"\\ud800"}' where position = ${at(webhook)}`;
        await tx`update log.events set type = type || ${'\x1e'} where position = ${at(revoked)}`;
      });
      for (const batchSize of [3, 5_000]) {
        const faults: Fault[] = [];
        const report = async (fault: Fault) => void faults.push(fault);
        const store = tampered.openStore();
        const checkpoints = [checkpointAt(original.length)];
        const { events } = await verify({ report, batchSize, checkpoints }, store);
        await store.close();
        expect(events).toBe(original.length);
        const said = (event: StoredEvent | undefined, check: Check) =>
          faults.filter((fault) => fault.event_id === event?.id && fault.check === check);
        for (const [event, problem] of [
          [second, 'it was changed: its data is no JSON'],
          [key, 'it was changed: its metadata is no JSON object'],
          [webhook, expect.stringMatching(/^it was changed: /)],
        ] as const)
          expect(said(event, 'stream')[0]).toMatchObject({ problem });
        expect(said(revoked, 'stream').length).toBeGreaterThan(0);
        const last = original.findLast(({ stream }) => stream === first?.stream);
        for (const event of [second, key, webhook, revoked, last])
          expect(said(event, 'checkpoint')).toMatchObject([
            { problem: expect.stringMatching(/^it was changed since it was signed as event/) },
          ]);
        expect(faults.filter(({ event_id }) => event_id === first?.id)).toEqual([]);
      }
    });
  });

  it('names an event whose JSON was rewritten with the same content', async () => {
    const { sql } = tampered.installation;
    const [first, second] = original.filter(({ type }) => type === 'transfer.created');
    const rewrite = async (event: StoredEvent | undefined, column: 'data' | 'metadata') => {
      const content = Object.entries(event?.[column] as object).reverse();
      const text = JSON.stringify(Object.fromEntries(content), null, 1);
      await changeLog(
        sql,
        (tx) => tx`
        update log.events set ${tx({ [column]: text })} where position = ${String(event?.position)}`,
      );
    };
    await changing(
      (events) => events,
      async () => {
        await rewrite(first, 'data');
        await rewrite(second, 'metadata');
        for (const batchSize of [3, 5_000]) {
          const faults: Fault[] = [];
          const report = async (fault: Fault) => void faults.push(fault);
          const store = tampered.openStore();
          await verify({ report, batchSize, checkpoints: [checkpointAt(original.length)] }, store);
          await store.close();
          expect(faults.map(({ event_id }) => event_id)).toEqual([first?.id, second?.id]);
          for (const { problem } of faults)
            expect(problem).toMatch(/^another program rewrote its JSON/);
        }
      },
    );
  });

  it('names the smallest range if the stored tree was changed too', async () => {
    const { sql } = tampered.installation;
    const cut = (events: StoredEvent[]) => events.filter((_, i) => i !== 6);
    await sql`create table kept as select * from read.proof_tiles`;
    await sql`
      update read.proof_tiles set hashes = set_byte(hashes, 200, get_byte(hashes, 200) # 1)`;
    await changing(cut, async () => {
      const { problems } = await verify({
        checkpoints: [3, 5, 9, 12].map((size) => checkpointAt(size)),
      });
      expect(problems).toContainEqual(expect.stringMatching(/among the events 6 to 9 of the log/));
    });
    await sql`update read.proof_tiles t set hashes = k.hashes from kept k
               where (t.level, t.tile) = (k.level, k.tile)`;
    // The tree is whole again up to there.
    await changing(cut, async () => {
      const { problems } = await verify({ checkpoints: [checkpointAt(9)] });
      expect(problems).toContainEqual(
        expect.stringMatching(/^it was signed as event 7 of the log/),
      );
    });
  });

  it('names all that is lost if the log and its tables are older than the checkpoints', async () => {
    const size = original.length;
    const newer = [...original, ...original.slice(0, 3)];
    const checkpoints = [size, size + 1, size + 3].map((end) => checkpointAt(end, newer));
    const { problems } = await verify({ checkpoints });
    expect(problems).toEqual([
      `the log ends before the ${size + 3} events that ${size + 3}.txt signs`,
      expect.stringContaining(`among the events ${size + 1} to ${size + 3} of the log`),
    ]);
  });

  it('finds events that the head of the log hides', async () => {
    const head = original.at(-1)?.position as bigint;
    await tampered.replaceLog(original, head - 2n);
    const { problems } = await verify();
    expect(problems).toContain(
      `the head of the log hides the events at positions ${head - 1n} to ${head}`,
    );
    await tampered.replaceLog(original, head);
  });

  it('finds events that were removed as if by retention', async () => {
    const { sql } = tampered.installation;
    const isRevoked = ({ type }: StoredEvent) => type === 'key.revoked';
    const { position } = original.find(isRevoked) as StoredEvent;
    await sql`insert into log.removed values (int8range(${position}, ${position}, '[]'))`;
    await changing(
      (events) => events.filter((event) => !isRevoked(event)),
      async () => {
        expect((await verify()).problems).toEqual([
          '1 positions count as left empty by retention, and its records name only 0 events ' +
            'there: events were removed without a record',
          expect.stringMatching(/^the API has processed it, and the log does not have it: /),
        ]);
      },
    );
    await changeLog(sql, (tx) => tx`delete from log.removed`);
    expect((await verify()).problems).toEqual([]);
  });

  it('finds events that a head without a row hides', async () => {
    const { sql } = tampered.installation;
    const head = original.at(-1)?.position as bigint;
    await sql`create table kept_head as select * from log.head`;
    await sql`delete from log.head`;
    expect((await verify()).problems).toContain(
      `the head of the log hides the events at positions 1 to ${head}`,
    );
    await sql`insert into log.head select * from kept_head`;
    expect((await verify()).problems).toEqual([]);
  });

  it('says that tables which are behind were not compared', async () => {
    const { sql } = tampered.installation;
    expect(await verify()).toMatchObject({ comparedApi: true });
    await sql`create table kept_checkpoints as select * from read.checkpoints`;
    await sql`delete from read.checkpoints where name = 'transfers'`;
    const states: VerificationState[] = [];
    const save = async (state: () => VerificationState) => void states.push(state());
    expect(await verify({ save })).toMatchObject({ comparedApi: false });
    // Also if no event of a transfer follows an interruption.
    const resume = states.at(-1) as VerificationState;
    expect(await verify({ resume })).toMatchObject({ comparedApi: false });
    await sql`
      insert into read.checkpoints select * from kept_checkpoints where name = 'transfers'`;
    expect(await verify()).toMatchObject({ comparedApi: true, problems: [] });
  });

  it('compares at the end what the tables had not reached before', async () => {
    const { sql } = tampered.installation;
    const states: VerificationState[] = [];
    await sql`create table all_rows as select * from read.transfers`;
    await sql`create table all_checkpoints as select * from read.checkpoints`;
    /** Verifies while the tables are behind. They catch up before the end. */
    async function verifyBehind(change: () => Promise<unknown>) {
      await sql`delete from read.transfers`;
      await sql`update read.checkpoints set position = 0 where name = 'transfers'`;
      const save = async (state: () => VerificationState) => {
        states.push(state());
        await sql`insert into read.transfers select * from all_rows`;
        await sql`update read.checkpoints c set position = a.position from all_checkpoints a
                   where c.name = a.name`;
        await change();
      };
      return verify({ save });
    }
    expect(await verifyBehind(async () => {})).toMatchObject({ comparedApi: true, problems: [] });
    // A run that continues this one does not know them.
    expect(states.map(({ skipped }) => skipped)).toEqual([true]);
    const { comparedApi, problems } = await verifyBehind(
      () => sql`
        update read.transfers set state = jsonb_set(state::jsonb, '{checksum_sha256}', '"forged"')
         where status = 'completed'`,
    );
    expect([comparedApi, problems]).toEqual([
      true,
      [`the API shows checksum_sha256 as "forged", the log gives "${'ab'.repeat(32)}"`],
    ]);
    await sql`update read.transfers t set state = a.state from all_rows a
               where t.transfer_id = a.transfer_id`;
  });

  it('compares every field of the API with the log', async () => {
    const { sql } = tampered.installation;
    await sql`create table kept_states as select transfer_id, state from read.transfers`;
    await sql`
      update read.transfers set state = jsonb_set(state::jsonb, '{checksum_sha256}', '"forged"')
       where status = 'completed'`;
    const { problems } = await verify();
    expect(problems).toEqual([
      `the API shows checksum_sha256 as "forged", the log gives "${'ab'.repeat(32)}"`,
    ]);
    await sql`update read.transfers t set state = k.state from kept_states k
               where t.transfer_id = k.transfer_id`;
    expect((await verify()).problems).toEqual([]);
  });

  it('says nothing about what happens while it reads the log', async () => {
    const { installation } = tampered;
    const { store, commands } = installation;
    const states: VerificationState[] = [];
    const growing: typeof store = {
      ...store,
      async *subscribe(options) {
        await startTransfer(
          commands,
          open,
          { claimId: 'clm_1', source: null, destination: null },
          CAUSE,
        );
        await submit(installation, 'sftp://from/later', 's3://archive/');
        await commands.catchUp('transfers');
        yield* store.subscribe(options);
      },
    };
    const save = async (state: () => VerificationState) => void states.push(state());
    const verdict = await verify({ save }, growing);
    expect(verdict).toMatchObject({ problems: [], events: original.length });
    const resume = states.at(-1) as VerificationState;
    expect(await verify({ resume })).toMatchObject({ problems: [], events: original.length + 2 });
  });
});

describeWithPostgres('the verification of a log, while a former leader answers', () => {
  let server: FakeEventStoreDb;
  let installation: TestInstallation;
  let store: EventStore;
  let events: number;

  beforeAll(async () => {
    server = await startFakeEventStoreDb();
    installation = await openTestInstallation({ EVENTSTORE_URL: server.url });
    await writeSmallLog(installation);
    const upTo = (await installation.store.head()) as bigint;
    await submit(installation, 'sftp://from/later', 's3://archive/');
    await installation.commands.catchUp('transfers');
    events = 0;
    for await (const batch of readLog(installation.store, { from: null }))
      events += batch.events.length;
    server.becomeStale({ subscriptions: true, upTo });
  });
  afterEach(() => store.close());
  afterAll(async () => {
    await installation?.close();
    server?.close();
  });

  async function verify(staleMs: number) {
    const prefix = installation.config.streamPrefix;
    store = createEventStoreDb({ url: server.url, prefix, keepsUnreadable: true, staleMs });
    const { patient, logId } = installation;
    const problems: string[] = [];
    const verdict = await verifyLog(
      { store, sql: patient, logId, comparesApi: true, comparesTree: true },
      {
        checkpoints: [],
        resume: null,
        report: async ({ problem }) => void problems.push(problem),
        onProgress: () => undefined,
        save: async () => undefined,
      },
    );
    return { ...verdict, problems };
  }

  it('names a log that stays without what the API has processed', async () => {
    const { problems } = await verify(200);
    expect(problems).toContainEqual(
      expect.stringMatching(/^the API has processed it, and the log does not have it/),
    );
    expect(problems).toContainEqual(
      expect.stringMatching(/^the API has shown events up to position \d+; the log ends at \d+$/),
    );
  });

  it('finds nothing missing once the new leader answers', async () => {
    setTimeout(server.lead, 1_000);
    expect(await verify(10_000)).toMatchObject({ problems: [], events });
  });

  it('takes no position for missing that the new leader has', async () => {
    const reached = (await installation.store.head()) as bigint;
    let answers = 0;
    store = {
      ...installation.store,
      head: async () => (answers++ === 0 ? reached - 1n : reached),
      close: async () => undefined,
    };
    const faults: Fault[] = [];
    for await (const fault of faultsBeyondLog(store, reached, 0)) faults.push(fault);
    expect(faults).toEqual([]);
  });
});
