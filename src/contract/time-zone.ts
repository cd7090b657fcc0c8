import { text } from '../domain/text.ts';
import { isTimeZone } from '../domain/time-zone.ts';

export const timeZone = text
  .max(64)
  .refine(isTimeZone, 'must be the name of a time zone, such as Europe/Berlin or UTC');
