import { afterEach, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { endpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../../support/file-servers/sftp/server.ts';

const never = new AbortController().signal;
const whyNot = await whyNoSftpServer();
let server: SftpServer;
let endpoint: FileEndpoint;

afterEach(async () => {
  await endpoint?.close();
  await server?.stop();
});

describe.skipIf(whyNot !== null)(
  `an SSH server that shares no algorithm with us${whyNot ? ` (${whyNot})` : ''}`,
  () => {
    test.each([
      [
        'KexAlgorithms sntrup761x25519-sha512@openssh.com',
        /share no key exchange algorithm\. The server offers sntrup761x25519-sha512@openssh\.com\. Waybill offers .*curve25519-sha256/,
      ],
      [
        'Ciphers aes256-cbc',
        /share no cipher\. The server offers aes256-cbc\. Waybill offers .*aes128-gcm@openssh\.com/,
      ],
      [
        'Ciphers aes128-ctr\nMACs umac-64@openssh.com',
        /share no MAC\. The server offers umac-64@openssh\.com\. Waybill offers .*hmac-sha2-256/,
      ],
    ])('%s is a permanent error that names the offers', async (extraConfig, words) => {
      server = await startSftpServer({ extraConfig });
      endpoint = endpointOn(server);
      const permanent = {
        code: 'tls_error',
        step: 'connect',
        message: expect.stringMatching(words),
      };
      await expect(endpoint.list('/', never)).rejects.toMatchObject(permanent);
      await expect(endpoint.probe(never)).rejects.toMatchObject(permanent);
      await expect(endpoint.openSource('/x', never)).rejects.toMatchObject(permanent);
    });
  },
);
