import { expect, test } from 'vitest';
import { transfersToCsv } from '../../src/contract/transfers/csv.ts';
import { transferDecider } from '../../src/domain/transfers/decider.ts';
import type {
  Transfer,
  TransferCreated,
  TransferEvent,
} from '../../src/domain/transfers/transfer.ts';
import { TRANSFER_EVENTS, transferCreated } from '../support/domain/samples.ts';

const csvOf = (file_name: string) => csvOfEvents(created({ file_name }));

function created(data: Partial<TransferCreated>): TransferEvent {
  return { type: 'transfer.created', data: transferCreated(data) };
}

async function csvOfEvents(...events: TransferEvent[]): Promise<string> {
  const state = events.reduce(transferDecider.evolve, transferDecider.initialState());
  async function* batches() {
    yield [state as Transfer];
  }
  let csv = '';
  for await (const piece of transfersToCsv(batches())) csv += piece;
  return csv.split('\r\n').slice(1).join('\r\n');
}

test.each(['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', '＝1', '＋1', '－1', '＠1'])(
  'a cell that begins like the formula %j begins with an apostrophe',
  async (file_name) => {
    expect(await csvOf(file_name)).toMatch(/^txr_[^,]*,"?'/);
  },
);

test.each([
  ['a;=1+1', "a;'=1+1"],
  ['a;b;@SUM(A1)', "a;b;'@SUM(A1)"],
  ['a;"=1"', '"a;\'""=1"""'],
  ['a\n-1', '"a\n\'-1"'],
  ['=1;=1', "'=1;'=1"],
])('a formula in the cell %j begins with an apostrophe', async (file_name, cell) => {
  expect(await csvOf(file_name)).toContain(`,${cell},`);
});

test.each(['1=1', 'a-b.csv', ' =1', 'a;b', 'a; =1'])(
  'the cell %j stays as it is',
  async (file_name) => {
    expect(await csvOf(file_name)).toContain(`,${file_name},`);
  },
);

test('a cell with a comma, a quote or a line break is quoted', async () => {
  expect(await csvOf('a,"b"\nc')).toContain(',"a,""b""\nc",');
});

test('the row of a failed retry has its origin, error and metadata', async () => {
  const { admitted, started, failed } = TRANSFER_EVENTS;
  const error = { ...failed.data.error, message: '=HYPERLINK("http://x")' };
  const retry_of = 'txr_01JZ8Q6W3N5V4T2R1P0M9K8J7H';
  const csv = await csvOfEvents(
    created({ retry_of, metadata: { batch: 'a,b' } }),
    admitted,
    started,
    { ...failed, data: { ...failed.data, error } },
  );
  const shown = `"'=HYPERLINK(""http://x"")","{""batch"":""a,b""}"`;
  expect(csv).toContain(`,${retry_of},timeout,${shown}`);
});
