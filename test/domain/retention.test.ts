import { expect, test } from 'vitest';
import { isRetentionRecorded, retentionFold } from '../../src/domain/retention.ts';

const EVENT = { id: 'evt_1', index: 0, position: '7', hash: 'ab'.repeat(32) };
const TRANSFER = { transfer_id: 'txr_1', account_id: 'acc_default', events: [EVENT] };
const DATA = { transfers: [TRANSFER], checkpoint: { size: 1, root_hash: 'cd'.repeat(32) } };

test.each<[string, object, boolean]>([
  ['a record', DATA, true],
  ['no transfers', { ...DATA, transfers: null }, false],
  ['no transfer in the list', { ...DATA, transfers: [null] }, false],
  ['a transfer without events', { ...DATA, transfers: [{ ...TRANSFER, events: 'none' }] }, false],
  ['no event in the list', { ...DATA, transfers: [{ ...TRANSFER, events: [null] }] }, false],
  [
    'an event without a hash',
    { ...DATA, transfers: [{ ...TRANSFER, events: [{ ...EVENT, hash: undefined }] }] },
    false,
  ],
  ['no checkpoint', { ...DATA, checkpoint: null }, false],
])('a retention record that was changed names nothing: %s', (_, data, names) => {
  const event = { type: 'log.retention_recorded', data };
  expect(isRetentionRecorded(event)).toBe(names);
  const { status } = retentionFold.evolve({ status: 'none' }, event);
  expect(status).toBe(names ? 'recorded' : 'none');
});
