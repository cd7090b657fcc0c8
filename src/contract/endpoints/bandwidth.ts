import { z } from 'zod';
import { DAYS, LEAST_BYTES_PER_SECOND } from '../../domain/endpoints/bandwidth.ts';
import { eachOnce } from '../each-once.ts';
import { timeZone } from '../time-zone.ts';

export const BANDWIDTH_WINDOWS = 20;

const bytesPerSecond = z
  .int()
  .min(
    LEAST_BYTES_PER_SECOND,
    `must be at least ${LEAST_BYTES_PER_SECOND}; pause the endpoint to stop its transfers`,
  )
  .nullable()
  .meta({ examples: [5_000_000] });

const clock = (pattern: RegExp, message: string) => z.string().regex(pattern, message);
const FROM = /^([01]\d|2[0-3]):[0-5]\d$/;
const TO = /^(([01]\d|2[0-3]):[0-5]\d|24:00)$/;

const window = z
  .strictObject({
    days: z
      .array(z.enum(DAYS))
      .min(1)
      .max(DAYS.length)
      .overwrite(eachOnce)
      .default([...DAYS])
      .describe('The days on which it begins; every day by default.'),
    from: clock(FROM, 'must be a time such as 08:00').meta({ examples: ['08:00'] }),
    to: clock(TO, 'must be a time such as 18:00, or 24:00')
      .describe('A window that ends before it begins goes over midnight.')
      .meta({ examples: ['18:00'] }),
    time_zone: timeZone
      .default('UTC')
      .describe('The zone of `from` and `to`.')
      .meta({ examples: ['Europe/Berlin'] }),
    bytes_per_second: bytesPerSecond.describe('The limit in the window; null for none.'),
  })
  .superRefine(({ from, to }, context) => {
    if (from === to)
      context.addIssue({
        code: 'custom',
        path: ['to'],
        message: 'must differ from `from`; a whole day is from 00:00 to 24:00',
      });
  })
  .meta({ id: 'BandwidthWindow' });

/** The limit of an endpoint, in requests and answers. */
export const bandwidth = z
  .strictObject({
    bytes_per_second: bytesPerSecond
      .default(null)
      .describe('The limit outside of the windows; null for none.'),
    windows: z
      .array(window)
      .max(BANDWIDTH_WINDOWS)
      .default([])
      .describe('Times with another limit. If several windows hold, the first one applies.'),
  })
  .meta({ id: 'Bandwidth' });
