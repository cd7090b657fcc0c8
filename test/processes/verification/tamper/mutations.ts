import type { Draft, Editor } from './editor.ts';

/** A change to the log, as docs/auditors.md describes it. */
export interface Mutation {
  change: string;
  apply(log: Editor): void;
}

const OTHER = 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
/** Ids that rise, and are greater than every id of the log. */
const LATE = (n: number) => `evt_7${'Z'.repeat(24)}${n}`;

/** Replaces the last character of an id, so that it stays between its neighbours. */
const nextId = (id: string) => id.slice(0, -1) + (id.endsWith('0') ? '1' : '0');

const later = (time: string, ms: number) => new Date(Date.parse(time) + ms).toISOString();

export const MUTATIONS: Mutation[] = [
  // What an event says
  {
    change: 'data of the first event of a stream',
    apply: ({ at, set }) => set(at('completed', 0), { data: { priority: 'high' } }),
  },
  {
    change: 'data of an event in the middle',
    apply: ({ at, set }) =>
      set(at('completed', 2), { data: { started_at: '2020-01-01T00:00:00.000Z' } }),
  },
  {
    change: 'data of the last event of a stream: a checksum',
    apply: ({ at, set }) =>
      set(at('completed', -1), { data: { checksum_sha256: 'cd'.repeat(32) } }),
  },
  {
    change: 'data of the last event of an endpoint',
    apply: ({ at, set }) => set(at('endpoint', -1), { data: { max_connections: 9 } }),
  },
  {
    change: 'data of the last event of a webhook',
    apply: ({ at, set }) => set(at('webhook', -1), { data: { enabled: true } }),
  },
  {
    change: 'the size in the end of a transfer',
    apply: ({ at, set }) => set(at('completed', -1), { data: { size_bytes: 1 } }),
  },
  {
    change: 'data that the event did not have',
    apply: ({ at, set }) => set(at('failed', -1), { data: { note: 'forged' } }),
  },
  {
    change: 'the actor of an event',
    apply: ({ at, set }) => set(at('cancelled', 0), { metadata: { actor: 'key:key_other' } }),
  },
  {
    change: 'the actor of the last event of a stream',
    apply: ({ at, set }) => set(at('cancelled', -1), { metadata: { actor: 'key:key_other' } }),
  },
  {
    change: 'the account of the last event of a stream',
    apply: ({ at, set }) => set(at('key', -1), { metadata: { account_id: 'acc_other' } }),
  },
  {
    change: 'the request id of the last event of a stream',
    apply: ({ at, set }) => set(at('failed', -1), { metadata: { correlation_id: 'req_other' } }),
  },
  {
    change: 'the time of an event, within its neighbours',
    apply: ({ at, set }) =>
      set(at('failed', 1), { metadata: { occurred_at: at('failed', 0).metadata.occurred_at } }),
  },
  {
    change: 'the time of the last event, to a later one',
    apply: ({ at }) => {
      const { metadata } = at('failed', -1);
      metadata.occurred_at = later(metadata.occurred_at, 5_000);
    },
  },
  {
    change: 'the time of the last event, to one before the event before it',
    apply: ({ at, set }) =>
      set(at('failed', -1), { metadata: { occurred_at: '2020-01-01T00:00:00.000Z' } }),
  },
  {
    change: 'the id of an event',
    apply: ({ at, set }) => set(at('completed', 0), { id: nextId(at('completed', 0).id) }),
  },
  {
    change: 'the id of the last event of a stream, still rising',
    apply: ({ at, set }) => set(at('completed', -1), { id: LATE(1) }),
  },
  {
    change: 'the id of the last event of a stream, not rising',
    apply: ({ at, set }) => set(at('completed', -1), { id: 'evt_01AAAAAAAAAAAAAAAAAAAAAAAA' }),
  },
  {
    change: 'the type of the last event, to one that can follow',
    apply: ({ at }) =>
      void Object.assign(at('cancelled', -1), {
        type: 'transfer.priority_changed',
        data: { priority: 'low', changed_at: '2020-01-01T00:00:00.000Z' },
      }),
  },
  {
    change: 'the type of the last event, to one that cannot follow',
    apply: ({ at, set }) => set(at('cancelled', -1), { type: 'transfer.completed' }),
  },
  {
    change: 'the type of the last event, to one of another kind',
    apply: ({ at, set }) => set(at('key', -1), { type: 'webhook.removed' }),
  },
  {
    change: 'the schema version of the last event of a stream',
    apply: ({ at, set }) => set(at('key', -1), { schema_version: 7 }),
  },
  {
    change: 'the revision of the last event of a stream',
    apply: ({ at, set }) => set(at('open', -1), { revision: at('open', -1).revision + 1 }),
  },
  {
    change: '`prev_hash` of the last event of a stream',
    apply: ({ at, set }) => set(at('open', -1), { metadata: { prev_hash: '00'.repeat(32) } }),
  },
  // The same, and the hashes that follow
  {
    change: 'data of the first event, hashes recomputed',
    apply({ at, repair, name }) {
      at('completed', 0).data.priority = 'high';
      repair(name.completed);
    },
  },
  {
    change: 'data of an event in the middle, hashes recomputed',
    apply({ at, repair, name }) {
      at('completed', 2).data.started_at = '2020-01-01T00:00:00.000Z';
      repair(name.completed);
    },
  },
  {
    change: 'the actor of the first event, hashes recomputed',
    apply({ at, repair, name }) {
      at('cancelled', 0).metadata.actor = 'key:key_other';
      repair(name.cancelled);
    },
  },
  {
    change: 'the time of an event, hashes recomputed',
    apply({ at, repair, name }) {
      at('failed', 1).metadata.occurred_at = at('failed', 0).metadata.occurred_at;
      at('failed', 1).metadata.correlation_id = 'req_other';
      repair(name.failed);
    },
  },
  {
    change: 'the id of an event, hashes recomputed',
    apply({ at, repair, name }) {
      at('completed', 0).id = nextId(at('completed', 0).id);
      repair(name.completed);
    },
  },
  {
    change: 'the schema version of an event, hashes recomputed',
    apply({ at, repair, name }) {
      at('webhook', 0).schema_version = 7;
      repair(name.webhook);
    },
  },
  {
    change: 'a failed transfer rewritten as completed, hashes recomputed',
    apply({ at, repair, name }) {
      Object.assign(at('failed', -1), {
        type: 'transfer.completed',
        data: structuredClone(at('completed', -1).data),
      });
      repair(name.failed);
    },
  },
  {
    change: 'a swap of what two events of a stream say, hashes recomputed',
    apply({ at, repair, name }) {
      const [first, second] = [at('webhook', 0), at('webhook', 1)];
      const [data, type] = [second.data, second.type];
      Object.assign(second, { data: first.data, type: first.type });
      Object.assign(first, { data, type });
      repair(name.webhook);
    },
  },
  // Removed events
  {
    change: 'the first event of a stream removed',
    apply: ({ at, remove }) => remove(at('completed', 0)),
  },
  {
    change: 'an event in the middle removed',
    apply: ({ at, remove }) => remove(at('completed', 1)),
  },
  {
    change: 'an event in the middle removed, revisions and hashes recomputed',
    apply({ at, remove, repair, name }) {
      remove(at('endpoint', 0));
      repair(name.endpoint);
    },
  },
  {
    change: 'the last event of a stream removed',
    apply: ({ at, remove }) => remove(at('completed', -1)),
  },
  {
    change: 'the last event of a stream removed, positions closed',
    apply({ at, remove, close }) {
      remove(at('completed', -1));
      close();
    },
  },
  {
    change: 'the revocation of an API key removed, positions closed',
    apply({ at, remove, close }) {
      remove(at('key', -1));
      close();
    },
  },
  { change: 'a stream removed', apply: ({ of, remove }) => remove(...of('failed')) },
  {
    change: 'a stream removed, positions closed',
    apply({ of, remove, close }) {
      remove(...of('failed'));
      close();
    },
  },
  {
    change: 'the stream of a name of endpoints removed, positions closed',
    apply({ of, remove, close }) {
      remove(...of('claim'));
      close();
    },
  },
  {
    change: 'the last event of the log removed, the head left',
    apply: ({ log, remove }) => remove(log.at(-1) as Draft),
  },
  {
    change: 'the last three events of the log removed, the head moved back',
    apply({ log, remove, close }) {
      remove(...log.slice(-3));
      close();
    },
  },
  {
    change: 'all but the first event of the log removed, the head moved back',
    apply({ log, remove, close }) {
      remove(...log.slice(1));
      close();
    },
  },
  // Names and places
  {
    change: 'another name of the stream of a transfer',
    apply({ of }) {
      for (const event of of('completed')) event.stream = `transfer-${OTHER}`;
    },
  },
  {
    change: 'another name of the stream of an API key',
    apply({ of }) {
      for (const event of of('key')) event.stream = 'key-key_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
    },
  },
  {
    change: 'another name of a stream that is in no aggregate',
    apply({ of }) {
      for (const event of of('claim')) event.stream = 'archive';
    },
  },
  {
    change: 'another name of a stream, and the id in its data, hashes recomputed',
    apply({ of, at, repair }) {
      at('completed', 0).data.transfer_id = OTHER;
      for (const event of of('completed')) event.stream = `transfer-${OTHER}`;
      repair(`transfer-${OTHER}`);
    },
  },
  {
    change: 'the last event moved to another stream',
    apply: ({ at, name }) =>
      void Object.assign(at('cancelled', -1), { stream: name.open, revision: 2 }),
  },
  {
    change: 'the last event moved to another stream, hashes recomputed',
    apply({ at, name, repair }) {
      at('cancelled', -1).stream = name.open;
      repair(name.open);
    },
  },
  {
    change: 'two events of different streams swapped in the log',
    apply({ log, at, close }) {
      const [a, b] = [log.indexOf(at('completed', 1)), log.indexOf(at('failed', 1))];
      [log[a], log[b]] = [log[b] as Draft, log[a] as Draft];
      close();
    },
  },
  {
    change: 'a stream moved to the end of the log',
    apply({ of, log, remove, close }) {
      const events = of('claim');
      remove(...events);
      log.push(...events);
      close();
    },
  },
  {
    change: 'two events of a stream swapped in the log',
    apply({ log, at, close }) {
      const [a, b] = [log.indexOf(at('completed', 1)), log.indexOf(at('completed', 2))];
      [log[a], log[b]] = [log[b] as Draft, log[a] as Draft];
      close();
    },
  },
  // Inserted events
  {
    change: 'an event inserted at the end of an open stream, with its hash',
    apply({ at, copy, insert, repair, name }) {
      const data = { priority: 'high', changed_at: '2020-01-01T00:00:00.000Z' };
      const forged = copy(at('open', -1), { id: LATE(1), type: 'transfer.priority_changed', data });
      forged.type = 'transfer.cancelled';
      forged.data = { cancelled_at: '2020-01-01T00:00:00.000Z' };
      insert([forged], at('key', -1));
      repair(name.open);
    },
  },
  {
    change: 'an event inserted after the end of a transfer',
    apply({ at, copy, insert, repair, name }) {
      insert([copy(at('completed', 1), { id: LATE(1) })], at('key', -1));
      repair(name.completed);
    },
  },
  {
    change: 'a whole transfer inserted, with its hashes',
    apply({ of, at, copy, insert, repair }) {
      const stream = `transfer-${OTHER}`;
      const forged = of('cancelled').map((event, i) => copy(event, { stream, id: LATE(i) }));
      (forged[0] as Draft).data.transfer_id = OTHER;
      insert(forged, at('key', -1));
      repair(stream);
    },
  },
  {
    change: 'a stream inserted that Waybill does not know',
    apply({ at, copy, insert }) {
      const forged = copy(at('key', 0), { stream: 'invoice-1', id: LATE(1), type: 'invoice.paid' });
      insert([forged], at('key', -1));
    },
  },
  {
    change: 'an event repeated',
    apply({ at, copy, insert }) {
      insert([copy(at('open', -1))], at('key', -1));
    },
  },
  {
    change: 'an event repeated at the next revision, hashes recomputed',
    apply({ at, copy, insert, repair, name }) {
      insert([copy(at('endpoint', -1), { id: LATE(1) })], at('key', -1));
      repair(name.endpoint);
    },
  },
  // The log itself
  {
    change: 'the id of the log',
    apply: ({ log, set }) => set(log[0] as Draft, { data: { log_id: 'another' } }),
  },
  {
    change: 'the type of the first event of the log',
    apply: ({ log, set }) => set(log[0] as Draft, { type: 'log.closed' }),
  },
  {
    change: 'the first event of the log without its data',
    apply: ({ log }) => void delete (log[0] as Draft).data.log_id,
  },
  {
    change: 'the first event of the log removed',
    apply: ({ log, remove }) => remove(log[0] as Draft),
  },
  {
    change: 'the first event of the log removed, positions closed',
    apply({ log, remove, close }) {
      remove(log[0] as Draft);
      close();
    },
  },
  {
    change: 'the first event of the log moved to its end',
    apply({ log, remove, close }) {
      const first = log[0] as Draft;
      remove(first);
      log.push(first);
      close();
    },
  },
  {
    change: 'all events removed, the head left',
    apply: ({ log, remove }) => remove(...log),
  },
];
