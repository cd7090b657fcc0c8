import { z } from 'zod';
import { isStorable } from './storable.ts';

/** Text that can be stored and shown: it has no NUL and no unpaired surrogate. */
export const text = z
  .string()
  .refine(isStorable, 'must not contain a NUL character or an unpaired surrogate');

/**
 * C0 and C1 control characters, and characters that reorder or hide text. The zero-width joiner and
 * non-joiner are in ordinary names: Persian words and emoji need them.
 */
export const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must match them
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

/** What `UNSAFE` matches, in messages. */
export const UNSAFE_WORDS = 'control characters or characters that reorder or hide text';

/** Joins the items for a sentence: `a, b or c`. */
export function anyOf(items: readonly string[]): string {
  return [items.slice(0, -1).join(', '), ...items.slice(-1)].filter(Boolean).join(' or ');
}

/** Text on one line without `UNSAFE` characters, so that a reader sees all of it. */
export const plain = text.refine((value) => !UNSAFE.test(value), {
  error: `must not contain ${UNSAFE_WORDS}`,
  abort: true,
});

/** A name that people read: `plain`, and not only spaces. */
export const title = plain.refine((value) => value === '' || /\S/.test(value), 'must not be blank');

/** Text that an HTTP header can carry, without characters that a server trims. */
export const token = text.refine((value) => /^[\x21-\x7e]*$/.test(value), {
  error: 'must not contain spaces or anything but ASCII characters',
  abort: true,
});
