/**
 * A file up to this size is small: its requests cost more than its bytes. So it moves in one piece,
 * shares its connections with others, and shows no progress of its own.
 */
export const SMALL_FILE_BYTES = 256 * 1024;
