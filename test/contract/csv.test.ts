import { expect, test } from 'vitest';
import { transfersToCsv } from '../../src/contract/transfers/csv.ts';
import type { Transfer } from '../../src/domain/transfer.ts';
import { transferDecider } from '../../src/domain/transfer-decider.ts';
import { transferCreated } from '../support/samples.ts';

async function csvOf(file_name: string): Promise<string> {
  const data = transferCreated({ file_name });
  const state = transferDecider.evolve(transferDecider.initialState(), {
    type: 'transfer.created',
    data,
  }) as Transfer;
  async function* batches() {
    yield [state];
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

test.each(['1=1', 'a-b.csv', ' =1'])('the cell %j stays as it is', async (file_name) => {
  expect(await csvOf(file_name)).toContain(`,${file_name},`);
});

test('a cell with a comma, a quote or a line break is quoted', async () => {
  expect(await csvOf('a,"b"\nc')).toContain(',"a,""b""\nc",');
});
