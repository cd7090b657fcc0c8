import { afterEach, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import type { SshCredentials } from '../../../../src/adapters/files/sftp/sign-in.ts';
import { newHostKey } from '../../../../src/dev/sftp-server.ts';
import { endpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../../support/file-servers/sftp/server.ts';

const whyNot =
  process.getuid?.() === 0 ? await whyNoSftpServer() : 'OpenSSH checks passwords only as root';
const never = new AbortController().signal;
const KEYBOARD = 'UsePAM yes\nKbdInteractiveAuthentication yes';

let server: SftpServer;
let endpoint: FileEndpoint;

afterEach(async () => {
  await endpoint?.close();
  await server?.stop();
});

async function endpointWith(
  config: string,
  given: (server: SftpServer) => SshCredentials,
): Promise<FileEndpoint> {
  server = await startSftpServer({ extraConfig: config });
  endpoint = endpointOn(server, { credentials: given(server) as { password: string } });
  return endpoint;
}

const key = ({ privateKey }: SftpServer) => ({ private_key: privateKey });
const password = ({ password = '' }: SftpServer) => ({ password });
const both = (on: SftpServer) => ({ ...key(on), ...password(on) });
const locked = ({ protectedKey: { privateKey, passphrase }, password = '' }: SftpServer) => ({
  private_key: privateKey,
  passphrase,
  password,
});
const unknownKey = () => ({ private_key: newHostKey(), password: 'canary' });

const TITLE = 'an SSH server that requires two secrets';

describe.skipIf(whyNot !== null)(whyNot === null ? TITLE : `${TITLE} (${whyNot})`, () => {
  test.each([
    ['publickey,password', '', both],
    ['password,publickey', '', both],
    ['publickey,password', '', locked],
    ['publickey,keyboard-interactive', KEYBOARD, both],
    ['publickey,keyboard-interactive publickey,password', KEYBOARD, both],
    ['any', '', both],
  ])('takes both (%s)', async (methods, config, given) => {
    const { list } = await endpointWith(`AuthenticationMethods ${methods}\n${config}`, given);
    expect(await list(server.root, never)).toEqual([]);
  });

  const wrong = (on: SftpServer) => ({ ...key(on), password: 'canary' });
  test.each([
    ['publickey,password', '', wrong, 'private key accepted, password rejected'],
    ['publickey,keyboard-interactive', KEYBOARD, wrong, 'private key accepted, password rejected'],
    ['password,publickey', '', wrong, 'password rejected'],
    ['publickey,password', '', unknownKey, 'private key rejected'],
    ['any', '', unknownKey, 'private key rejected, password rejected'],
    ['publickey,password', '', key, 'private key accepted, password required'],
    ['password,publickey', '', password, 'password accepted, publickey required'],
  ])('says which one it rejects (%s)', async (methods, config, given, refusal) => {
    const { list } = await endpointWith(`AuthenticationMethods ${methods}\n${config}`, given);
    const error = await list(server.root, never).then(
      () => null,
      (error: Error) => error,
    );
    expect(error).toMatchObject({
      code: 'auth_failed',
      step: 'sign_in',
      message: `Authentication failed: ${refusal}`,
    });
    expect(error?.stack).not.toContain('canary');
  });

  test('says no more of one secret that is wrong', async () => {
    const { list } = await endpointWith('', () => ({ password: 'wrong' }));
    await expect(list(server.root, never)).rejects.toMatchObject({
      message: 'Authentication failed',
    });
  });
});
