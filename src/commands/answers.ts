import { z } from 'zod';
import { TRANSFER_ERRORS, type TransferErrorCode, type TransferPhase } from '../domain/transfer-errors.ts';

/** A time: ISO 8601, UTC. */
export const timestamp = z.string().meta({ format: 'date-time', examples: ['2026-01-31T09:30:00.000Z'] });

export const transferErrorCode = z.enum(Object.keys(TRANSFER_ERRORS) as [TransferErrorCode]);

/** The error of a transfer. */
export const transferError = z
  .strictObject({
    code: transferErrorCode,
    message: z.string(),
    retryable: z.boolean(),
    phase: z.string() as z.ZodType<TransferPhase>,
    attempts: z.int().describe('Attempts made so far.'),
    occurred_at: timestamp,
    advice: z.string().describe('What to do about it.'),
  })
  .meta({ id: 'TransferError' });
