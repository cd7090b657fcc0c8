import { z } from 'zod';
import {
  TRANSFER_ERRORS,
  type TransferErrorCode,
  type TransferPhase,
} from '../../domain/transfers/errors.ts';
import { timestamp } from '../instants.ts';

export const transferErrorCode = z.enum(Object.keys(TRANSFER_ERRORS) as [TransferErrorCode]);

/** The error of a transfer, as the API shows it. */
export const transferError = z
  .strictObject({
    code: transferErrorCode,
    message: z.string().meta({ examples: ['The server did not answer within 60 seconds'] }),
    retryable: z.boolean(),
    phase: z.string().meta({ examples: ['read'] }) as z.ZodType<string> as z.ZodType<TransferPhase>,
    attempts: z.int().describe('Attempts made so far.'),
    occurred_at: timestamp,
    advice: z
      .string()
      .describe('What to do about it.')
      .meta({ examples: ['Check that the server runs and can be reached.'] }),
  })
  .meta({ id: 'TransferError' });
