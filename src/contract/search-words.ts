import { text } from '../domain/text.ts';

const WORDS = 10;

/** The query parameter `q` of a list: words, all of which a result has. */
export const words = text
  .max(256)
  .refine((value) => /\S/.test(value), 'must have a word')
  .refine((value) => value.trim().split(/\s+/).length <= WORDS, `must have at most ${WORDS} words`);
