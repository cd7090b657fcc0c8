/** The message says which migration or function is wrong, and what to do. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError';
}
