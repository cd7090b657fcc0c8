import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FileEndpoint } from '../../../../src/adapters/files/port.ts';
import type { HostKey } from '../../../../src/domain/protocols/host-keys.ts';
import { endpointOn } from '../../../support/file-servers/sftp/endpoint.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../../support/file-servers/sftp/server.ts';

const whyNot = await whyNoSftpServer();
const never = new AbortController().signal;
const OTHER = { sha256: `SHA256:${'A'.repeat(43)}`, expires_at: null };
const PAST = '2026-01-31T00:00:00.000Z';
const FUTURE = '2999-01-31T00:00:00.000Z';

describe.skipIf(whyNot !== null)(
  `host keys of an SFTP server${whyNot ? ` (${whyNot})` : ''}`,
  () => {
    let server: SftpServer;
    const open: FileEndpoint[] = [];

    beforeAll(async () => {
      server = await startSftpServer({ hostKeys: ['ed25519', 'ecdsa'] });
    });
    afterEach(async () => {
      for (const endpoint of open.splice(0)) await endpoint.close();
    });
    afterAll(() => server?.stop());

    function accepting(host_keys: HostKey[], fastPath = true): FileEndpoint {
      const host_key_sha256 = host_keys[0]?.sha256 ?? null;
      const settings = { host_key_sha256, host_keys };
      const endpoint = endpointOn(server, { settings, maxConnections: 1, fastPath });
      open.push(endpoint);
      return endpoint;
    }

    const shown = (expires_at: string | null = null): HostKey => ({
      sha256: server.hostKeySha256,
      expires_at,
    });

    test('accept the server if any of them is its key', async () => {
      const endpoint = accepting([OTHER, shown(FUTURE)]);
      expect(await endpoint.list(server.root, never)).toEqual([]);
      expect(await endpoint.probe(never)).toMatchObject({ trusted: true });
    });

    test('reject the server if its key has expired', async () => {
      const endpoint = accepting([OTHER, shown(PAST)]);
      const message = `The server presents the host key ${server.hostKeySha256}, which expired at ${PAST}`;
      await expect(endpoint.list(server.root, never)).rejects.toMatchObject({
        code: 'host_key_mismatch',
        step: 'connect',
        message,
      });
      expect(await endpoint.probe(never)).toMatchObject({ trusted: false, reason: message });
      expect(await endpoint.announcedHostKeys?.()).toEqual([]);
    });

    test.each([true, false])(
      'are announced by the verified server, which proves to own them (fast path: %s)',
      async (fastPath) => {
        const endpoint = accepting([shown()], fastPath);
        await endpoint.list(server.root, never);
        const [ed25519, ecdsa] = server.hostKeysSha256;
        const verified_by = server.hostKeySha256;
        await expect
          .poll(() => endpoint.announcedHostKeys?.(), { timeout: 30_000 })
          .toEqual([
            { sha256: ed25519, key_type: 'ssh-ed25519', verified_by },
            { sha256: ecdsa, key_type: 'ecdsa-sha2-nistp256', verified_by },
          ]);
        // The connection still works after the announcement.
        expect(await endpoint.list(server.root, never)).toEqual([]);
      },
    );
  },
);
