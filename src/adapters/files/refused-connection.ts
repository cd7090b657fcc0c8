import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from './abort.ts';
import { FileError } from './port.ts';

/*
 * Servers limit the connections of a user or an address, and some ban clients that try again. Many
 * count a connection that they refuse until it has ended.
 */

/** How long a pool does without a connection that a server has refused, while it accepts others. */
export const ENOUGH_MS = 60_000;
/** After this long, a server no longer counts the connections that it has refused. */
const FORGOTTEN_MS = 1_000;

export function isRefused(error: unknown): boolean {
  return error instanceof FileError && error.code === 'connection_failed';
}

/** True if the server has as many connections as it accepts: one may be free later. */
export function isBusy(error: unknown): boolean {
  return error instanceof FileError && error.busy;
}

const TOO_MANY = /too many|maximum (number|clients|connections|sessions)/i;
const BANNED = /\bbann?ed|fail|attempt|auth/i;

/** Returns whether a server says that it has no room for a connection. */
export function saysBusy(words: string): boolean {
  return TOO_MANY.test(words) && !saysBanned(words);
}

/** Returns whether a server says that it has banned a client, which must not try again soon. */
export function saysBanned(words: string): boolean {
  return BANNED.test(words);
}

/**
 * Creates the wait for the next try at a server that has no room. The pauses grow up to `longestMs`,
 * and the last try is at `until`. Resolves with false if that is over, or if the signal aborts.
 */
export function createBusyWait(
  until: number,
  longestMs: number,
): (signal: AbortSignal) => Promise<boolean> {
  let pause = FORGOTTEN_MS;
  return async (signal) => {
    const left = until - performance.now();
    if (left <= 0) return false;
    const waited = abortable(sleep(Math.min(pause, longestMs, left)), signal, 'connect');
    pause *= 2;
    return waited.then(
      () => true,
      () => false,
    );
  };
}

/**
 * Connections that are opened at once may count against each other until all of them are refused.
 * Resolves when one of them can be tried alone.
 */
export function untilForgotten(signal: AbortSignal): Promise<void> {
  return abortable(sleep(FORGOTTEN_MS), signal, 'connect');
}
