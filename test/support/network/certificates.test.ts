import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:tls';
import { beforeAll, expect, test } from 'vitest';
import {
  createCertificates,
  type ServerCertificate,
  type TestCertificates,
} from './certificates.ts';

let certificates: TestCertificates;

beforeAll(async () => {
  certificates = await createCertificates();
});

/** Returns what a client that trusts our authority says about a server with this certificate. */
async function verdict(certificate: ServerCertificate): Promise<string> {
  const server = createServer(certificate).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect({
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    ca: certificates.caPem,
  });
  try {
    return await once(client, 'secureConnect').then(
      () => 'trusted',
      (error) => error.code,
    );
  } finally {
    client.destroy();
    server.close();
  }
}

test('the valid certificate is trusted for 127.0.0.1', async () => {
  expect(await verdict(certificates.valid)).toBe('trusted');
});

test('each of the others is rejected for its own reason', async () => {
  expect(await verdict(certificates.expired)).toBe('CERT_HAS_EXPIRED');
  expect(await verdict(certificates.otherName)).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
  expect(await verdict(certificates.untrusted)).toBe('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
});
