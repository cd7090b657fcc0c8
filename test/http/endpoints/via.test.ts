import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type SftpServer,
  startSftpServer,
  whyNoSftpServer,
} from '../../support/file-servers/sftp/server.ts';
import { startApi, type TestApi } from '../../support/http/api.ts';
import { freePort } from '../../support/network/free-port.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import { submit, untilStatus } from '../../support/service/installation.ts';
import { startRoles } from '../../support/service/roles.ts';

const whyNot = await whyNoSftpServer();
const CANARY = 'canary-of-a-hop';

describeWithPostgres(`an endpoint behind a hop${whyNot ? ` (${whyNot})` : ''}`, () => {
  let api: TestApi;
  let key: string;
  let target: SftpServer;
  let jump: SftpServer;
  beforeAll(async () => {
    if (whyNot !== null) return;
    [api, target, jump] = await Promise.all([startApi(), startSftpServer(), startSftpServer()]);
    key = (await api.createKey(['admin'])).key;
  });
  afterAll(() => Promise.all([api?.close(), target?.stop(), jump?.stop()]));

  async function ask(method: string, path: string, json?: unknown) {
    const answer = await api.ask(method, `/v1/endpoints${path}`, {
      key,
      ...(json ? { json } : {}),
    });
    expect(JSON.stringify(answer.body ?? '')).not.toContain(CANARY);
    expect(JSON.stringify(answer.body ?? '')).not.toContain('PRIVATE KEY');
    return answer;
  }
  const server = (name: string) => ({
    name,
    protocol: 'sftp',
    host: target.host,
    port: target.port,
    base_path: target.root,
    username: target.username,
    host_key_sha256: target.hostKeySha256,
  });
  const hop = () => ({
    type: 'ssh',
    host: jump.host,
    port: jump.port,
    username: jump.username,
    host_keys: [{ sha256: jump.hostKeySha256, expires_at: null }],
  });
  const secret = () => ({ private_key: target.privateKey });
  const hopSecret = () => ({ private_key: jump.privateKey });
  const create = async (name: string, via: object) =>
    ask('POST', '', { ...server(name), ...secret(), via });
  const stepsOf = ({ body }: { body: unknown }) =>
    String(body)
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);

  test.skipIf(whyNot !== null)(
    'shows the hop without its secrets, and moves files over it',
    async () => {
      const { status, body } = await create('behind', { ...hop(), ...hopSecret() });
      expect({ status, via: body.via }).toEqual({ status: 201, via: hop() });
      expect(stepsOf(await ask('POST', `/${body.id}/test`))).toMatchObject([
        { step: 'resolve', ok: true },
        {
          step: 'via',
          ok: true,
          detail: `the jump host ${jump.host}:${jump.port} connects to ${target.host}`,
        },
        { step: 'connect', ok: true, detail: target.hostKeySha256 },
        { step: 'sign_in', ok: true },
        { step: 'list', ok: true },
        { step: 'write', ok: true },
        { step: 'rename', ok: true },
        { step: 'read', ok: true },
        { step: 'remove', ok: true },
        { type: 'result', ok: true },
      ]);
      const roles = await startRoles(api.installation);
      try {
        await writeFile(join(target.root, 'report'), 'of a transfer');
        const id = await submit(api.installation, 'sftp://behind/report', 'sftp://behind/copy');
        await untilStatus(api.installation, id, 'completed');
        expect(await readFile(join(target.root, 'copy'), 'utf8')).toBe('of a transfer');
      } finally {
        await roles.stop();
      }
      const events = await api.installation.store.read(`endpoint-${body.id}`);
      expect(JSON.stringify(events.map(({ data }) => data))).not.toContain('PRIVATE KEY');
    },
  );

  test.skipIf(whyNot !== null)('names the hop that fails, and what to do', async () => {
    const wrong = { ...hop(), host_keys: [{ sha256: target.hostKeySha256 }] };
    const steps = stepsOf(
      await ask('POST', '/test', {
        ...server('unsaved'),
        ...secret(),
        via: { ...wrong, ...hopSecret() },
      }),
    );
    expect(steps.slice(1)).toMatchObject([
      {
        step: 'via',
        ok: false,
        code: 'host_key_mismatch',
        message: expect.stringContaining(
          `The jump host ${jump.host}:${jump.port}: The server presents the host key ${jump.hostKeySha256}`,
        ),
        advice: expect.stringContaining('`host_keys` of `via`'),
      },
      { type: 'result', ok: false, fingerprint: null },
    ]);
  });

  test.skipIf(whyNot !== null)('keeps its credentials for the same hop only', async () => {
    const { body } = await create('kept', { ...hop(), ...hopSecret() });
    const put = (more: object) => ask('PUT', `/${body.id}`, { ...server('kept'), ...more });
    const errors = (...fields: string[]) => ({
      status: 400,
      body: { errors: fields.map((field) => expect.objectContaining({ field })) },
    });

    expect(await put({ via: hop(), max_connections: 3 })).toMatchObject({
      status: 200,
      body: { max_connections: 3, via: hop() },
    });
    expect(stepsOf(await ask('POST', `/${body.id}/test`)).at(-1)).toMatchObject({ ok: true });
    expect(await put({ via: { ...hop(), port: await freePort() } })).toMatchObject(
      errors('password'),
    );
    expect(await put({})).toMatchObject(errors('password'));
    // Both are one record in the vault.
    expect(await put({ via: { ...hop(), ...hopSecret() } })).toMatchObject(errors('password'));
    expect(await put({ ...secret(), via: hop() })).toMatchObject(errors('via.password'));
    expect(await put({ ...secret() })).toMatchObject({ status: 200, body: { via: null } });
    expect(stepsOf(await ask('POST', `/${body.id}/test`)).at(-1)).toMatchObject({ ok: true });
  });

  test.skipIf(whyNot !== null).each<[Record<string, unknown>, string]>([
    [{ type: 'ssh', username: null }, 'via.username'],
    [{ type: 'ssh', passphrase: CANARY, password: CANARY }, 'via.passphrase'],
    [{ type: 'http', password: CANARY, host_keys: [{ sha256: 'x' }] }, 'via.host_keys[0].sha256'],
    [{ type: 'http', private_key: CANARY }, 'via.private_key'],
    [{ type: 'http', username: null, password: CANARY }, 'via.username'],
    [{ type: 'socks5' }, 'via.password'],
    // The proxy would get another user name or password than this.
    [{ type: 'http', username: 'me:too', password: CANARY }, 'via.username'],
    [{ type: 'socks5', username: 'é'.repeat(128), password: CANARY }, 'via.username'],
    [{ type: 'socks5', password: 'x'.repeat(256) }, 'via.password'],
    [{ type: 'carrier-pigeon' }, 'via.type'],
    [{ type: 'http', host: 'a b', password: CANARY }, 'via.host'],
  ])('rejects %j at %s', async (changes, field) => {
    const via = { host: 'gateway.example.com', username: 'me', ...changes };
    const { status, body } = await create('rejected', via);
    expect(status).toBe(400);
    expect(body.errors).toContainEqual(expect.objectContaining({ field }));
  });

  test.skipIf(whyNot !== null)('is not possible where the protocol cannot take it', async () => {
    const via = { type: 'ssh', host: 'gateway.example.com', username: 'me', password: CANARY };
    const s3 = { protocol: 's3', bucket: 'b', access_key_id: 'i', secret_access_key: CANARY };
    expect(await ask('POST', '', { name: 'no', ...s3, via })).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'via.type' }] },
    });
    const ftps = { protocol: 'ftps', host: 'h', username: 'u', password: CANARY };
    expect(await ask('POST', '', { name: 'no', ...ftps, via })).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'via', message: 'is not a known field' }] },
    });
  });
});
