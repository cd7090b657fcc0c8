import { describe, expect, it } from 'vitest';
import { toBatch } from '../../../src/contract/batches/views.ts';
import type { Batch } from '../../../src/domain/batches/batch.ts';

const NONE = { pending: 0, queued: 0, in_progress: 0, completed: 0, failed: 0, cancelled: 0 };

describe('the counts of a batch', () => {
  const batch = {
    batch_id: 'bat_1',
    source: { type: 'items' },
    items: 5,
    rejected: 1,
    ended_at: null,
  } as unknown as Batch;
  const progress = { transfers: { ...NONE, completed: 1 }, bytes: 0, completedBytes: 0 };

  it('have transfers that the read model does not show yet as pending', () => {
    expect(toBatch(batch, progress).counts).toMatchObject({ items: 5, completed: 1, pending: 3 });
  });

  it('have no pending transfer after the end, when some have left the log', () => {
    const ended = { ...batch, ended_at: '2026-11-22T12:00:00.000Z' };
    expect(toBatch(ended, progress).counts).toMatchObject({ items: 5, completed: 1, pending: 0 });
  });
});
