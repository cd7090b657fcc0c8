import { randomBytes, X509Certificate } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import { type S3Server, startS3Server } from '../../../support/file-servers/s3/server/server.ts';
import {
  createCertificates,
  type ServerCertificate,
  type TestCertificates,
} from '../../../support/network/certificates.ts';
import { debianPackages } from '../../../support/programs/debian.ts';
import { download, options, readAll, upload, whole, writeFrom } from '../contract.ts';
import { endpointOn } from './endpoint-on.ts';

const never = new AbortController().signal;
const openssl = await debianPackages(['openssl'], ['/usr/bin/openssl']);
const whyNot = openssl.available ? null : openssl.reason;

describe.skipIf(whyNot !== null)(
  whyNot === null ? 'S3 over https' : `S3 over https (${whyNot})`,
  () => {
    let certificates: TestCertificates;
    const servers: S3Server[] = [];
    const open: FileEndpoint[] = [];

    beforeAll(async () => {
      certificates = await createCertificates();
    });
    afterEach(async () => {
      for (const endpoint of open.splice(0)) await endpoint.close();
      for (const server of servers.splice(0)) await server.stop();
    });
    afterAll(async () => {
      for (const server of servers) await server.stop();
    });

    async function start(
      certificate: ServerCertificate,
      caPem: string | null = certificates.caPem,
    ) {
      const server = await startS3Server({ tls: certificate });
      servers.push(server);
      server.createBucket('bucket');
      const endpoint = endpointOn(server, { settings: { ca_pem: caPem } });
      open.push(endpoint);
      return { server, endpoint };
    }

    const fingerprintOf = ({ cert }: ServerCertificate) => new X509Certificate(cert).fingerprint256;

    test('a file moves when the configured CA signed the certificate', async () => {
      const { server, endpoint } = await start(certificates.valid);
      const content = randomBytes((16 << 20) + 5);
      const memory = Buffer.from(new SharedArrayBuffer(content.length));
      content.copy(memory);
      const file = await endpoint.openDestination('over-tls', options(content.length));
      await writeFrom(file, memory);
      expect(await file.commit(whole(content))).toMatchObject({ destinationChecksum: 'crc32' });
      const source = await endpoint.openSource('over-tls', never);
      memory.fill(0);
      await readAll(source, memory);
      expect(content.equals(memory)).toBe(true);
      await upload(endpoint, 'small', Buffer.from('small'));
      expect(await download(endpoint, 'small')).toEqual(Buffer.from('small'));
      expect(await endpoint.probe(never)).toEqual({
        fingerprint: fingerprintOf(certificates.valid),
        trusted: true,
        reason: null,
      });
      // The server notes the end of an answer a moment after the client has read it.
      await expect
        .poll(() => server.requests.every(({ status }) => status !== null && status < 300))
        .toBe(true);
    });

    test.each([
      ['of another CA', 'untrusted'],
      ['that has expired', 'expired'],
      ['for another name', 'otherName'],
    ] as const)('nothing is sent to a server with a certificate %s', async (_name, which) => {
      const { server, endpoint } = await start(certificates[which]);
      await expect(endpoint.openSource('x', never)).rejects.toMatchObject({
        name: 'FileError',
        code: 'tls_error',
        step: 'connect',
      });
      await expect(upload(endpoint, 'x', Buffer.from('x'))).rejects.toMatchObject({
        code: 'tls_error',
        step: 'connect',
      });
      const peer = await endpoint.probe(never);
      expect(peer).toMatchObject({
        fingerprint: fingerprintOf(certificates[which]),
        trusted: false,
        reason: expect.stringContaining('certificate'),
      });
      expect(server.requests).toEqual([]);
    });

    test('a private CA that is not configured is rejected', async () => {
      const { endpoint } = await start(certificates.valid, null);
      await expect(endpoint.list('', never)).rejects.toMatchObject({ code: 'tls_error' });
      expect(await endpoint.probe(never)).toMatchObject({ trusted: false });
    });
  },
);
