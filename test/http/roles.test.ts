import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROLE_SCOPES, ROLES, type Role } from '../../src/domain/role.ts';
import type { Scope } from '../../src/domain/scope.ts';
import { createHttpServer } from '../../src/http/app.ts';
import { startApi, type TestApi } from '../support/http/api.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/roles.md'), 'utf8');
const TRANSFER = {
  source_uri: 'sftp://files.example.com/out/report.csv',
  destination_uri: 's3://archive/in/',
};

/** The rows of the table below a heading of the guide, without its heading. */
function tableUnder(heading: string): string[][] {
  const section = GUIDE.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| '));
  return rows.slice(1).map((row) => row.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '')));
}
const code = (text: string) => `\`${text}\``;

interface Route {
  method: string;
  url: string;
  open: boolean;
  scope: Scope | undefined;
}

describeWithPostgres('roles', () => {
  let api: TestApi;
  const keys = {} as Record<Role, string>;

  beforeAll(async () => {
    api = await startApi();
    const admin = (await api.createKey(['admin'])).key;
    for (const role of ROLES) {
      const json = { name: `a ${role}`, role };
      const created = await api.ask('POST', '/v1/keys', { key: admin, json });
      expect(created).toMatchObject({ status: 201, body: { role, scopes: ROLE_SCOPES[role] } });
      keys[role] = created.body.key;
    }
  });
  afterAll(() => api?.close());

  /** Every route of the service that needs a key, or belongs to the API. */
  async function routesOfApp(): Promise<Route[]> {
    const routes: Route[] = [];
    const app = createHttpServer({
      ...api.installation,
      rateLimit: 1,
      trustedProxies: [],
      health: { ready: async () => ({ ready: true, checks: {} }) },
      metrics: new Registry(),
    });
    app.addHook('onRoute', ({ method, url, config }) => {
      for (const each of [method].flat())
        routes.push({ method: each, url, open: config?.open ?? false, scope: config?.scope });
    });
    await app.ready();
    await app.close();
    return routes.filter(
      ({ method, url, scope }) =>
        !['HEAD', 'OPTIONS'].includes(method) && (url.startsWith('/v1/') || scope !== undefined),
    );
  }

  /** The status of a request, without its answer: some answers do not end. */
  async function statusOf(method: string, path: string, key: string): Promise<number> {
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(api.url + path, { method, headers });
    await response.body?.cancel();
    return response.status;
  }

  test('may do on each route what docs/roles.md says', async () => {
    const routes = await routesOfApp();
    expect(routes.length).toBeGreaterThan(40);
    const found: string[][] = [];
    for (const { method, url, open, scope } of routes) {
      const path = url.replace(/:\w+/g, 'x');
      const statuses = await Promise.all(ROLES.map((role) => statusOf(method, path, keys[role])));
      const allowed = statuses.map((status) => (status === 403 ? '' : 'yes'));
      const needs = open ? 'none' : scope === undefined ? 'any' : code(scope);
      const shown = url.replace(/:(\w+)/g, '{$1}');
      found.push([code(`${method} ${shown}`), needs, ...allowed]);
    }
    const byName = (rows: string[][]) => rows.map((row) => row.join(' | ')).toSorted();
    expect(byName(tableUnder('Routes'))).toEqual(byName(found));
  });

  test('have the scopes that docs/roles.md lists', () => {
    const rows = ROLES.map((role) => [code(role), ROLE_SCOPES[role].map(code).join(', ')]);
    expect(tableUnder('Roles').map(([role, , scopes]) => [role, scopes])).toEqual(rows);
  });

  test('act on their own account; auditors read the whole log', async () => {
    const other = await api.createKey(['admin'], { account: 'acc_other' });
    const ask = (role: Role, method: string, path: string, json?: unknown) =>
      api.ask(method, path, { key: keys[role], ...(json !== undefined && { json }) });
    const foreign = (await api.ask('POST', '/v1/transfers', { key: other.key, json: TRANSFER }))
      .body.id;
    const own = (await ask('operator', 'POST', '/v1/transfers', TRANSFER)).body.id;
    expect(own).toMatch(/^txr_/);
    expect((await ask('viewer', 'GET', `/v1/transfers/${own}`)).status).toBe(200);
    for (const path of [`/v1/transfers/${foreign}`, `/v1/transfers/live?transfer_id=${foreign}`])
      expect((await ask('viewer', 'GET', path)).status).toBe(404);
    expect((await ask('operator', 'POST', `/v1/transfers/${foreign}/abort`)).status).toBe(404);
    expect((await ask('admin', 'POST', `/v1/transfers/${foreign}/abort`)).status).toBe(409);
    expect((await ask('auditor', 'GET', '/v1/events')).body).toContain(foreign);
    expect((await api.ask('GET', '/v1/events')).body).not.toContain(foreign);

    const s3 = { protocol: 's3', bucket: 'b', access_key_id: 'i', secret_access_key: 's' };
    const json = { ...s3, name: 'foreign', bucket: 'other', accounts: ['acc_other'] };
    const hidden = (await ask('admin', 'POST', '/v1/endpoints', json)).body;
    const names = async (role: Role) =>
      (await ask(role, 'GET', '/v1/endpoints')).body.data.map(({ name }: { name: string }) => name);
    expect(await names('operator')).toEqual(['archive']);
    expect(await names('admin')).toEqual(['archive', 'foreign']);
    expect((await ask('operator', 'POST', `/v1/endpoints/${hidden.id}/pause`)).status).toBe(404);
    const [archive] = (await ask('operator', 'GET', '/v1/endpoints')).body.data;
    const pause = `/v1/endpoints/${archive.id}`;
    expect(await ask('operator', 'POST', `${pause}/pause`)).toMatchObject({
      status: 200,
      body: { paused: true },
    });
    expect(await ask('operator', 'POST', `${pause}/resume`)).toMatchObject({ status: 200 });
    // A test of other settings would connect to any server.
    expect(
      await ask('operator', 'POST', `${pause}/test`, { ...s3, name: 'archive' }),
    ).toMatchObject({
      status: 403,
      body: { required_scope: 'admin' },
    });
  });

  test('sign in to the console with a key, and see its account alone', async () => {
    const headers = { 'sec-fetch-site': 'same-origin' };
    const json = { api_key: keys.viewer };
    const answer = await api.ask('POST', '/v1/session', { key: null, headers, json });
    expect(answer).toMatchObject({
      status: 201,
      body: { key_name: 'a viewer', person: null, roles: ['viewer'], accounts: ['acc_default'] },
    });
    const cookie = answer.headers.get('set-cookie')?.split(';')[0] as string;
    const ask = (method: string, path: string, more = {}) =>
      api.ask(method, path, { key: null, headers: { ...headers, cookie }, ...more });
    expect((await ask('GET', '/v1/transfers')).status).toBe(200);
    expect((await ask('POST', '/v1/transfers', { json: TRANSFER })).status).toBe(403);
    expect(
      await ask('PUT', '/v1/session/account', { json: { account: 'acc_other' } }),
    ).toMatchObject({ status: 400 });
  });

  test.each([
    [{}, 'scopes'],
    [{ role: 'viewer', scopes: ['admin'] }, 'scopes'],
    [{ role: 'root' }, 'role'],
  ])('are given to a key or not: %j', async (given, field) => {
    const json = { name: 'x', ...given };
    expect(await api.ask('POST', '/v1/keys', { key: keys.admin, json })).toMatchObject({
      status: 400,
      body: { errors: [{ field }] },
    });
  });
});
