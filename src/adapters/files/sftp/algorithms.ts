import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { Client } from 'ssh2';

const KINDS: Record<string, string> = {
  'KEX method': 'key exchange algorithm',
  'Host key format': 'host key algorithm',
  'C->S cipher': 'cipher',
  'S->C cipher': 'cipher',
  'C->S MAC': 'MAC',
  'S->C MAC': 'MAC',
  'C->S compression': 'compression',
  'S->C compression': 'compression',
};

/** Returns true if a handshake failed because client and server share no algorithm of some kind. */
export function sharesNoAlgorithm(error: unknown): boolean {
  return /^Handshake failed: no matching /.test((error as Error | null)?.message ?? '');
}

/**
 * Begins a handshake on another connection and returns a sentence: which kind of algorithm has no
 * match, and what each side offers. ssh2 reports the offers to `debug` only, which would slow down
 * every connection. Does not sign in.
 */
export async function describeOffers(
  sock: Duplex,
  username: string,
  timeoutMs: number,
): Promise<string> {
  let kind = '';
  const offers = { local: '', remote: '' };
  const ssh = new Client();
  const closed = once(ssh, 'close');
  ssh
    .on('error', () => {})
    .connect({
      sock,
      username,
      readyTimeout: timeoutMs,
      hostVerifier: () => false,
      debug(line) {
        const [, side, label, list] =
          /^Handshake: \((local|remote)\) ([^:]+): (.*)$/.exec(line) ?? [];
        if (!side || !label || list === undefined) return;
        kind = KINDS[label] ?? label;
        offers[side as keyof typeof offers] = algorithmsIn(list);
      },
    });
  await closed.catch(() => {});
  if (!kind) return 'the server and Waybill share no algorithm';
  const { local, remote } = offers;
  return (
    `the server and Waybill share no ${kind}. ` +
    `The server offers ${remote}. Waybill offers ${local}`
  );
}

/**
 * Returns a list as ssh2 prints it, without the names that only announce an extension of the
 * protocol.
 */
function algorithmsIn(list: string): string {
  const names = list.split(',').map((name) => name.trim());
  return names.filter((name) => !/^(ext-info-|kex-strict-)/.test(name)).join(', ') || 'none';
}
