import type { Socket } from 'node:net';
import { Client, type ClientChannel } from 'ssh2';
import { distrust } from '../../../domain/protocols/host-keys.ts';
import { nameOfVia } from '../../../domain/protocols/via.ts';
import { FileError } from '../port.ts';
import { throughHop, type ViaOptions } from '../via/proxy.ts';
import { authorityOf } from '../via/target.ts';
import { connectionError, fileError, withRefusal } from './errors.ts';
import { fingerprintOf } from './host-key.ts';
import { watchPacketSize } from './packet-size.ts';
import { answerPrompts, signIn } from './sign-in.ts';

/**
 * Signs in to a jump host and opens a connection from there to the server (direct-tcpip). The
 * connection to the jump host ends with it: closing the socket ends both, and either end that
 * breaks ends the other. Throws FileError.
 */
export function connectThroughJumpHost(
  options: ViaOptions,
): Promise<{ stream: ClientChannel; socket: Socket }> {
  const { target, via } = options;
  return throughHop(options, async (socket) => {
    const ssh = await signedIn(socket, options);
    const stream = await new Promise<ClientChannel>((resolve, reject) => {
      ssh.once('close', () => reject(new Error('it closed the connection')));
      watchPacketSize(ssh, reject);
      ssh.forwardOut('127.0.0.1', 0, target.host, target.port, (error, channel) => {
        if (!error) return resolve(channel);
        const reason = error.message.replace(/^\(SSH\) Channel open failure: /, '');
        const message = `The ${nameOfVia(via)} did not connect to ${authorityOf(target)}: ${reason}`;
        reject(new FileError('connection_failed', 'connect', message, { cause: error }));
      });
    });
    stream.once('close', () => socket.destroy());
    return { stream, socket };
  });
}

function signedIn(socket: Socket, { via, credentials }: ViaOptions): Promise<Client> {
  const hop = `The ${nameOfVia(via)}`;
  const ssh = new Client();
  const { config, refusal } = signIn(credentials);
  answerPrompts(ssh, config);
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      const failed = fileError(error, 'connect', hop);
      if (failed.code !== 'auth_failed') return reject(failed);
      const message = `${hop} rejected the sign-in`;
      const rejected = new FileError('auth_failed', 'sign_in', message, { cause: error });
      reject(withRefusal(rejected, refusal()));
    };
    // Stays for the life of the connection: an error without a listener would end the process.
    ssh.on('error', (error) => fail(connectionError(error)));
    ssh.on('close', () => fail(new Error('it closed the connection')));
    ssh.on('ready', () => resolve(ssh));
    ssh.connect({
      ...config,
      sock: socket,
      username: via.username ?? '',
      readyTimeout: 0,
      // The result goes through the callback, because ssh2 treats a promise as a yes.
      hostVerifier: (key: Buffer, verify: (trusted: boolean) => void) => {
        const reason = distrust(fingerprintOf(key), via.host_keys ?? []);
        if (reason !== null)
          reject(new FileError('host_key_mismatch', 'connect', `${hop}: ${reason}`));
        verify(reason === null);
      },
    });
  });
}
