import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  type FtpsServer,
  startFtpsServer,
  whyNoFtpsServer,
} from '../support/file-servers/ftps/server.ts';
import { longUnless } from '../support/run/long.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';
import { sha256Of } from '../support/service/transfers.ts';

// These tests move real bytes, on machines that may be busy.
vi.setConfig({ testTimeout: 60_000 });

const SESSION_SECONDS = 1;
const whyNot = await whyNoFtpsServer('proftpd');

// The server requires that data connections resume the TLS session of their control connection.
describe.skipIf(whyNot !== null).each(['TLSv1.2', 'TLSv1.3'])(
  `transfers on an FTPS server whose TLS sessions expire, over %s${whyNot ? ` (${whyNot})` : ''}`,
  (version) => {
    let installation: TestInstallation;
    let server: FtpsServer;
    let roles: RunningRoles;

    beforeAll(async () => {
      [installation, server] = await Promise.all([
        openTestInstallation(),
        startFtpsServer({
          kind: 'proftpd',
          tls: 'explicit',
          extraConfig: `TLSProtocol ${version}\nTLSSessionCache internal: ${SESSION_SECONDS}`,
        }),
      ]);
      const { host, port, root, username, password, caPem } = server;
      await configureEndpoint(installation, {
        name: 'ftps',
        protocol: 'ftps',
        host,
        port,
        base_path: root,
        username,
        password,
        ca_pem: caPem,
      });
      roles = await startRoles(installation);
    });
    afterAll(async () => {
      await roles?.stop();
      await Promise.all([installation?.close(), server?.stop()]);
    });

    for (const bytes of [10, 12 << 20]) {
      const options = longUnless(version === 'TLSv1.3' && bytes > 10);
      test(`of ${bytes} bytes complete without a retry`, options, async () => {
        const source = `source-${bytes}`;
        writeFileSync(join(server.root, source), randomBytes(bytes));
        for (const round of [1, 2]) {
          const name = `copy-${round}-${bytes}`;
          const id = await submit(installation, `ftps://ftps/${source}`, `ftps://ftps/${name}`);
          const ended = await untilStatus(installation, id, ['completed', 'failed']);
          expect(ended).toMatchObject({ status: 'completed', facts: { retry_count: 0 } });
          expect(await sha256Of(join(server.root, name))).toBe(
            await sha256Of(join(server.root, source)),
          );
          await sleep((SESSION_SECONDS + 2) * 1_000);
        }
      });
    }
  },
);
