/** The form of an account's name. */
export const ACCOUNT = /^[a-z0-9_][a-z0-9_-]{0,63}$/;

/** Always exists. Any other account exists once it has had a key. */
export const DEFAULT_ACCOUNT = 'acc_default';
