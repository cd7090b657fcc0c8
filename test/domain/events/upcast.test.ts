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

it('replaces NUL characters in what an old event quotes of a server', () => {
  const error = { code: 'permission_denied', message: 'denied\0', phase: 'source_open' };
  const failed = createLog().append('transfer-txr_1', {
    type: 'transfer.failed',
    data: { error, failed_at: '2026-11-21T13:20:42.531Z' },
  });
  expect(upcast(failed).data).toMatchObject({ error: { ...error, message: 'denied\ufffd' } });
  expect((failed.data as { error: object }).error).toEqual(error);
});

it('returns a new event as it is', () => {
  expect(upcast(event)).toBe(event);
});
