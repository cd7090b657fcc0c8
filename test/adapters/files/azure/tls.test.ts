import { randomBytes, X509Certificate } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import {
  type Azurite,
  shareAzurite,
  whyNoAzurite,
} from '../../../support/file-servers/azure/azurite.ts';
import {
  createCertificates,
  type ServerCertificate,
  type TestCertificates,
} from '../../../support/network/certificates.ts';
import { debianPackages } from '../../../support/programs/debian.ts';
import { download, upload } from '../contract.ts';
import { endpointOn } from './endpoint-on.ts';
import { type Relay, startRelay } from './relay.ts';

const never = new AbortController().signal;
const openssl = await debianPackages(['openssl'], ['/usr/bin/openssl']);
const whyNot = (await whyNoAzurite()) ?? (openssl.available ? null : openssl.reason);

describe.skipIf(whyNot !== null)(
  whyNot === null ? 'Azure over https' : `Azure over https (${whyNot})`,
  () => {
    let azurite: Azurite;
    let certificates: TestCertificates;
    const relays: Relay[] = [];
    const open: FileEndpoint[] = [];

    beforeAll(async () => {
      [azurite, certificates] = await Promise.all([shareAzurite(), createCertificates()]);
      await azurite.createContainer('container');
    });
    afterEach(async () => {
      for (const endpoint of open.splice(0)) await endpoint.close();
      for (const relay of relays.splice(0)) relay.close();
    });
    afterAll(() => azurite?.stop());

    async function start(
      tls: ServerCertificate,
      ca_pem: string | null = certificates.caPem,
    ): Promise<FileEndpoint> {
      const url = new URL(azurite.endpointUrl);
      const relay = await startRelay(Number(url.port), { tls });
      relays.push(relay);
      const endpoint = endpointOn(azurite, {
        settings: { endpoint_url: `https://localhost:${relay.port}${url.pathname}`, ca_pem },
      });
      open.push(endpoint);
      return endpoint;
    }

    const fingerprintOf = ({ cert }: ServerCertificate) => new X509Certificate(cert).fingerprint256;

    test('a file moves when the configured CA signed the certificate', async () => {
      const endpoint = await start(certificates.valid);
      for (const size of [5, (16 << 20) + 5]) {
        const content = randomBytes(size);
        await upload(endpoint, `over-tls-${size}`, content);
        expect(content.equals(await download(endpoint, `over-tls-${size}`))).toBe(true);
      }
      expect(await endpoint.probe(never)).toEqual({
        fingerprint: fingerprintOf(certificates.valid),
        trusted: true,
        reason: null,
      });
    });

    test.each([
      ['of another CA', 'untrusted'],
      ['that has expired', 'expired'],
      ['for another name', 'otherName'],
    ] as const)('nothing is sent to a server with a certificate %s', async (_name, which) => {
      const endpoint = await start(certificates[which]);
      const refused = { name: 'FileError', code: 'tls_error', step: 'connect' };
      await expect(endpoint.openSource('x', never)).rejects.toMatchObject(refused);
      await expect(upload(endpoint, 'x', Buffer.from('x'))).rejects.toMatchObject(refused);
      expect(await endpoint.probe(never)).toMatchObject({
        fingerprint: fingerprintOf(certificates[which]),
        trusted: false,
      });
    });

    test('only the configured CAs are trusted', async () => {
      const endpoint = await start(certificates.valid, null);
      await expect(endpoint.openSource('x', never)).rejects.toMatchObject({
        code: 'tls_error',
        step: 'connect',
      });
    });
  },
);
