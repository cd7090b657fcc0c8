import { afterAll, beforeAll, expect, test } from 'vitest';
import { createMetrics } from '../../../src/metrics.ts';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../support/file-servers/sftp/server.ts';
import { startApi, type TestApi } from '../../support/http/api.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { CLI_TIMEOUT_MS, createCli } from '../../support/service/cli.ts';
import { configureSftp, submit, untilStatus } from '../../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../../support/service/roles.ts';

const whyNot = await whyNoSftpServer();

describeWithPostgres(`several host keys of an endpoint${whyNot ? ` (${whyNot})` : ''}`, () => {
  let api: TestApi;
  let key: string;
  let server: SftpServer;
  beforeAll(async () => {
    if (whyNot !== null) return;
    [api, server] = await Promise.all([
      startApi(),
      startSftpServer({ hostKeys: ['ed25519', 'ecdsa'] }),
    ]);
    key = (await api.createKey(['admin'])).key;
  });
  afterAll(() => Promise.all([api?.close(), server?.stop()]));

  const ask = (method: string, path: string, json?: unknown) =>
    api.ask(method, `/v1/endpoints/${path}`, { key, ...(json ? { json } : {}) });
  const announcedOf = async (id: string) =>
    (await api.installation.store.read(`endpoint-${id}`)).filter(
      ({ type }) => type === 'endpoint.host_key_announced',
    );

  test.skipIf(whyNot !== null)(
    'are announced once, however many tests see them, and accepted one by one',
    async () => {
      const id = await configureSftp(api.installation, 'tested', server);
      const [ed25519, ecdsa] = server.hostKeysSha256;
      expect((await ask('GET', id)).body).toMatchObject({
        host_key_sha256: ed25519,
        host_keys: [{ sha256: ed25519, expires_at: null }],
        announced_host_keys: [],
      });
      await Promise.all([1, 2, 3].map(() => ask('POST', `${id}/test`)));
      expect(await announcedOf(id)).toMatchObject([
        { data: { sha256: ecdsa, key_type: 'ecdsa-sha2-nistp256', verified_by: ed25519 } },
      ]);
      await expect
        .poll(async () => (await ask('GET', id)).body.announced_host_keys, { timeout: 30_000 })
        .toEqual([
          {
            sha256: ecdsa,
            key_type: 'ecdsa-sha2-nistp256',
            announced_at: expect.stringMatching(/Z$/),
          },
        ]);

      const accepted = await ask('POST', `${id}/accept-host-key`, { host_key_sha256: ecdsa });
      expect(accepted).toMatchObject({
        status: 200,
        body: {
          host_key_sha256: ed25519,
          host_keys: [
            { sha256: ed25519, expires_at: null },
            { sha256: ecdsa, expires_at: null },
          ],
          announced_host_keys: [],
        },
      });
      await ask('POST', `${id}/test`);
      expect(await announcedOf(id)).toHaveLength(1);
    },
  );

  test.skipIf(whyNot !== null)('are announced to the movers of every process', async () => {
    const running: RunningRoles[] = await Promise.all(
      [1, 2].map(() => startRoles(api.installation)),
    );
    try {
      const id = await configureSftp(api.installation, 'moved', server, { max_connections: 1 });
      const transfer = await submit(api.installation, 'sftp://moved/none', 'sftp://moved/copy');
      await untilStatus(api.installation, transfer, 'failed');
      await expect.poll(() => announcedOf(id), { timeout: 30_000 }).toHaveLength(1);
    } finally {
      await Promise.all(running.map((roles) => roles.stop()));
    }
  });

  test.skipIf(whyNot !== null)(
    'are accepted on the command line',
    async () => {
      const [ed25519, ecdsa] = server.hostKeysSha256 as [string, string];
      const id = await configureSftp(api.installation, 'typed', server);
      const cli = createCli(api.installation.environment);
      const accept = ['endpoints', 'accept-host-key', 'typed', ecdsa];
      expect(await cli.run(accept)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('typed has no new host key'),
      });
      expect(await cli.run(['endpoints', 'test', 'typed'])).toMatchObject({
        code: 0,
        stderr: expect.stringContaining(`waybill ${accept.join(' ')}`),
      });
      expect(await announcedOf(id)).toHaveLength(1);
      const metrics = createMetrics(api.installation).registry;
      await expect.poll(() => metrics.metrics()).toMatch(/^waybill_new_host_keys [1-9]/m);
      expect(await cli.run(accept)).toMatchObject({ code: 0 });
      expect((await ask('GET', id)).body).toMatchObject({
        host_keys: [{ sha256: ed25519 }, { sha256: ecdsa }],
        announced_host_keys: [],
      });
    },
    CLI_TIMEOUT_MS,
  );

  test.skipIf(whyNot !== null)('are configured as a list, with their expiry', async () => {
    const [ed25519, ecdsa] = server.hostKeysSha256 as [string, string];
    const id = await configureSftp(api.installation, 'listed', server);
    const { host, port, username } = server;
    const definition = { name: 'listed', protocol: 'sftp', host, port, username };
    const put = (more: object) => ask('PUT', id, { ...definition, ...more });
    const host_keys = [
      { sha256: ed25519, expires_at: '2026-01-31T00:00:00.000Z' },
      { sha256: ecdsa, expires_at: null },
    ];

    expect(await put({ host_keys })).toMatchObject({
      status: 200,
      body: { host_key_sha256: ed25519, host_keys },
    });
    const metrics = await createMetrics(api.installation).registry.metrics();
    expect(metrics).toContain(
      `waybill_host_key_expiry_timestamp_seconds{endpoint="listed",host_key="${ed25519}"} ` +
        `${Date.parse('2026-01-31') / 1_000}`,
    );
    const tested = String((await ask('POST', `${id}/test`)).body);
    expect(tested).toContain(`${ed25519}, which expired at 2026-01-31T00:00:00.000Z`);
    expect(await put({})).toMatchObject({ body: { host_keys } });
    expect(await put({ host_key_sha256: ecdsa })).toMatchObject({ body: { host_keys } });

    const twice = [host_keys[0], host_keys[0]];
    for (const [wrong, field] of [
      [{ host_keys: twice }, 'host_keys'],
      [{ host_keys: [{ sha256: 'md5:of-old' }] }, 'host_keys[0].sha256'],
      [
        { host_keys: [{ sha256: ecdsa, expires_at: '2026-02-30T00:00:00Z' }] },
        'host_keys[0].expires_at',
      ],
      [{ host_keys, host_key_sha256: `SHA256:${'A'.repeat(43)}` }, 'host_key_sha256'],
    ] as const) {
      expect(await put(wrong)).toMatchObject({ status: 400, body: { errors: [{ field }] } });
    }
  });
});
