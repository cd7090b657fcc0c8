import { expect, it } from 'vitest';
import type { StoredEvent } from '../../../src/domain/events/event.ts';
import { schemaVersion, upcast } from '../../../src/domain/events/upcast.ts';
import { createLog } from '../../support/domain/histories.ts';
import { transferCreated } from '../../support/domain/samples.ts';

const event = createLog().append('transfer-txr_1', {
  type: 'transfer.created',
  data: transferCreated({ retry_of: 'txr_0' }),
});

it('gives an old event the shape of a new one', () => {
  const { retry_of: _, ...data } = transferCreated();
  const old: StoredEvent = { ...event, data, schema_version: 1 };
  expect(upcast(old)).toEqual({
    ...old,
    data: { ...data, retry_of: null },
    schema_version: schemaVersion('transfer.created'),
  });
});

it('returns a new event as it is', () => {
  expect(upcast(event)).toBe(event);
});
