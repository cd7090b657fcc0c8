import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Batch,
  type BatchCommand,
  type BatchEvent,
  type BatchListed,
  batchDecider,
} from '../../../src/domain/batches/batch.ts';
import {
  createPager,
  type RoutedItem,
  transferIdOf,
  transfersOf,
  urisOf,
} from '../../../src/domain/batches/items.ts';
import { isId, newId } from '../../../src/domain/ids.ts';
import { parseTransferUri } from '../../../src/domain/uri.ts';
import { specify, stateAfter } from '../../support/domain/decider.ts';
import {
  BATCH_ITEM,
  batchCompleted,
  batchCreated,
  batchListed,
  REJECTED,
  T0,
  T1,
  T2,
} from '../../support/domain/samples.ts';

const given = specify(batchDecider);
const created: BatchEvent = { type: 'batch.created', data: batchCreated() };
const listed = (changes: Partial<BatchListed> = {}): BatchEvent => ({
  type: 'batch.listed',
  data: batchListed(changes),
});
const both = listed({ items: [BATCH_ITEM, REJECTED] });
const opened: BatchEvent = { type: 'batch.opened', data: { opened_at: T1 } };
const cancelled: BatchEvent = { type: 'batch.cancelled', data: { cancelled_at: T1 } };
const complete = (ended: { completed?: number; failed?: number; cancelled?: number }) =>
  ({
    type: 'complete',
    ended: { completed: 0, failed: 0, cancelled: 0, ...ended },
    bytes: 1000,
    now: T2,
  }) as const;

describe('a batch', () => {
  it('is created once, with all of its items if it lists nothing', () => {
    const create: BatchCommand = {
      type: 'create',
      data: batchCreated(),
      pages: [batchListed()],
    };
    given([]).when(create).yields([created, listed()]);
    given([created]).when(create).yields([]);
  });

  it('is opened once all is listed', () => {
    given([created]).when({ type: 'open', now: T1 }).yields([]);
    given([created, listed({ last: false })])
      .when({ type: 'open', now: T1 })
      .yields([]);
    given([created, listed()]).when({ type: 'open', now: T1 }).yields([opened]);
    given([created, listed(), opened]).when({ type: 'open', now: T1 }).yields([]);
    given([created, listed(), cancelled]).when({ type: 'open', now: T1 }).yields([]);
  });

  it('takes each page once, in order', () => {
    const page = batchListed({ first: 1 });
    const first = listed({ last: false });
    given([created, first])
      .when({ type: 'list', page })
      .yields([listed({ first: 1 })]);
    given([created]).when({ type: 'list', page }).yields([]);
    given([created, listed()]).when({ type: 'list', page }).yields([]);
    given([created, first, cancelled]).when({ type: 'list', page }).yields([]);
  });

  it('completes once, when every transfer has ended', () => {
    given([created, both, opened]).when(complete({})).yields([]);
    given([created, both])
      .when(complete({ completed: 1 }))
      .yields([]);
    given([created, both, opened])
      .when(complete({ completed: 1 }))
      .yields([batchCompleted()]);
    given([created, both, opened, batchCompleted()])
      .when(complete({ completed: 1 }))
      .yields([]);
  });

  it.each([
    ['completed', [created, listed(), opened], { completed: 1 }],
    ['completed_with_failures', [created, listed(), opened], { failed: 1 }],
    ['completed_with_failures', [created, listed(), opened], { cancelled: 1 }],
    ['cancelled', [created, listed(), opened, cancelled], { completed: 1 }],
    ['completed', [created, listed({ items: [] }), opened], {}],
  ] as const)('ends as %s', (status, history, ended) => {
    const [end] = batchDecider.decide(complete(ended), stateAfter(batchDecider, history));
    expect(end).toMatchObject({ type: 'batch.completed', data: { status } });
  });

  it('is cancelled until it has ended', () => {
    given([]).when({ type: 'cancel', now: T1 }).yields('not_found');
    given([created]).when({ type: 'cancel', now: T1 }).yields([cancelled]);
    given([created, listed(), opened]).when({ type: 'cancel', now: T1 }).yields([cancelled]);
    given([created, cancelled]).when({ type: 'cancel', now: T2 }).yields([]);
    const end = batchCompleted();
    for (const status of [end.data.status, 'cancelled'] as const)
      given([created, both, opened, { ...end, data: { ...end.data, status } }])
        .when({ type: 'cancel', now: T2 })
        .yields('batch_not_cancellable');
  });
});

describe('the transfers of a batch', () => {
  const batchId = newId('bat');
  const batch = stateAfter(batchDecider, [
    { type: 'batch.created', data: batchCreated({ batch_id: batchId, metadata: { a: '1' } }) },
  ]) as Batch;

  it('have ids that rise with the place of the item', () => {
    const ids = [0, 1, 31, 32, 1_000, 99_999].map((place) => transferIdOf(batchId, place));
    expect(ids.every((id) => isId('txr', id))).toBe(true);
    expect(ids.toSorted()).toEqual(ids);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('derive from the pages alone', () => {
    const page = batchListed({
      first: 7,
      items: [BATCH_ITEM, REJECTED, { ...BATCH_ITEM, priority: 'high', metadata: { b: '2' } }],
    });
    const transfers = transfersOf(batch, page);
    expect(transfers).toEqual(transfersOf(batch, page));
    expect(transfers.map(({ transferId }) => transferId)).toEqual(
      [7, 9].map((place) => transferIdOf(batchId, place)),
    );
    expect(transfers.map(({ data }) => data)).toMatchObject([
      {
        source: 'sftp://from/a.csv',
        destination: 'sftp://to/in/a.csv',
        file_name: 'a.csv',
        priority: 'normal',
        metadata: { a: '1' },
        batch_id: batchId,
        source_endpoint_id: 'end_1',
        created_at: T0,
      },
      { priority: 'high', metadata: { b: '2' } },
    ]);
  });

  it('are listed in pages that keep every item in its place', () => {
    const item = fc.record({
      source_uri: fc.string({ maxLength: 4_000 }),
      destination_uri: fc.constant('sftp://to/in/'),
      route: fc.record({
        source_endpoint_id: fc.constantFrom(null, 'end_1'),
        destination_endpoint_id: fc.constantFrom('end_2', 'end_3'),
      }),
    });
    fc.assert(
      fc.property(fc.array(item, { maxLength: 60 }), fc.nat(50), (items, first) => {
        const pager = createPager(first, () => ({ listed_at: T0, estimated_start: T0 }));
        const pages = items.flatMap((one: RoutedItem, i) => pager.add(one, String(i)) ?? []);
        pages.push(pager.end());
        const back = pages.flatMap((page) =>
          page.items.map((one) =>
            'error' in one ? one : { ...one, route: page.routes[one.route] },
          ),
        );
        expect(back).toEqual(items);
        let next = first;
        for (const page of pages) {
          expect(page.first).toBe(next);
          expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThan(64 * 1024);
          next += page.items.length;
        }
        expect(pages.map(({ last }) => last).indexOf(true)).toBe(pages.length - 1);
      }),
      { numRuns: 30 },
    );
  });

  it('have URIs that mean the names of the files', () => {
    const { source_uri, destination_uri } = urisOf(
      { source_uri: 'sftp://from/out/', destination_uri: 'sftp://to/in/' },
      'sub folder/100% ä?#.csv',
    );
    expect(parseTransferUri(source_uri, 'source_uri').path).toBe('/out/sub folder/100% ä?#.csv');
    expect(parseTransferUri(destination_uri, 'destination_uri').path).toBe(
      '/in/sub folder/100% ä?#.csv',
    );
  });
});
