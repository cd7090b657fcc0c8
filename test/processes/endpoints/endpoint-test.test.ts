import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openFileEndpoint } from '../../../src/adapters/files/open.ts';
import { TRANSFER_ERRORS } from '../../../src/domain/transfers/errors.ts';
import { type EndpointTest, testEndpoint } from '../../../src/processes/endpoints/endpoint-test.ts';
import type { StepResult } from '../../../src/processes/endpoints/test-step.ts';
import {
  type SftpServer,
  type SftpServerOptions,
  startSftpServer,
  whyNoSftpServer,
} from '../../support/file-servers/sftp/server.ts';
import { freePort } from '../../support/network/free-port.ts';
import { startTcpProxy } from '../../support/network/tcp-proxy.ts';
import { LONG } from '../../support/run/long.ts';

const reason = await whyNoSftpServer();
const STEPS = ['resolve', 'connect', 'sign_in', 'list', 'write', 'rename', 'read', 'remove'];
const AS_ROOT = process.getuid?.() === 0;

describe.skipIf(reason !== null)(
  `the test of an endpoint${reason ? ` (skipped, no SFTP server: ${reason})` : ''}`,
  () => {
    let server: SftpServer;

    beforeAll(async () => {
      server = await startSftpServer();
    });
    afterAll(() => server?.stop());

    interface Changes {
      host?: string;
      port?: number;
      base_path?: string;
      host_key_sha256?: string | null;
      credentials?: { password: string } | { private_key: string };
    }

    /**
     * Tests the server with its own settings or with changed ones, and returns the announced steps
     * too.
     */
    async function examine(
      changes: Changes = {},
      at = server,
      stopAfter: string | null = null,
    ): Promise<{ examination: EndpointTest; announced: StepResult[] }> {
      const { host, port, root, username, hostKeySha256, privateKey } = at;
      const { credentials = { private_key: privateKey }, ...settingsChanges } = changes;
      const settings = {
        protocol: 'sftp' as const,
        host,
        port,
        base_path: root,
        username,
        host_key_sha256: hostKeySha256,
        host_keys: null,
        ...settingsChanges,
      };
      const announced: StepResult[] = [];
      const endpoint = await openFileEndpoint(
        { settings, max_connections: 4 } as Parameters<typeof openFileEndpoint>[0],
        credentials,
      );
      const stop = new AbortController();
      const onStep = (step: StepResult) => {
        announced.push(step);
        if (step.step === stopAfter) stop.abort(new Error('stopped'));
      };
      const examination = await testEndpoint({ settings, endpoint }, onStep, {
        stop: stop.signal,
      });
      return { examination, announced };
    }

    /** Expects that all earlier steps passed and that no step follows. */
    function expectFailure(
      examination: EndpointTest,
      step: string,
      code: keyof typeof TRANSFER_ERRORS,
      advice: string = TRANSFER_ERRORS[code].advice,
    ): void {
      expect(examination.ok).toBe(false);
      expect(examination.steps.map(({ step }) => step)).toEqual(
        STEPS.slice(0, STEPS.indexOf(step) + 1),
      );
      expect(examination.steps.slice(0, -1).every(({ ok }) => ok)).toBe(true);
      const message = expect.stringMatching(/./);
      expect(examination.steps.at(-1)).toMatchObject({ ok: false, code, message, advice });
    }

    test('runs every step on a working endpoint, with times and speeds', async () => {
      const { examination, announced } = await examine();
      expect(examination).toMatchObject({ ok: true, fingerprint: server.hostKeySha256 });
      expect(examination.steps.map(({ step, ok }) => ({ step, ok }))).toEqual(
        STEPS.map((step) => ({ step, ok: true })),
      );
      for (const { ms } of examination.steps) expect(ms).toBeGreaterThanOrEqual(0);
      expect(examination.write_bps).toBeGreaterThan(0);
      expect(examination.read_bps).toBeGreaterThan(0);
      expect(announced).toEqual(examination.steps);
      expect(readdirSync(server.root)).toEqual([]);
    });

    test('passes if the answer to the removal is lost', async () => {
      const proxy = await startTcpProxy(server);
      let seen = false;
      const removed = () => {
        const isThere = readdirSync(server.root).some((name) => !name.endsWith('.part'));
        seen ||= isThere;
        return seen && !isThere;
      };
      const lost = proxy.cutWhen(removed, 'down');
      const { examination } = await examine({ port: proxy.port });
      await lost;
      expect(examination.steps.at(-1)).toMatchObject({ step: 'remove', ok: true });
      await proxy.close();
    });

    test.each(['write', 'rename', 'read'])(
      'removes the probe file if it is stopped after the step %s',
      async (last) => {
        const { examination } = await examine({}, server, last);
        expect(examination.ok).toBe(false);
        expect(examination.steps.map(({ step }) => step)).toEqual(
          STEPS.slice(0, STEPS.indexOf(last) + 1),
        );
        expect(examination.steps.every(({ ok }) => ok)).toBe(true);
        expect(readdirSync(server.root)).toEqual([]);
      },
    );

    test('leaves no connection open', async () => {
      const settings = {
        protocol: 'sftp' as const,
        base_path: server.root,
        host_key_sha256: server.hostKeySha256,
        host_keys: null,
        ...pick(server),
      };
      const endpoint = await openFileEndpoint(
        { settings, max_connections: 4 } as Parameters<typeof openFileEndpoint>[0],
        {
          private_key: server.privateKey,
        },
      );
      await testEndpoint({ settings, endpoint }, () => undefined);
      expect(await endpoint.connections()).toBe(0);
    });

    test('fails for a host without an address', async () => {
      const { examination } = await examine({ host: 'nowhere.invalid' });
      expectFailure(examination, 'resolve', 'connection_failed');
      expect(examination.steps.at(-1)).toMatchObject({
        message: expect.stringContaining('nowhere.invalid'),
      });
      expect(examination.fingerprint).toBeNull();
    });

    test('fails for a closed port', async () => {
      const { examination } = await examine({ port: await freePort() });
      expectFailure(examination, 'connect', 'connection_failed');
      expect(examination).toMatchObject({ fingerprint: null, write_bps: null, read_bps: null });
    });

    test('names the algorithms of a server with post-quantum key exchange only', async () => {
      const other = await startSftpServer({
        extraConfig: 'KexAlgorithms sntrup761x25519-sha512@openssh.com',
      });
      const { examination } = await examine({}, other).finally(other.stop);
      expectFailure(examination, 'connect', 'tls_error');
      expect(examination.steps.at(-1)).toMatchObject({
        message: expect.stringContaining('The server offers sntrup761x25519-sha512@openssh.com'),
        advice: expect.stringContaining('enable one of the algorithms'),
      });
    });

    test.each([
      ['not pinned', null],
      ['pinned to another', `SHA256:${'A'.repeat(43)}`],
    ])('returns a host key that is %s, and tries no sign-in', async (_, host_key_sha256) => {
      const { examination } = await examine({ host_key_sha256 });
      expectFailure(examination, 'connect', 'host_key_mismatch');
      expect(examination.fingerprint).toBe(server.hostKeySha256);
    });

    test('fails with a wrong password', async (ctx) => {
      if (server.password === undefined) return ctx.skip('OpenSSH checks passwords for root only');
      const { examination } = await examine({ credentials: { password: 'not it' } });
      expectFailure(examination, 'sign_in', 'auth_failed');
      expect(examination.steps.at(-1)).toMatchObject({ message: 'Authentication failed' });
    });

    test('fails with a key that the server does not know', async () => {
      const other = await startSftpServer();
      await other.stop();
      const { examination } = await examine({ credentials: { private_key: other.privateKey } });
      expectFailure(examination, 'sign_in', 'auth_failed');
    });

    test('fails for a base path that does not exist', async () => {
      const { examination } = await examine({ base_path: `${server.root}/none` });
      expectFailure(
        examination,
        'list',
        'source_not_found',
        "Create the folder on the server, or correct the endpoint's `base_path`.",
      );
      expect(examination.steps.at(-1)).toMatchObject({
        message: expect.stringContaining(`${server.root}/none`),
      });
    });

    test.each([
      ['is read-only', 'write', { readOnly: true }],
      ['rejects renames', 'rename', { denied: ['rename', 'posix-rename'] }],
      ['rejects reads', 'read', { denied: ['read'] }],
    ] as [string, string, SftpServerOptions][])(
      'leaves nothing on a server that %s',
      async (_, step, options) => {
        const other = await startSftpServer(options);
        try {
          const { examination } = await examine({}, other);
          expectFailure(examination, step, 'permission_denied');
          expect(readdirSync(other.root)).toEqual([]);
        } finally {
          await other.stop();
        }
      },
    );

    test('fails for a full disk', LONG, async (ctx) => {
      if (!AS_ROOT) return ctx.skip('only root can mount a small disk');
      const other = await startSftpServer({ smallDiskBytes: 2 << 20 });
      try {
        const { examination } = await examine({ base_path: other.smallDisk }, other);
        expectFailure(examination, 'write', 'disk_full');
        // The probe file is gone: there is room for another test, which gets as far.
        expectFailure(
          (await examine({ base_path: other.smallDisk }, other)).examination,
          'write',
          'disk_full',
        );
      } finally {
        await other.stop();
      }
    });
  },
);

function pick({ host, port, username }: SftpServer) {
  return { host, port, username };
}
