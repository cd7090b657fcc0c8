import { randomBytes, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sql } from '../../src/adapters/postgres/connect.ts';
import { createKey } from '../../src/commands/keys.ts';
import { keyRequest } from '../../src/contract/keys.ts';
import { PROCESS_ROLES } from '../../src/process-roles.ts';
import { type SftpServer, startSftpServer } from '../support/file-servers/sftp/server.ts';
import { startSshSignInServer } from '../support/file-servers/sftp/sign-in-server.ts';
import {
  CAUSE,
  configureSftp,
  openTestInstallation,
  submit,
  type TestInstallation,
  untilStatus,
} from '../support/service/installation.ts';
import { type SpawnedService, spawnService } from '../support/service/roles.ts';
import { describeTransfers, until } from '../support/service/transfers.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhooks/receiver.ts';

await describeTransfers('secrets', () => {
  let installation: TestInstallation;
  let alpha: SftpServer;
  let service: SpawnedService;
  let receiver: WebhookReceiver;

  beforeAll(async () => {
    [installation, alpha, receiver] = await Promise.all([
      openTestInstallation({
        WAYBILL_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
        WAYBILL_WEBHOOK_RETRY_DELAYS: '1ms',
      }),
      startSftpServer(),
      startWebhookReceiver({
        behaviour: ({ body }) => (body.includes('transfer.failed') ? 500 : 200),
      }),
    ]);
    service = await spawnService(
      { ...installation.environment, WAYBILL_LOG_LEVEL: 'trace' },
      PROCESS_ROLES,
    );
  });
  afterAll(async () => {
    await service?.kill();
    await Promise.all([installation?.close(), alpha?.stop(), receiver?.close()]);
  });

  test('are in no table, no log line and no answer, whatever happens', async () => {
    const password = `Kanärie/+?&%="${randomBytes(12).toString('base64url')}`;
    const refused = await startSshSignInServer('password', 'another');
    const passphrase = alpha.protectedKey.passphrase;
    const { key } = await createKey(
      installation.commands,
      keyRequest.parse({
        name: 'canary',
        scopes: ['transfers:write', 'webhooks:write', 'audit:read', 'metrics:read'],
      }),
      CAUSE,
      { allowNever: false },
    );
    const masterKey = installation.environment.WAYBILL_MASTER_KEY as string;
    const keyLines = [alpha.privateKey, alpha.protectedKey.privateKey].flatMap((pem) =>
      pem.split('\n').filter((line) => line.length > 60),
    );
    const signing = await registerWebhooks(service, key, receiver.url);
    const secrets = [password, passphrase, key, masterKey, ...keyLines, ...signing];

    writeFileSync(join(alpha.root, 'file'), 'file');
    await configureSftp(installation, 'alpha', alpha, {
      private_key: alpha.protectedKey.privateKey,
      passphrase,
    });
    await configureSftp(installation, 'beta', alpha);
    await configureSftp(
      installation,
      'refusing',
      { ...alpha, port: refused.port },
      { password, host_key_sha256: refused.hostKeySha256 },
    );
    await configureSftp(installation, 'broken', alpha, { password });
    await installation.sql`
      update work.vault set ciphertext = '\\x00'
       where id = (select state ->> 'credentials_record' from read.endpoints
        where name = 'broken')`;

    const moved = await submit(installation, 'sftp://alpha/file', 'sftp://beta/copy');
    const unsigned = await submit(installation, 'sftp://refusing/file', 'sftp://beta/unsigned');
    const unforeseen = await submit(installation, 'sftp://alpha/file', 'sftp://broken/unforeseen');
    await untilStatus(installation, moved, 'completed');
    expect((await untilStatus(installation, unsigned, 'failed')).facts.error?.code).toBe(
      'auth_failed',
    );
    expect(refused.attempts).toContainEqual({ method: 'password', password });
    const error = await until(
      'the unforeseen error',
      async () => (await untilStatus(installation, unforeseen, 'queued')).facts.error,
    );
    expect(error.code).toBe('internal_error');

    await until(
      'a failed delivery',
      async () =>
        (await installation.sql`select from work.deliveries where status = 'failed'`).length > 0,
    );

    const answers = await askAround(service, {
      key,
      password,
      transferIds: [moved, unsigned, unforeseen],
    });
    await service.stop();
    await refused.stop();

    const places: Record<string, string> = {
      ...(await everyTable(installation.sql)),
      'the log of the service': service.output(),
      'answers of the API': answers,
    };
    // They do contain the events.
    for (const place of ['log.events', 'the log of the service', 'answers of the API'])
      expect(places[place]).toContain(unforeseen);
    expect(places['work.vault']).toContain('endpoint-credentials');
    expect(places['work.vault']).toContain('webhook-secret');
    expect(places['work.idempotency_keys']).toContain('whk_');
    expect(places['work.deliveries']).toContain(unsigned);
    const found = Object.entries(places).flatMap(([place, text]) =>
      secrets.flatMap((secret) =>
        disguises(secret).flatMap(([disguise, looks]) =>
          text.includes(looks) ? [`${secret} (${disguise}) in ${place}`] : [],
        ),
      ),
    );
    expect(found).toEqual([]);
  });

  test('the search finds a secret in every encoding', () => {
    const secret = 'Kanärie/+?&%="abc';
    const inside = (text: string) => disguises(secret).some(([, looks]) => text.includes(looks));
    const bytes = Buffer.from(`before ${secret} after`);
    expect(inside(bytes.toString())).toBe(true);
    expect(inside(JSON.stringify({ nested: JSON.stringify({ secret }) }))).toBe(true);
    expect(inside(bytes.toString('hex'))).toBe(true);
    for (const skipped of [0, 1, 2]) {
      expect(inside(bytes.subarray(skipped).toString('base64'))).toBe(true);
      expect(inside(bytes.subarray(skipped).toString('base64url'))).toBe(true);
    }
    expect(inside(encodeURIComponent(secret))).toBe(true);
    expect(inside(new URL(`http://host/?q=${secret}`).href)).toBe(true);
    expect(inside('nothing of the kind')).toBe(false);
  });
});

/** Registers webhooks with every source of a secret, and returns the secrets. */
async function registerWebhooks(
  service: SpawnedService,
  key: string,
  receiver: string,
): Promise<string[]> {
  const post = async (path: string, body: unknown) => {
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'idempotency-key': randomUUID(),
    };
    const response = await fetch(baseUrl(service) + path, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    expect(response.ok).toBe(true);
    return (await response.json()) as { id: string; secret: string };
  };
  const chosen = `Kanärie/+?&%="${randomBytes(12).toString('base64url')}`;
  const { id, secret } = await post('/v1/webhooks', {
    url: receiver,
    events: ['transfer.created', 'transfer.failed'],
  });
  const { secret: rotated } = await post(`/v1/webhooks/${id}/rotate-secret`, {});
  await post(`/v1/webhooks/${id}/rotate-secret`, { secret: chosen });
  // Without its start, which is the same for all.
  return [secret, rotated].map((text) => text.slice('whsec_'.length)).concat(chosen);
}

function baseUrl(service: SpawnedService): string {
  return /"url":"(http[^"]+)"/.exec(service.output())?.[1] as string;
}

/**
 * Returns bodies and headers of the API's answers to good and bad requests. The bad ones contain
 * secrets in wrong places.
 */
async function askAround(
  service: SpawnedService,
  { key, password, transferIds }: { key: string; password: string; transferIds: string[] },
): Promise<string> {
  const url = baseUrl(service);
  const authorization = `Bearer ${key}`;
  const encoded = encodeURIComponent(password);
  const post = (body: string, headers: Record<string, string> = {}): [string, RequestInit] => [
    '/v1/transfers',
    {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', ...headers },
      body,
    },
  ];
  const good = { source_uri: 'sftp://alpha/file', destination_uri: 'sftp://beta/by-api' };
  const requests: [string, RequestInit][] = [
    ...transferIds.flatMap((id): [string, RequestInit][] => [
      [`/v1/transfers/${id}`, { headers: { authorization } }],
      [`/v1/transfers/${id}/events`, { headers: { authorization } }],
    ]),
    ['/v1/transfers', { headers: { authorization } }],
    ['/v1/webhooks', { headers: { authorization } }],
    ['/v1/events', { headers: { authorization } }],
    ['/metrics', { headers: { authorization } }],
    ['/health/ready', {}],
    [`/v1/transfers?api_key=${key}`, {}],
    [`/v1/transfers?password=${encoded}`, { headers: { authorization } }],
    ['/v1/transfers', { headers: { authorization: `Bearer ${key}x` } }],
    [
      '/v1/transfers',
      { headers: { authorization: `Basic ${Buffer.from(`user:${password}`).toString('base64')}` } },
    ],
    post(JSON.stringify(good)),
    post(JSON.stringify({ ...good, source_uri: `sftp://user:${encoded}@alpha/file` })),
    post(JSON.stringify({ ...good, destination_uri: `sftp://user:${encoded}@beta/file` })),
    post(JSON.stringify({ ...good, password })),
    post(JSON.stringify({ ...good, priority: password })),
    post(`{"password":${JSON.stringify(password)}`),
    post(password, { 'content-type': 'text/plain' }),
  ];
  const answers: string[] = [];
  for (const [path, request] of requests) {
    const response = await fetch(url + path, request);
    answers.push(JSON.stringify([...response.headers]), await response.text());
  }
  return answers.join('\n');
}

/** All rows of all tables, as text, by the name of the table. */
async function everyTable(sql: Sql): Promise<Record<string, string>> {
  const tables = await sql<{ schema: string; name: string }[]>`
    select n.nspname as schema, c.relname as name from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'm') and n.nspname not in ('pg_catalog', 'information_schema')
       and n.nspname not like 'pg_toast%'`;
  const dumps = tables.map(async ({ schema, name }) => {
    const rows = await sql<
      { text: string }[]
    >`select t::text as text from ${sql(schema)}.${sql(name)} t`;
    return [`${schema}.${name}`, rows.map(({ text }) => text).join('\n')] as const;
  });
  return Object.fromEntries(await Promise.all(dumps));
}

/**
 * Returns a secret in the encodings that programs use. In base64, only the characters that do not
 * depend on the neighbours.
 */
function disguises(secret: string): [string, string][] {
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].flatMap((offset) => {
    const shifted = Buffer.concat([Buffer.alloc(offset), bytes]);
    const inner = (text: string) =>
      text.slice(offset === 0 ? 0 : 4, Math.floor((offset + bytes.length) / 3) * 4);
    return [inner(shifted.toString('base64')), inner(shifted.toString('base64url'))].map(
      (text): [string, string] => ['base64', text],
    );
  });
  const inJson = JSON.stringify(secret).slice(1, -1);
  return [
    ['as it is', secret],
    ['JSON', inJson],
    ['JSON in JSON', JSON.stringify(inJson).slice(1, -1)],
    ['a row as text', secret.replaceAll('"', '""').replaceAll('\\', '\\\\')],
    ['hex', bytes.toString('hex')],
    ['URL', encodeURIComponent(secret)],
    ['URL', encodeURI(secret)],
    ['URL', new URL(`http://host/?${secret}`).search.slice(1)],
    ...base64,
  ];
}
