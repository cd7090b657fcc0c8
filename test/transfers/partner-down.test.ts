import { Writable } from 'node:stream';
import pino from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { saveEndpoint } from '../../src/commands/save-endpoint.ts';
import { endpointRequest } from '../../src/contract/endpoints/requests.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { freePort } from '../support/network/free-port.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE } from '../support/service/installation.ts';
import { type RunningRoles, startRoles } from '../support/service/roles.ts';

const KEY = `SHA256:${'A'.repeat(43)}`;

/** Endpoints at closed ports. */
const DOWN: Record<string, (port: number) => Record<string, unknown>> = {
  sftp: (port) => ({
    host: '127.0.0.1',
    port,
    base_path: '/',
    username: 'me',
    password: 'secret',
    host_key_sha256: KEY,
  }),
  ftps: (port) => ({
    host: '127.0.0.1',
    port,
    tls: 'explicit',
    base_path: '/',
    username: 'me',
    password: 'secret',
  }),
  s3: (port) => ({
    bucket: 'archive',
    endpoint_url: `http://127.0.0.1:${port}`,
    access_key_id: 'id',
    secret_access_key: 'secret',
  }),
  azure: (port) => ({
    account: 'archive',
    container: 'archive',
    endpoint_url: `http://127.0.0.1:${port}/archive`,
    account_key: Buffer.alloc(32).toString('base64'),
  }),
};

describeWithPostgres('a partner that is down', () => {
  let api: TestApi;
  let mover: RunningRoles;
  const lines: Record<string, unknown>[] = [];
  beforeAll(async () => {
    api = await startApi();
    const logger = pino(
      { level: 'info' },
      new Writable({
        write(line, _encoding, done) {
          lines.push(JSON.parse(String(line)));
          done();
        },
      }),
    );
    mover = await startRoles({ ...api.installation, logger }, ['mover']);
  });
  afterAll(async () => {
    await mover?.stop();
    await api?.close();
  });

  test.each(Object.keys(DOWN))('has a reason in the log, and no stack: %s', async (protocol) => {
    const name = `down-${protocol}`;
    const request = { name, protocol, ...DOWN[protocol]?.(await freePort()) };
    await saveEndpoint(api.installation.commands, endpointRequest.parse(request), CAUSE);
    const { status, body } = await api.ask('POST', '/v1/transfers', {
      json: { source_uri: `${protocol}://${name}/file`, destination_uri: 's3://archive/in/' },
    });
    expect(status).toBe(201);
    const ofTransfer = () => lines.filter(({ transfer_id }) => transfer_id === body.id);
    await expect.poll(() => ofTransfer().length, { timeout: 30_000 }).toBeGreaterThan(0);
    expect(ofTransfer()).toMatchObject([
      {
        level: 30,
        msg: 'an attempt failed',
        code: 'connection_failed',
        reason: expect.stringContaining('127.0.0.1'),
      },
    ]);
    expect(JSON.stringify(lines)).not.toContain('stack');
    expect(lines.filter(({ level }) => Number(level) > 40)).toEqual([]);
  });
});
