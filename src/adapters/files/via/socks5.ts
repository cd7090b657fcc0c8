import { isIP, type Socket } from 'node:net';
import { nameOfVia, type Via } from '../../../domain/protocols/via.ts';
import { FileError } from '../port.ts';
import { answered } from './answered.ts';
import { authorityOf, type ViaTarget } from './target.ts';

const VERSION = 5;
const CONNECT = 1;
const NO_SIGN_IN = 0;
const BY_PASSWORD = 2;
const MAX_TEXT_BYTES = 255;

/** What the reply codes mean (RFC 1928, section 6). */
const REPLIES = [
  '',
  'general failure',
  'its rules do not allow it',
  'network unreachable',
  'host unreachable',
  'connection refused',
  'no answer in time',
  'it does not know the command',
  'it does not know this kind of address',
];

/** Asks a SOCKS5 proxy for a connection (RFC 1928, and 1929 for the password). Throws FileError. */
export async function askForSocks(
  socket: Socket,
  via: Via,
  password: string | undefined,
  target: ViaTarget,
): Promise<void> {
  const methods = via.username === null ? [NO_SIGN_IN] : [NO_SIGN_IN, BY_PASSWORD];
  socket.write(Buffer.from([VERSION, methods.length, ...methods]));
  const [version, method] = await bytesOf(socket, 2);
  if (version !== VERSION)
    throw new FileError(
      'connection_failed',
      'connect',
      `The ${nameOfVia(via)} does not answer as a SOCKS5 proxy`,
    );
  if (method === BY_PASSWORD && via.username !== null) {
    socket.write(Buffer.from([1, ...textOf(via.username), ...textOf(password ?? '')]));
    const [, status] = await bytesOf(socket, 2);
    if (status !== 0) throw rejectedSignIn(via);
  } else if (method !== NO_SIGN_IN) throw rejectedSignIn(via);

  socket.write(Buffer.concat([Buffer.from([VERSION, CONNECT, 0]), addressOf(target)]));
  const reply = await answered(socket, (bytes) => {
    const length = replyLength(bytes);
    return length === null || bytes.length < length ? null : { used: length, value: bytes[1] ?? 1 };
  });
  if (reply === 0) return;
  throw new FileError(
    'connection_failed',
    'connect',
    `The ${nameOfVia(via)} did not connect to ${authorityOf(target)}: ` +
      (REPLIES[reply] ?? `reply ${reply}`),
  );
}

/** Returns the error of a proxy that rejects the sign-in, or asks for one. */
export function rejectedSignIn(via: Via): FileError {
  const hop = `The ${nameOfVia(via)}`;
  return new FileError(
    'auth_failed',
    'sign_in',
    via.username === null
      ? `${hop} asks for a user name and password`
      : `${hop} rejected the user name or password`,
  );
}

function bytesOf(socket: Socket, count: number): Promise<Buffer> {
  return answered(socket, (bytes) =>
    bytes.length < count ? null : { used: count, value: bytes.subarray(0, count) },
  );
}

/** Returns null until the kind of the address is known. */
function replyLength(bytes: Buffer): number | null {
  if (bytes.length < 5) return null;
  const address = { 1: 4, 3: 1 + (bytes[4] ?? 0), 4: 16 }[bytes[3] ?? 0] ?? 0;
  return 4 + address + 2;
}

function textOf(text: string): Buffer {
  const bytes = Buffer.from(text).subarray(0, MAX_TEXT_BYTES);
  return Buffer.concat([Buffer.from([bytes.length]), bytes]);
}

/**
 * Returns an address as SOCKS5 has it. A proxy resolves a name, and takes an IPv6 address as one.
 */
function addressOf({ host, port }: ViaTarget): Buffer {
  const end = Buffer.alloc(2);
  end.writeUInt16BE(port);
  const address = isIP(host) === 4 ? [1, ...host.split('.').map(Number)] : [3, ...textOf(host)];
  return Buffer.concat([Buffer.from(address), end]);
}
