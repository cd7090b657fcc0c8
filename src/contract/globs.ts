import { text } from '../domain/text.ts';

/** A glob that chooses files of a folder. */
export const glob = text.min(1).max(256);
/** Globs of files to leave out, at most. */
export const MAX_GLOBS = 20;
