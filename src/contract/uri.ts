import { z } from 'zod';

/** A URI in an answer, as text: generated clients would unescape the type of a URL. */
export function uri(example: string) {
  return z.string().meta({ examples: [example] });
}
